//! Finds the directions of cables that packets between given destinations take.

use rsm_ids::{Lid, PortNum};
use rsm_routing::tables::{AdaptiveTables, PortMask, Tables};
use rsm_routing::topology::{PortUse, SwitchIdx, Topology};

/// A direction of a cable between two switches on the paths of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JobLink {
    /// The sending switch.
    pub(super) switch: SwitchIdx,
    /// The port by which packets leave the switch.
    pub(super) port: PortNum,
    /// Number of the job's destinations that packets of the job may reach over this direction.
    pub(super) destinations: u32,
}

/// A switch at which packets of a job are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeadEnd {
    /// Index, in [`Topology::destinations`], of the destination that the packets do not reach.
    pub(super) destination: usize,
    /// The switch, whose table has no usable port for the packets.
    pub(super) switch: SwitchIdx,
}

/// The paths of all pairs of a job's destinations.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(super) struct JobPaths {
    /// The directions of cables between switches, ordered by switch and port.
    pub(super) links: Vec<JobLink>,
    /// The switches at which packets are dropped, ascending.
    pub(super) dead_ends: Vec<DeadEnd>,
}

/// The paths between the destinations `ends` (indices into [`Topology::destinations`]), to all
/// their LIDs. With `adaptive` tables, packets may leave by any port of a group.
///
/// Each LID is followed once from all switches of the job together: the cost grows with the number
/// of destinations times the number of switches on the paths to a destination, not with the number
/// of pairs.
pub(super) fn job_paths(
    topology: &Topology,
    tables: &Tables,
    adaptive: Option<&AdaptiveTables>,
    ends: &[usize],
) -> JobPaths {
    let walk = Walk::new(topology, tables, adaptive, ends);
    let mut found = WalkState::new(&walk);
    for &end in ends {
        walk.follow(end, &mut found);
    }
    found.dead_ends.sort_unstable();
    found.dead_ends.dedup();
    JobPaths {
        links: walk.links(&found.counts),
        dead_ends: found.dead_ends,
    }
}

struct Walk<'a> {
    topology: &'a Topology,
    tables: &'a Tables,
    adaptive: Option<&'a AdaptiveTables>,
    /// The switches of the job's destinations, each with its destination if there is only one;
    /// `None` if there are several.
    sources: Vec<(SwitchIdx, Option<usize>)>,
    /// Position of port 0 of each switch in the list of all ports, by switch index; the last item
    /// is the number of all ports.
    starts: Vec<usize>,
}

/// The result so far.
struct WalkState {
    /// Number of the job's destinations reached over each port, in the order of [`Walk::starts`].
    counts: Vec<u32>,
    /// Last destination counted in `counts`, by port; `usize::MAX` before the first destination.
    counted: Vec<usize>,
    /// Last LID that was followed at each switch, by switch index.
    passed: Vec<Option<Lid>>,
    stack: Vec<SwitchIdx>,
    dead_ends: Vec<DeadEnd>,
}

impl WalkState {
    fn new(walk: &Walk<'_>) -> WalkState {
        WalkState {
            counts: vec![0; walk.ports()],
            counted: vec![usize::MAX; walk.ports()],
            passed: vec![None; walk.topology.switch_count()],
            stack: Vec::new(),
            dead_ends: Vec::new(),
        }
    }
}

