//! Follows the packets to one LID from all switches at once.
//!
//! Unless packets loop, the next switches for a LID form a forest. In an order in which every
//! switch comes before its next switch, a single pass adds up the sources. The LIDs of one switch
//! usually have equal distances: the order that was found for one LID then serves the other LIDs,
//! which may come much later. If each switch's next switch is one hop nearer, all packets arrive.

use std::collections::VecDeque;

use rsm_ids::{Lid, PortNum};

use super::Witness;
use super::fabric::{Fabric, Sources};
use crate::tables::NO_PATH;
use crate::topology::{Destination, EndpointKind, SwitchIdx};

/// The outcome for the packets to one LID.
#[derive(Default)]
pub(super) struct Outcome {
    /// The numbers of ports whose packets arrived.
    pub(super) arrived: Sources,
    /// Whether some packets loop.
    pub(super) has_loop: bool,
}

/// The sums over all walks, and memory for reuse.
pub(super) struct Walker<'a, 'f> {
    fabric: &'a Fabric<'f>,
    /// The numbers of ports at each switch where packets start.
    starts: &'a [Sources],
    /// The sum of `starts` over each component, by component number.
    starts_of_component: &'a [Sources],
    /// For each channel, the number of paths of pairs of hosts. There are at most as many ports as
    /// LIDs, so that the number stays below 2^32.
    load: Vec<u32>,
    /// For each number of hops, the number of (switch, LID) pairs whose packets arrived after that
    /// many hops.
    hops: Vec<u64>,
    /// For each switch, the next switch for the current LID.
    next: Vec<u16>,
    /// The switches, each before its next switch, as [`Walker::sort`] finds them.
    order: Vec<u16>,
    /// For each switch, the number of switches before it that are not in `order` yet.
    waiting: Vec<u16>,
    /// The numbers of ports whose packets pass each switch; the last element is for packets that
    /// are discarded.
    flow: Vec<Sources>,
    /// The number of hosts whose packets pass each switch.
    hosts: Vec<u32>,
    /// For each switch, the known paths to it.
    known: Vec<Option<Box<KnownPaths>>>,
    /// The switches with known paths, the oldest first.
    kept: VecDeque<usize>,
    /// Distances as in [`KnownPaths::hops`] in which every switch is [`FAR`], for a destination
    /// switch without known paths.
    unknown: Vec<u16>,
}

/// The paths to a destination switch that all switches of its component reach.
struct KnownPaths {
    /// For each number of hops, the number of switches at that distance.
    counts: Vec<u32>,
    /// For each switch, the hops to the destination; [`FAR`] for switches of other components and
    /// for [`Fabric::nowhere`].
    hops: Vec<u16>,
    /// The switches, the farthest first.
    order: Vec<u16>,
}

/// The mark for "no distance": higher than the hops of any path, which passes each switch once.
const FAR: u16 = u16::MAX;

/// The memory of each thread for known paths, in bytes: room for 2,000 leaves among 4,000 switches.
/// If the LIDs of a leaf are consecutive, the paths to one leaf suffice; if leaves alternate, the
/// paths to all leaves are needed.
const KNOWN_BYTES: usize = 32 << 20;

impl<'a, 'f> Walker<'a, 'f> {
    pub(super) fn new(
        fabric: &'a Fabric<'f>,
        starts: &'a [Sources],
        starts_of_component: &'a [Sources],
    ) -> Walker<'a, 'f> {
        let count = fabric.switches;
        Walker {
            fabric,
            starts,
            starts_of_component,
            load: vec![0; fabric.channels()],
            hops: Vec::new(),
            next: vec![0; count],
            order: Vec::with_capacity(count),
            waiting: vec![0; count + 1],
            flow: vec![Sources::default(); count + 1],
            hosts: vec![0; count + 1],
            known: std::iter::repeat_with(|| None).take(count).collect(),
            kept: VecDeque::new(),
            unknown: vec![FAR; count + 1],
        }
    }

