//! Assertions about a subnet at rest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::PortState;
use rsm_mad::wire::header::AttrId;
use rsm_routing::netlist::NodeKind;
use rsm_sa::{NoPath, PathEnd, PathQuery, SaSnapshot};
use rsm_sim::{DropReason, Probe, Sim, SimCounters};

use super::{World, partitions};

/// The maximum number of problems that a failed assertion shows.
const MAX_SHOWN: usize = 8;

/// The end ports and links that a manager at some port can reach, across links that are up.
#[derive(Clone, Default, Debug)]
pub struct Reach {
    /// The end ports: port 0 of switches, and cabled ports of other nodes.
    pub end_ports: Vec<(Guid, PortNum)>,
    /// The links, each once.
    pub links: Vec<((Guid, PortNum), (Guid, PortNum))>,
}

impl Reach {
    /// Finds the end ports and links that a manager at the port `from` can reach, without passing
    /// or including the nodes `without`.
    ///
    /// # Panics
    ///
    /// `from` is not an end port.
    #[must_use]
    pub fn of(sim: &Sim, from: (Guid, PortNum), without: &[Guid]) -> Reach {
        let switches: BTreeSet<Guid> = sim
            .nodes()
            .filter(|&(_, kind)| kind == NodeKind::Switch)
            .map(|(guid, _)| guid)
            .collect();
        let mut reach = Reach::default();
        let mut entered = BTreeSet::new();
        let mut queue = VecDeque::new();
        let end_port_of = |end: (Guid, PortNum)| {
            if switches.contains(&end.0) {
                (end.0, PortNum::ZERO)
            } else {
                end
            }
        };
        let start = end_port_of(from);
        entered.insert(start);
        queue.push_back(start);
        while let Some((guid, port)) = queue.pop_front() {
            reach.end_ports.push((guid, port));
            let exits = if switches.contains(&guid) {
                1..=sim.num_ports(guid).expect("the switch exists")
            } else {
                port.0..=port.0
            };
            for here in exits.map(|number| (guid, PortNum(number))) {
                let Ok(Some(there)) = sim.peer(here.0, here.1) else {
                    continue;
                };
                let is_up = |end: (Guid, PortNum)| {
                    sim.port_info(end.0, end.1)
                        .is_ok_and(|info| info.port_state() != PortState::Down)
                };
                if !is_up(here) || !is_up(there) || there.0 == guid || without.contains(&there.0) {
                    continue;
                }
                if here < there || !switches.contains(&there.0) || !switches.contains(&guid) {
                    reach.links.push((here, there));
                }
                if entered.insert(end_port_of(there)) {
                    queue.push_back(end_port_of(there));
                }
            }
        }
        reach.end_ports.sort_unstable();
        reach.links = {
            let ordered = reach
                .links
                .iter()
                .map(|&(a, b)| if a < b { (a, b) } else { (b, a) });
            ordered.collect::<BTreeSet<_>>().into_iter().collect()
        };
        reach
    }

    /// All LIDs of all end ports, each with the port that holds it.
    #[must_use]
    pub fn lids(&self, sim: &Sim) -> Vec<(Lid, (Guid, PortNum))> {
        self.end_ports
            .iter()
            .flat_map(|&(guid, port)| {
                let info = sim.port_info(guid, port).expect("the port exists");
                (0..info.lmc().lids()).map(move |offset| (Lid(info.lid().0 + offset), (guid, port)))
            })
            .collect()
    }
}

/// The end ports and links that the first subnet manager of the world can manage.
#[must_use]
pub fn reach(world: &World, without: &[Guid]) -> Reach {
    let local = world
        .manager()
        .local(&world.sim)
        .expect("the subnet manager is attached");
    Reach::of(&world.sim, local, without)
}

/// Describes each port of a link in `reach` that is not Active.
#[must_use]
pub fn inactive(sim: &Sim, reach: &Reach) -> Vec<String> {
    let mut problems = Vec::new();
    for &(a, b) in &reach.links {
        for (guid, port) in [a, b] {
            let state = sim
                .port_info(guid, port)
                .expect("the port exists")
                .port_state();
            if state != PortState::Active {
                problems.push(format!("{guid} port {port} is {state:?}"));
            }
        }
    }
    problems
}

/// Describes the pairs of end ports between which packets do not arrive, and the LIDs that are
/// missing or held by two ports.
///
/// Up to `excused` times, packets from port 0 of one switch to port 0 of another switch may be
/// discarded for lack of a route: if a cable is missing, up*/down* paths need to connect only
/// switches with hosts.
#[must_use]
pub fn unreachable(sim: &Sim, reach: &Reach, excused: u64) -> Vec<String> {
    let mut problems = Vec::new();
    let mut excused = excused;
    let lids = reach.lids(sim);
    let mut holders = BTreeMap::new();
    for &(lid, holder) in &lids {
        if !lid.is_unicast() {
            problems.push(format!("{} port {} has LID {lid}", holder.0, holder.1));
        } else if let Some(other) = holders.insert(lid, holder) {
            problems.push(format!("{other:?} and {holder:?} both hold LID {lid}"));
        }
    }
    for &source in &reach.end_ports {
        for &(lid, holder) in &lids {
            if source == holder {
                continue;
            }
            let probe = sim
                .probe(source, lid, 0)
                .expect("the source is an end port");
            let arrived =
                matches!(probe, Probe::Delivered { node, port, .. } if (node, port) == holder);
            let are_switches = source.1 == PortNum::ZERO && holder.1 == PortNum::ZERO;
            let discarded = matches!(
                probe,
                Probe::Dropped {
                    why: DropReason::NoRoute,
                    ..
                }
            );
            if !arrived && are_switches && discarded && excused > 0 {
                excused -= 1;
            } else if !arrived {
                problems.push(format!(
                    "from {} port {} to {} port {} (LID {lid}): {probe:?}",
                    source.0, source.1, holder.0, holder.1
                ));
            }
            if problems.len() > MAX_SHOWN {
                return problems;
            }
        }
    }
    problems
}