impl<'a> Walk<'a> {
    fn new(
        topology: &'a Topology,
        tables: &'a Tables,
        adaptive: Option<&'a AdaptiveTables>,
        ends: &[usize],
    ) -> Walk<'a> {
        let mut sources: Vec<(SwitchIdx, Option<usize>)> = Vec::new();
        let mut sorted = ends.to_vec();
        // Destinations are in the order of their switches.
        sorted.sort_unstable();
        sorted.dedup();
        for end in sorted {
            let switch = topology.destinations()[end].switch;
            match sources.last_mut() {
                Some((last, only)) if *last == switch => *only = None,
                _ => sources.push((switch, Some(end))),
            }
        }
        let mut starts = vec![0];
        for switch in topology.switches() {
            let next = starts[starts.len() - 1] + usize::from(switch.num_ports) + 1;
            starts.push(next);
        }
        Walk {
            topology,
            tables,
            adaptive,
            sources,
            starts,
        }
    }

    fn ports(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// Follows all LIDs of a destination from the switches of the other destinations.
    fn follow(&self, end: usize, found: &mut WalkState) {
        let to = &self.topology.destinations()[end];
        for lid in to.own_lids() {
            let others = self.sources.iter().filter(|(_, only)| *only != Some(end));
            found.stack.extend(others.map(|&(switch, _)| switch));
            while let Some(at) = found.stack.pop() {
                if at == to.switch || found.passed[at.index()] == Some(lid) {
                    continue;
                }
                found.passed[at.index()] = Some(lid);
                let mut leads = false;
                for port in self.next(at, lid).ports() {
                    let PortUse::Link { peer, .. } = self.topology.port_use(at, port) else {
                        continue;
                    };
                    leads = true;
                    let place = self.starts[at.index()] + port.index();
                    if found.counted[place] != end {
                        found.counted[place] = end;
                        found.counts[place] += 1;
                    }
                    found.stack.push(peer);
                }
                if !leads {
                    found.dead_ends.push(DeadEnd {
                        destination: end,
                        switch: at,
                    });
                }
            }
        }
    }

    fn next(&self, switch: SwitchIdx, lid: Lid) -> PortMask {
        match self.adaptive {
            Some(adaptive) => adaptive.ports(self.tables, switch, lid),
            None => self.tables.lft(switch).port(lid).into_iter().collect(),
        }
    }

    fn links(&self, counts: &[u32]) -> Vec<JobLink> {
        let switches = self.topology.indices();
        let ports = switches.flat_map(|switch| {
            let start = self.starts[switch.index()];
            let end = self.starts[switch.index() + 1];
            let numbers = (0..=u8::MAX).map(PortNum);
            numbers
                .zip(&counts[start..end])
                .map(move |(port, &destinations)| JobLink {
                    switch,
                    port,
                    destinations,
                })
        });
        ports.filter(|link| link.destinations > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rsm_routing::engine::{EngineKind, Options, route};
    use rsm_routing::generate::generate;
    use rsm_routing::generate::rng::Rng;
    use rsm_routing::tables::NO_PATH;

    use super::*;

    /// The directions that packets from one destination to another pass; `None` if the packets do
    /// not arrive.
    fn path_between(
        topology: &Topology,
        tables: &Tables,
        from: usize,
        to: usize,
    ) -> Option<Vec<(SwitchIdx, PortNum)>> {
        let [from, to] = [from, to].map(|at| &topology.destinations()[at]);
        let (mut at, mut links) = (from.switch, Vec::new());
        while at != to.switch {
            let port = tables.lft(at).port(to.lid)?;
            links.push((at, port));
            at = topology.peer(at, port)?.0;
        }
        Some(links)
    }

    fn fabric(spec: &str) -> (Topology, Tables) {
        let topology = Topology::from_netlist(&generate(spec).unwrap()).unwrap();
        let routing = route(EngineKind::MinHop, &topology, &Options::default(), None);
        (topology, routing.unwrap().tables)
    }

    #[test]
    fn links_of_a_job_are_exactly_the_links_on_the_paths_of_its_pairs() {
        for (spec, seed) in [
            ("pgft:3;3,3,4;1,3,2;1,1,2", 1),
            ("torus:3x4", 2),
            ("dragonfly+:groups=3,leaves=2,spines=2,hosts=3,links=2", 3),
            ("random:switches=12,degree=4,hosts=5,seed=2", 4),
        ] {
            let (topology, tables) = fabric(spec);
            let all = topology.destinations();
            let mut rng = Rng::new(seed);
            for sparsity in 1..6 {
                let is_picked = |at: &usize| all[*at].kind.is_host() && rng.below(sparsity) == 0;
                let ends: Vec<usize> = (0..all.len()).filter(is_picked).collect();
                let mut expected: BTreeMap<_, BTreeSet<usize>> = BTreeMap::new();
                for &from in &ends {
                    for &to in ends.iter().filter(|&&to| to != from) {
                        for link in path_between(&topology, &tables, from, to).unwrap() {
                            expected.entry(link).or_default().insert(to);
                        }
                    }
                }
                let found = job_paths(&topology, &tables, None, &ends);
                assert_eq!(found.dead_ends, []);
                let found = found.links.iter();
                let found = found.map(|link| ((link.switch, link.port), link.destinations));
                let expected = expected.iter().map(|(&link, to)| (link, to.len() as u32));
                assert!(found.eq(expected), "{spec}, one in {sparsity}");
            }
        }
    }

    #[test]
    fn switch_without_an_entry_for_the_destination_is_a_dead_end() {
        let (topology, mut tables) = fabric("pgft:2;4,6;1,4;1,1");
        let hosts = 0..topology.destinations().len();
        let hosts: Vec<usize> = hosts
            .filter(|&at| topology.destinations()[at].kind.is_host())
            .collect();
        let [from, to] = [hosts[0], hosts[hosts.len() - 1]];
        let switch = topology.destinations()[from].switch;
        let lid = topology.destinations()[to].lid;
        tables.lfts[switch.index()].set_entry(lid, NO_PATH);
        let found = job_paths(&topology, &tables, None, &[from, to]);
        let dead_end = DeadEnd {
            destination: to,
            switch,
        };
        assert_eq!(found.dead_ends, [dead_end]);
    }

    /// Prints the time of the search for all of 10,000 hosts.
    #[test]
    #[ignore = "a measurement: the time depends on the machine"]
    #[expect(
        clippy::disallowed_methods,
        clippy::print_stdout,
        reason = "a measurement reads the clock and prints the time"
    )]
    fn paths_of_ten_thousand_hosts_are_found_within_a_second() {
        let (topology, tables) = fabric("pgft:2;40,250;1,40;1,1");
        let hosts = 0..topology.destinations().len();
        let hosts: Vec<usize> = hosts
            .filter(|&at| topology.destinations()[at].kind.is_host())
            .collect();
        let begun = std::time::Instant::now();
        let found = job_paths(&topology, &tables, None, &hosts);
        let took = begun.elapsed();
        println!(
            "{} hosts, {} directions of cables: {took:?}",
            hosts.len(),
            found.links.len()
        );
        assert!(took < std::time::Duration::from_secs(1), "{took:?}");
    }
}