    /// Follows the packets from every port to one LID of `destination`; `bytes` holds each switch's
    /// entry for the LID.
    pub(super) fn walk(&mut self, destination: &Destination, bytes: &[u8]) -> Outcome {
        let root = destination.switch.index();
        let delivers = bytes[root] == destination.port.0;
        let follows_known = self.find_next(root, bytes);
        let Some(known) = self.known[root]
            .take()
            .filter(|_| delivers && follows_known)
        else {
            return self.walk_without_known_paths(destination, bytes, delivers);
        };
        if destination.kind.is_host() {
            self.add_load(&known.order, bytes);
        }
        self.add_hops(&known.counts);
        let component = self.fabric.topology.component_of(destination.switch);
        let outcome = Outcome {
            arrived: self.starts_of_component[component],
            has_loop: false,
        };
        self.known[root] = Some(known);
        outcome
    }

    /// Looks up each switch's next switch, and returns whether all next switches are one hop nearer
    /// to `root` by the known distances; false without known distances.
    fn find_next(&mut self, root: usize, bytes: &[u8]) -> bool {
        let known = self.known[root].as_ref();
        let hops = known.map_or(&self.unknown, |known| &known.hops);
        let mut strays = 0;
        for (switch, (next, &byte)) in self.next.iter_mut().zip(bytes).enumerate() {
            let to = self.fabric.next(self.fabric.channel(switch, byte));
            *next = to as u16;
            // FAR + 1 wraps to 0, which only the root has: the test also fails, as it should, for a
            // switch of another component, unless it discards packets.
            let is_nearer = hops[to].wrapping_add(1) == hops[switch];
            let is_disconnected = hops[switch] == FAR && to == self.fabric.nowhere();
            strays += usize::from(!(is_nearer || is_disconnected));
        }
        // The wrapping addition would accept a next switch of the root, which has none.
        let root_stops = usize::from(self.next[root]) == self.fabric.nowhere();
        strays == 0 && root_stops
    }

    /// Adds the paths of all hosts to the load, given the switches with each before its next
    /// switch.
    fn add_load(&mut self, order: &[u16], bytes: &[u8]) {
        for (hosts, starts) in self.hosts.iter_mut().zip(self.starts) {
            *hosts = starts.hosts() as u32;
        }
        for &switch in order {
            let switch = usize::from(switch);
            let hosts = self.hosts[switch];
            if hosts != 0 {
                self.hosts[usize::from(self.next[switch])] += hosts;
                self.load[self.fabric.channel(switch, bytes[switch])] += hosts;
            }
        }
    }

    /// Adds the number of switches at each distance.
    fn add_hops(&mut self, counts: &[u32]) {
        if self.hops.len() < counts.len() {
            self.hops.resize(counts.len(), 0);
        }
        for (hops, &count) in self.hops.iter_mut().zip(counts) {
            *hops += u64::from(count);
        }
    }

    /// Follows the packets without the use of known paths.
    fn walk_without_known_paths(
        &mut self,
        destination: &Destination,
        bytes: &[u8],
        delivers: bool,
    ) -> Outcome {
        let root = destination.switch.index();
        self.sort();
        let nowhere = self.fabric.nowhere();
        self.flow[..nowhere].copy_from_slice(self.starts);
        self.flow[nowhere] = Sources::default();
        for &switch in &self.order {
            let switch = usize::from(switch);
            let flow = self.flow[switch];
            self.flow[usize::from(self.next[switch])] += flow;
        }
        if destination.kind.is_host() {
            let order = std::mem::take(&mut self.order);
            self.add_load(&order, bytes);
            self.order = order;
        }
        let has_loop = self.order.len() < self.fabric.switches;
        if !delivers {
            return Outcome {
                has_loop,
                ..Outcome::default()
            };
        }
        let mut hops = vec![FAR; self.fabric.switches + 1];
        hops[root] = 0;
        let mut counts = vec![1u32];
        // The reverse order has each switch after its next one; a switch whose packets never reach
        // the root stays far.
        for &switch in self.order.iter().rev() {
            let next = usize::from(self.next[usize::from(switch)]);
            if hops[next] != FAR {
                let own = hops[next] + 1;
                hops[usize::from(switch)] = own;
                if counts.len() <= usize::from(own) {
                    counts.resize(usize::from(own) + 1, 0);
                }
                counts[usize::from(own)] += 1;
            }
        }
        let component = self.fabric.topology.component_of(destination.switch);
        let arrived = self.flow[root];
        self.add_hops(&counts);
        let all_arrived = !has_loop && arrived == self.starts_of_component[component];
        if all_arrived {
            // The kept order must serve every LID with these distances, not only this one.
            let mut order = self.order.clone();
            order.sort_by_key(|&switch| std::cmp::Reverse(hops[usize::from(switch)]));
            let known = KnownPaths {
                counts,
                hops,
                order,
            };
            self.keep(root, known);
        }
        Outcome { arrived, has_loop }
    }

