use std::collections::VecDeque;

use rsm_ids::{Guid, PortNum};

use super::source::{DumpNode, index_of};

/// The paths that count for the hops in dump files.
#[derive(Clone, Copy, Debug)]
pub enum HopRule<'a> {
    /// All paths.
    Shortest,
    /// Legal up*/down* paths, which never turn up after going down. Contains the switches from the
    /// highest to the lowest; unlisted switches are below all of these, in ascending order of GUID.
    UpDown(&'a [Guid]),
}

/// Distance between two switches without a path.
pub(super) const NO_PATH: u8 = 0xff;
/// Largest distance shown; longer paths show this value.
const LONGEST: u8 = 0xfe;

/// Distance in hops between each pair of switches.
#[derive(Debug)]
pub(super) struct Hops {
    /// Position of each switch in the matrices, by node index; `None` for other nodes.
    position: Vec<Option<usize>>,
    /// Cabled ports of each switch, each with the switch at the other end.
    neighbours: Vec<Vec<(PortNum, usize)>>,
    /// Number of switches above each switch; all zero if every path counts.
    below: Vec<u32>,
    up_down: bool,
    count: usize,
    /// Row-major matrix of the hops from a switch (row) to another (column) over paths that count.
    least: Vec<u8>,
    /// Row-major matrix like `least`, over paths that only go down; empty if every path counts.
    down: Vec<u8>,
}

