//! The columns of the destinations that share a lane.
//!
//! The search for paths to one destination goes from the destination outwards, the cheapest switch
//! next, as Dijkstra's, but a switch joins only where its turn into the path closes no cycle. A
//! switch that no such turn leads to may move a neighbour to another path; where that fails as
//! well, the whole destination goes along a spanning tree, whose turns are in use from the
//! beginning and therefore never close a cycle.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::engine::columns::{Column, NO_GROUP};
use crate::engine::levels;
use crate::engine::turns::Turns;
use crate::topology::{SwitchIdx, Topology};

/// The cost of a hop. Paths of fewer hops win under any load: fewer than 2^32 paths lie on a
/// channel, and 4,096 hops of them are less.
const HOP: u64 = 1 << 44;

/// The most that load adds to the cost of a channel.
const MOST_LOAD: u64 = (1 << 32) - 1;

/// No channel.
const NONE: u32 = u32::MAX;

/// Columns of some destinations, and the number on the spanning tree.
pub(super) struct Layer {
    /// (destination, its column).
    pub(super) columns: Vec<(SwitchIdx, Column)>,
    /// Destinations that had to take the spanning tree.
    pub(super) on_tree: usize,
}

/// Whether cycles of channels matter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cycles {
    /// No turn that closes one is taken.
    Avoided,
    /// All turns are free.
    Ignored,
}

/// Routes to `destinations`, in their order.
pub(super) fn route(topology: &Topology, destinations: &[SwitchIdx], cycles: Cycles) -> Layer {
    let mut router = Router::new(topology, cycles);
    let mut layer = Layer {
        columns: Vec::with_capacity(destinations.len()),
        on_tree: 0,
    };
    for &destination in destinations {
        if !router.reach(destination) {
            layer.on_tree += 1;
            router.follow_tree(destination);
        }
        router.add_load(destination);
        layer.columns.push((destination, router.column()));
    }
    layer
}

struct Router<'a> {
    topology: &'a Topology,
    cycles: Cycles,
    turns: Turns<'a>,
    /// By channel: whether it is in the spanning tree.
    in_tree: Vec<bool>,
    /// By channel: paths, and how much slower it is than the fastest.
    load: Vec<u64>,
    slowness: Vec<u64>,
    hosts: Vec<u64>,
    /// By switch, for the current destination: the channel it goes by, and the cost of its path.
    next: Vec<u32>,
    cost: Vec<u64>,
    settled: Vec<bool>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Turns that this destination was the first to use.
    taken: Vec<(u32, u32)>,
}