    /// Keeps the paths to a switch; forgets the oldest ones if all together exceed [`KNOWN_BYTES`].
    fn keep(&mut self, root: usize, known: KnownPaths) {
        let room = KNOWN_BYTES / (size_of::<u16>() * (known.hops.len() + known.order.len()));
        self.known[root] = Some(Box::new(known));
        self.kept.retain(|&kept| kept != root);
        self.kept.push_back(root);
        if self.kept.len() > room.max(1)
            && let Some(oldest) = self.kept.pop_front()
        {
            self.known[oldest] = None;
        }
    }

    /// Orders the switches so that each comes before its next switch, without switches in cycles
    /// and switches that only packets from cycles reach.
    fn sort(&mut self) {
        self.waiting.fill(0);
        for &next in &self.next {
            self.waiting[usize::from(next)] += 1;
        }
        self.order.clear();
        let first = |switch: &u16| self.waiting[usize::from(*switch)] == 0;
        // There are fewer switches than LIDs.
        let switches = 0..self.fabric.switches as u16;
        self.order.extend(switches.filter(first));
        let mut done = 0;
        while let Some(&switch) = self.order.get(done) {
            done += 1;
            let next = self.next[usize::from(switch)];
            if usize::from(next) != self.fabric.nowhere() {
                let waiting = &mut self.waiting[usize::from(next)];
                *waiting -= 1;
                if *waiting == 0 {
                    self.order.push(next);
                }
            }
        }
    }

    /// The number of paths of pairs of hosts on each channel, without channels to nowhere, and for
    /// each number of hops the number of (switch, LID) pairs whose packets arrived after that many
    /// hops.
    pub(super) fn into_sums(mut self) -> (Vec<u32>, Vec<u64>) {
        for (channel, load) in self.load.iter_mut().enumerate() {
            if self.fabric.next(channel) == self.fabric.nowhere() {
                *load = 0;
            }
        }
        (self.load, self.hops)
    }

    /// A loop of the last walk, from the lowest GUID on; `None` if there was none.
    pub(super) fn find_loop(&self, lid: Lid, bytes: &[u8]) -> Option<Witness> {
        let mut sorted = vec![false; self.fabric.switches];
        for &switch in &self.order {
            sorted[usize::from(switch)] = true;
        }
        // The path from an unsorted switch never ends: it enters a loop and stays in it.
        let mut switch = sorted.iter().position(|sorted| !sorted)?;
        let mut seen = vec![false; self.fabric.switches];
        while !std::mem::replace(&mut seen[switch], true) {
            switch = usize::from(self.next[switch]);
        }
        let mut hops = Vec::new();
        let first = switch;
        loop {
            hops.push((self.fabric.guid(switch), PortNum(bytes[switch])));
            switch = usize::from(self.next[switch]);
            if switch == first {
                break;
            }
        }
        let lowest = (0..hops.len()).min_by_key(|&place| hops[place].0)?;
        hops.rotate_left(lowest);
        Some(Witness::Loop { lid, hops })
    }

    /// A switch of the destination's component at which packets of the last walk were dropped, if
    /// they belong to a pair with an end port; `None` if there is none.
    pub(super) fn find_drop(
        &self,
        lid: Lid,
        destination: &Destination,
        bytes: &[u8],
    ) -> Option<Witness> {
        let topology = self.fabric.topology;
        let component = topology.component_of(destination.switch);
        let ends_at = |switch: &SwitchIdx| {
            let index = switch.index();
            let delivers = *switch == destination.switch && bytes[index] == destination.port.0;
            let counts = destination.kind != EndpointKind::Switch0 || self.flow[index].ports() > 0;
            counts
                && usize::from(self.next[index]) == self.fabric.nowhere()
                && !delivers
                && topology.component_of(*switch) == component
        };
        let switch = topology.indices().find(ends_at)?;
        let byte = bytes[switch.index()];
        Some(Witness::Dropped {
            switch: topology.switch(switch).guid,
            lid,
            port: (byte != NO_PATH).then_some(PortNum(byte)),
        })
    }
}