/// Asserts that every port that the first subnet manager can manage is Active, reaches every other
/// such port, and holds its P_Keys.
///
/// # Panics
///
/// A port is not Active, does not reach another port, or lacks a P_Key.
pub fn assert_up(world: &World) {
    assert_up_without(world, &[]);
}

/// Asserts the same as [`assert_up`], except for the nodes `without` and nodes that can be reached
/// only through them.
///
/// # Panics
///
/// A port is not Active, does not reach another port, or lacks a P_Key.
pub fn assert_up_without(world: &World, without: &[Guid]) {
    let reach = reach(world, without);
    let mut problems = inactive(&world.sim, &reach);
    let plan = world.manager().core().plan();
    let excused = plan.map_or(0, |plan| plan.report.switch_pairs.unreachable);
    problems.extend(unreachable(&world.sim, &reach, excused));
    if let Some(plan) = plan {
        problems.extend(partitions::misplaced(&world.sim, &reach, plan));
    }
    if !problems.is_empty() {
        let count = problems.len();
        problems.truncate(MAX_SHOWN);
        panic!(
            "{count} problems at {:?}: {problems:#?}; findings {:?}",
            world.now(),
            world.manager().findings()
        );
    }
}

/// Asserts that the SA of the first manager has a path from each host to the next host, with LIDs
/// that the ports hold and a P_Key of both ports, and that the manager has saved these LIDs. Pairs
/// of hosts without a common partition need no path.
///
/// # Panics
///
/// A path is missing or wrong, or its LIDs are not saved.
pub fn assert_answers(world: &World) {
    let (sim, manager) = (&world.sim, world.manager());
    let snapshot = manager
        .snapshot()
        .expect("the manager has published a snapshot");
    let sa = SaSnapshot::of(snapshot, None);
    let directory = sa.directory().expect("the snapshot has a plan");
    let reach = reach(world, &[]);
    let is_host = |end: &&(Guid, PortNum)| end.1 != PortNum::ZERO;
    let hosts: Vec<(Guid, PortNum)> = reach.end_ports.iter().filter(is_host).copied().collect();
    let lid = |(node, port)| sim.port_info(node, port).expect("the port exists").lid();
    for (&from, &to) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
        let end = |host| {
            let port = directory.by_lid(lid(host));
            let port = port.unwrap_or_else(|| panic!("the SA knows no LID {}", lid(host)));
            PathEnd { port, lid: None }
        };
        let (source, target) = (end(from), end(to));
        let saved = manager
            .remembered()
            .claims
            .get(&directory.end(source.port).guid);
        assert_eq!(
            saved.map(|claim| claim.base),
            Some(lid(from)),
            "saved for {from:?}"
        );
        let query = PathQuery {
            from: source,
            to: target,
            p_key: None,
            sl: None,
            service_id: None,
            qos_class: None,
            most: 1,
        };
        let paths = match directory.paths(&query) {
            Ok(paths) => paths,
            Err(NoPath::NoPartition) => continue,
            Err(error) => panic!("from {from:?} to {to:?}: {error:?}"),
        };
        let record = &paths.first().expect("a path or an error").record;
        assert_eq!((record.slid(), record.dlid()), (lid(from), lid(to)));
        for host in [from, to] {
            let held = partitions::held(sim, host);
            let key = record.p_key().base();
            assert!(
                held.iter().any(|held| held.base() == key),
                "{host:?} lacks {key:?}"
            );
        }
    }
}

/// Whether the NeighborMTU or OperationalVLs of a port differs from the greatest value that both
/// ends of its link support. `subject` is the port as a finding names it, `GUID:PORT`.
///
/// # Panics
///
/// The port does not exist, or has no cable.
#[must_use]
pub fn is_link_mismatched(sim: &Sim, subject: &str) -> bool {
    let port = subject.split_once(':').and_then(|(guid, port)| {
        let port = port.parse().ok()?;
        Some((guid.parse::<Guid>().ok()?, PortNum(port)))
    });
    let (guid, number) = port.expect("the finding names a port");
    let here = sim.port_info(guid, number).expect("the port exists");
    let peer = sim.peer(guid, number).expect("the port exists");
    let (peer, peer_number) = peer.expect("the port has a cable");
    let there = sim.port_info(peer, peer_number).expect("the port exists");
    let mtu = here.mtu_cap().code().min(there.mtu_cap().code());
    let vls = here.vl_cap().code().min(there.vl_cap().code());
    (here.neighbor_mtu().code(), here.operational_vls().code()) != (mtu, vls)
}

/// The number of Sets that reached agents, by attribute; attributes without a Set are left out.
#[must_use]
pub fn sets(counters: &SimCounters) -> BTreeMap<AttrId, u64> {
    counters
        .by_attribute()
        .filter(|&(_, _, sets)| sets > 0)
        .map(|(attribute, _, sets)| (attribute.unwrap_or(AttrId(0)), sets))
        .collect()
}

/// Asserts that the first subnet manager has published no finding.
///
/// # Panics
///
/// The first subnet manager has published a finding.
pub fn assert_no_findings(world: &World) {
    assert_eq!(world.manager().findings(), Vec::new());
}