impl Hops {
    /// Measures all distances. `nodes` must be sorted, and their links must lead to nodes in the
    /// list.
    pub(super) fn new(nodes: &[DumpNode<'_>], rule: HopRule<'_>) -> Hops {
        let switches: Vec<usize> = (0..nodes.len())
            .filter(|&i| nodes[i].tables.is_some())
            .collect();
        let mut position = vec![None; nodes.len()];
        for (at, &node) in switches.iter().enumerate() {
            position[node] = Some(at);
        }
        let neighbours: Vec<Vec<(PortNum, usize)>> = switches
            .iter()
            .map(|&node| {
                let links = nodes[node].ports.iter();
                links
                    .filter_map(|(&port, p)| {
                        let peer = position[index_of(nodes, p.link?.node)?]?;
                        (position[node] != Some(peer)).then_some((port, peer))
                    })
                    .collect()
            })
            .collect();
        let count = switches.len();
        let mut hops = Hops {
            below: vec![0; count],
            up_down: matches!(rule, HopRule::UpDown(_)),
            least: vec![NO_PATH; count * count],
            down: Vec::new(),
            position,
            neighbours,
            count,
        };
        if let HopRule::UpDown(order) = rule {
            hops.rank(nodes, &switches, order);
            hops.down = vec![NO_PATH; count * count];
        }
        for to in 0..count {
            hops.measure(to);
        }
        hops
    }

    fn rank(&mut self, nodes: &[DumpNode<'_>], switches: &[usize], order: &[Guid]) {
        let mut others: Vec<usize> = (0..self.count).collect();
        others.sort_by_key(|&at| nodes[switches[at]].guid);
        for (rank, at) in others.into_iter().enumerate() {
            self.below[at] = (order.len() + rank) as u32;
        }
        for (rank, &guid) in order.iter().enumerate() {
            if let Some(at) = index_of(nodes, guid).and_then(|node| self.position[node]) {
                self.below[at] = rank as u32;
            }
        }
    }

    /// Fills the column of `to`: first with paths that only go down, then with paths that first go
    /// up.
    fn measure(&mut self, to: usize) {
        let mut distance = vec![NO_PATH; self.count];
        distance[to] = 0;
        let mut queue = VecDeque::from([to]);
        if !self.up_down {
            self.search(&mut distance, &mut queue, |_, _| true);
            self.store(to, &distance);
            return;
        }
        // The search follows cables from their lower to their upper ends: it reaches each switch
        // from which a path to `to` only goes down.
        self.search(&mut distance, &mut queue, |hops, (high, low)| {
            hops.is_above(high, low)
        });
        for (from, &hops) in distance.iter().enumerate() {
            self.down[from * self.count + to] = hops;
        }
        // The second search follows cables from their upper to their lower ends, from the nearest
        // reached switch on: paths from there first go up. Both queues are sorted by distance.
        let mut unexpanded: Vec<usize> = (0..self.count)
            .filter(|&s| distance[s] != NO_PATH)
            .collect();
        unexpanded.sort_by_key(|&s| distance[s]);
        let mut unexpanded = VecDeque::from(unexpanded);
        let mut reached: VecDeque<usize> = VecDeque::new();
        while let Some(at) = nearest(&distance, &mut unexpanded, &mut reached) {
            let next = distance[at].saturating_add(1).min(LONGEST);
            for &(_, from) in &self.neighbours[at] {
                if self.is_above(at, from) && next < distance[from] {
                    distance[from] = next;
                    reached.push_back(from);
                }
            }
        }
        self.store(to, &distance);
    }

    fn search(
        &self,
        distance: &mut [u8],
        queue: &mut VecDeque<usize>,
        counts: impl Fn(&Hops, (usize, usize)) -> bool,
    ) {
        while let Some(at) = queue.pop_front() {
            let next = distance[at].saturating_add(1).min(LONGEST);
            for &(_, from) in &self.neighbours[at] {
                if distance[from] == NO_PATH && counts(self, (from, at)) {
                    distance[from] = next;
                    queue.push_back(from);
                }
            }
        }
    }

    fn store(&mut self, to: usize, distance: &[u8]) {
        for (from, &hops) in distance.iter().enumerate() {
            self.least[from * self.count + to] = hops;
        }
    }

    fn is_above(&self, high: usize, low: usize) -> bool {
        self.below[high] < self.below[low]
    }

    /// Number of hops on the best path between two switches, given by node index.
    pub(super) fn least(&self, from: usize, to: usize) -> u8 {
        match (self.position[from], self.position[to]) {
            (Some(from), Some(to)) => self.least[from * self.count + to],
            _ => NO_PATH,
        }
    }

    /// Number of hops on the best path that leaves switch `from` by each of its ports, for port
    /// numbers 0 to `ports`. Entry 0 is the best over all ports; the entry of a port that leads to
    /// no switch is [`NO_PATH`].
    pub(super) fn by_port(&self, from: usize, to: usize, ports: usize) -> Vec<u8> {
        let mut row = vec![NO_PATH; ports + 1];
        row[0] = self.least(from, to);
        let (Some(from), Some(to)) = (self.position[from], self.position[to]) else {
            return row;
        };
        for &(port, next) in &self.neighbours[from] {
            if let Some(hops) = row.get_mut(port.index()) {
                *hops = self.hops_through(from, next, to);
            }
        }
        row
    }

    /// Number of hops on the best path that leaves switch `from` by `port`.
    pub(super) fn via(&self, from: usize, port: PortNum, to: usize) -> u8 {
        if port == PortNum::ZERO {
            return self.least(from, to);
        }
        let (Some(from), Some(to)) = (self.position[from], self.position[to]) else {
            return NO_PATH;
        };
        let found = self.neighbours[from].binary_search_by_key(&port, |(port, _)| *port);
        found.map_or(NO_PATH, |at| {
            self.hops_through(from, self.neighbours[from][at].1, to)
        })
    }

    /// Number of hops from the switch at position `from` to the switch at position `to`, over the
    /// neighbour `next`.
    fn hops_through(&self, from: usize, next: usize, to: usize) -> u8 {
        let descends = self.up_down && self.is_above(from, next);
        let table = if descends { &self.down } else { &self.least };
        match table[next * self.count + to] {
            NO_PATH => NO_PATH,
            hops => hops.saturating_add(1).min(LONGEST),
        }
    }
}

/// Removes the nearer of the two queues' heads. Both queues are sorted by distance, because each
/// switch is one hop farther away than the switch from which it was found.
fn nearest(
    distance: &[u8],
    unexpanded: &mut VecDeque<usize>,
    reached: &mut VecDeque<usize>,
) -> Option<usize> {
    match (unexpanded.front(), reached.front()) {
        (Some(&k), Some(&f)) if distance[f] < distance[k] => reached.pop_front(),
        (Some(_), _) => unexpanded.pop_front(),
        (None, _) => reached.pop_front(),
    }
}