impl<'a> Router<'a> {
    fn new(topology: &'a Topology, cycles: Cycles) -> Router<'a> {
        let turns = Turns::new(topology);
        let rate = |channel: u32| -> u64 {
            let links = topology.group(channel as usize).links;
            links.iter().map(|link| u64::from(link.weight)).sum()
        };
        let channels = turns.channels() as u32;
        let fastest = (0..channels).map(rate).max().unwrap_or(1);
        let count = topology.switch_count();
        let mut router = Router {
            topology,
            cycles,
            in_tree: vec![false; turns.channels()],
            load: vec![0; turns.channels()],
            slowness: (0..channels)
                .map(|channel| fastest.div_ceil(rate(channel)))
                .collect(),
            turns,
            hosts: topology
                .indices()
                .map(|switch| topology.hosts(switch) as u64)
                .collect(),
            next: vec![NONE; count],
            cost: vec![0; count],
            settled: vec![false; count],
            heap: BinaryHeap::new(),
            taken: Vec::new(),
        };
        if cycles == Cycles::Avoided {
            router.grow_tree();
        }
        router
    }

    /// A spanning tree of each part, by distance from its middle, with all of its turns in use.
    fn grow_tree(&mut self) {
        let topology = self.topology;
        let centres = levels::centres(topology);
        let distance = levels::distances(topology, &centres);
        for switch in topology.indices() {
            let own = distance[switch.index()];
            let up = self.turns.out_of(switch).find(|&channel| {
                let above = distance[self.turns.to(channel).index()];
                own.is_some_and(|own| above.is_some_and(|above| above + 1 == own))
            });
            if let Some(channel) = up {
                self.in_tree[channel as usize] = true;
                self.in_tree[self.turns.reverse(channel) as usize] = true;
            }
        }
        for channel in (0..self.turns.channels() as u32).filter(|&c| self.in_tree[c as usize]) {
            for next in self.turns.out_of(self.turns.to(channel)) {
                if self.in_tree[next as usize] && next != self.turns.reverse(channel) {
                    // The turns of a tree close no cycle.
                    self.turns.take(channel, next);
                }
            }
        }
    }

    fn weight(&self, channel: u32) -> u64 {
        let channel = channel as usize;
        HOP + (self.load[channel].saturating_mul(self.slowness[channel])).min(MOST_LOAD)
    }

    fn clear(&mut self) {
        self.next.fill(NONE);
        self.settled.fill(false);
        self.heap.clear();
        self.taken.clear();
    }

    /// Finds paths from every switch of the destination's part. On failure takes back the turns
    /// that it took.
    fn reach(&mut self, destination: SwitchIdx) -> bool {
        self.clear();
        let part = &self.topology.components()[self.topology.component_of(destination)];
        let mut missing = part.switches.len();
        missing -= 1;
        self.settle(destination, 0);
        loop {
            while let Some(Reverse((cost, channel))) = self.heap.pop() {
                let switch = self.turns.from(channel);
                if self.settled[switch.index()] || !self.join(channel, destination) {
                    continue;
                }
                self.next[switch.index()] = channel;
                self.settle(switch, cost);
                missing -= 1;
            }
            if missing == 0 {
                return true;
            }
            let lost = part
                .switches
                .iter()
                .copied()
                .filter(|s| !self.settled[s.index()]);
            let lost: Vec<SwitchIdx> = lost.collect();
            if !lost
                .into_iter()
                .any(|switch| self.persuade(switch, destination))
            {
                let taken = std::mem::take(&mut self.taken);
                self.turns.take_back(&taken);
                return false;
            }
            missing -= 1;
        }
    }

    fn settle(&mut self, switch: SwitchIdx, cost: u64) {
        self.settled[switch.index()] = true;
        self.cost[switch.index()] = cost;
        let onward = self.next[switch.index()];
        for out in self.turns.out_of(switch) {
            let channel = self.turns.reverse(out);
            let is_open = onward == NONE || !self.turns.is_blocked(channel, onward);
            if !self.settled[self.turns.from(channel).index()] && is_open {
                self.heap
                    .push(Reverse((cost + self.weight(channel), channel)));
            }
        }
    }

    /// Takes the turn from `channel` into the path of the switch that it leads to.
    fn join(&mut self, channel: u32, destination: SwitchIdx) -> bool {
        let to = self.turns.to(channel);
        let is_free = self.cycles == Cycles::Ignored || to == destination;
        is_free || self.take(channel, self.next[to.index()])
    }

    fn take(&mut self, input: u32, output: u32) -> bool {
        match self.turns.take(input, output) {
            None => false,
            Some(is_new) => {
                if is_new {
                    self.taken.push((input, output));
                }
                true
            }
        }
    }

    /// Settles `lost` by way of a neighbour that takes another path for it, with all that already
    /// go by that neighbour.
    fn persuade(&mut self, lost: SwitchIdx, destination: SwitchIdx) -> bool {
        for channel in self.turns.out_of(lost) {
            let neighbour = self.turns.to(channel);
            if !self.settled[neighbour.index()] || neighbour == destination {
                continue;
            }
            for onward in self.turns.out_of(neighbour) {
                let beyond = self.turns.to(onward);
                let fits = self.settled[beyond.index()]
                    && onward != self.next[neighbour.index()]
                    && !self.passes(beyond, neighbour)
                    && self.reroute(channel, onward, destination);
                if fits {
                    self.next[neighbour.index()] = onward;
                    self.next[lost.index()] = channel;
                    let cost = self.cost[beyond.index()] + self.weight(onward);
                    self.cost[neighbour.index()] = cost;
                    let cost = cost + self.weight(channel);
                    self.settle(lost, cost);
                    return true;
                }
            }
        }
        false
    }

    /// Whether the path of `from` leads through `through`.
    fn passes(&self, from: SwitchIdx, through: SwitchIdx) -> bool {
        let mut switch = from;
        loop {
            if switch == through {
                return true;
            }
            match self.next[switch.index()] {
                NONE => return false,
                channel => switch = self.turns.to(channel),
            }
        }
    }

    /// Takes all turns that a switch needs to go on by `onward`, with `newcomer` coming in by its
    /// channel; none of them if not all can be had.
    fn reroute(&mut self, newcomer: u32, onward: u32, destination: SwitchIdx) -> bool {
        let before = self.taken.len();
        let inputs: Vec<u32> = self
            .turns
            .out_of(self.turns.from(onward))
            .map(|out| self.turns.reverse(out))
            .filter(|&input| {
                input == newcomer || self.next[self.turns.from(input).index()] == input
            })
            .collect();
        let fits = self.join(onward, destination)
            && inputs.into_iter().all(|input| self.take(input, onward));
        if !fits {
            let surplus = self.taken.split_off(before);
            self.turns.take_back(&surplus);
        }
        fits
    }

    /// Gives every switch of the destination's part its path along the spanning tree.
    fn follow_tree(&mut self, destination: SwitchIdx) {
        self.clear();
        let mut queue = vec![destination];
        self.settled[destination.index()] = true;
        let mut done = 0;
        while let Some(&switch) = queue.get(done) {
            done += 1;
            for out in self
                .turns
                .out_of(switch)
                .filter(|&out| self.in_tree[out as usize])
            {
                let other = self.turns.to(out);
                if !std::mem::replace(&mut self.settled[other.index()], true) {
                    self.next[other.index()] = self.turns.reverse(out);
                    queue.push(other);
                }
            }
        }
    }

    /// Adds the load of packets from hosts to the destination's own hosts to the channels.
    fn add_load(&mut self, destination: SwitchIdx) {
        let mut waiting = vec![0u32; self.next.len()];
        for &channel in self.next.iter().filter(|&&channel| channel != NONE) {
            waiting[self.turns.to(channel).index()] += 1;
        }
        let mut flow = self.hosts.clone();
        let starts = self
            .topology
            .indices()
            .filter(|switch| waiting[switch.index()] == 0);
        let mut free: Vec<SwitchIdx> = starts.collect();
        while let Some(switch) = free.pop() {
            let channel = self.next[switch.index()];
            if channel == NONE {
                continue;
            }
            let flows = flow[switch.index()];
            self.load[channel as usize] += flows * self.hosts[destination.index()];
            let to = self.turns.to(channel).index();
            flow[to] += flows;
            waiting[to] -= 1;
            if waiting[to] == 0 {
                free.push(SwitchIdx(to as u32));
            }
        }
    }

    fn column(&self) -> Column {
        self.topology
            .indices()
            .map(|switch| match self.next[switch.index()] {
                NONE => NO_GROUP,
                // At most 254 groups to a switch.
                channel => (channel as usize - self.topology.group_range(switch).start) as u8,
            })
            .collect()
    }
}
