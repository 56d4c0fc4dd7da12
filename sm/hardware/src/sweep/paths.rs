//! Searches directed paths over the known cables.

use std::collections::{BTreeSet, HashMap, VecDeque};

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_model::InventoryNode;

use super::inventory::Inventory;

/// Gives every node its shortest directed path from the local port, and a second path that enters
/// the node by another port, if there is one. Returns the nodes without a path.
///
/// Only cables with both ends up count. Paths lead through a suspect only if there is no other
/// path. Ports are tried in order of their numbers, so that equal inventories give equal paths. If
/// a new search would still reach each switch first over the same cable as the last search, only
/// the paths of rewired nodes and their neighbours are updated.
pub(super) fn refresh(inventory: &mut Inventory) -> Vec<Guid> {
    let rewired = inventory.hardware.take_rewired();
    match update(inventory, &rewired) {
        Ok(paths) => {
            let gone = record_paths(inventory, paths);
            debug_assert!(is_as_searched(inventory, &gone), "{rewired:?}");
            return gone;
        }
        Err(why) => inventory.full_search_reason = Some(why),
    }
    inventory.search = None;
    let paths = match inventory.hardware.local {
        Some(local) => {
            let (paths, search) = search(inventory, local);
            inventory.search = Some(search);
            paths
        }
        None => vec![None; inventory.hardware.len()],
    };
    let guids: Vec<Guid> = inventory.hardware.nodes().map(|(guid, _)| guid).collect();
    record_paths(inventory, guids.into_iter().zip(paths).collect())
}

/// Forgets the last search: other code is about to change paths, so the next [`refresh`] searches
/// all of them.
pub(super) fn forget(inventory: &mut Inventory) {
    inventory.search = None;
}

/// The shortest path to a node, and a second path that enters the node by another port; `None` if
/// there is no second path.
type NodePaths = (DirectedPath, Option<DirectedPath>);

/// The last full search: its start, and the switches that it passed.
#[derive(Clone, Debug)]
pub(super) struct LastSearch {
    /// The local port, at which the search started.
    local: PortKey,
    /// The suspects at the time of the search.
    suspects: BTreeSet<Guid>,
    /// The switches passed, and the node at which the search started.
    passed: HashMap<Guid, Passed>,
    /// Nodes without a path after the last search.
    unreached: Vec<Guid>,
}

/// A switch that a search passed, or the node at which it started.
#[derive(Clone, Copy, Debug)]
struct Passed {
    /// Position of the switch in the order of the search.
    rank: u32,
    /// The first path found to the switch. The inventory may have another path by now: the path by
    /// which the switch last answered NodeInfo.
    path: DirectedPath,
}

/// Records the paths of nodes in the inventory. Returns the nodes without a path.
fn record_paths(inventory: &mut Inventory, paths: Vec<(Guid, Option<NodePaths>)>) -> Vec<Guid> {
    let mut gone = Vec::new();
    for (guid, paths) in paths {
        match paths {
            Some((path, second)) => inventory.hardware.set_paths(guid, path, second),
            None => gone.push(guid),
        }
    }
    if let Some(search) = &mut inventory.search {
        search.unreached.clone_from(&gone);
    }
    gone
}

/// The new paths of the nodes in `rewired`, of their neighbours, and of nodes that had no path.
///
/// The last search is still valid for all other nodes if each switch is still reached first by the
/// same port of the same neighbour: a new search would then pass the switches in the same order.
///
/// # Errors
/// The reason why paths of other nodes may have changed as well, or why a full search is cheaper.
fn update(
    inventory: &Inventory,
    rewired: &BTreeSet<Guid>,
) -> Result<Vec<(Guid, Option<NodePaths>)>, &'static str> {
    let search = inventory.search.as_ref().ok_or("none were known")?;
    if inventory.hardware.local != Some(search.local) {
        return Err("the local port is another");
    }
    if inventory.suspects != search.suspects {
        return Err("other switches are suspected");
    }
    if rewired.len() > inventory.hardware.len() / 4 {
        return Err("many nodes changed");
    }
    let mut affected: BTreeSet<Guid> = search.unreached.iter().copied().collect();
    for &guid in rewired {
        match inventory.hardware.node(guid) {
            Some(node) => {
                let peers = node.external_ports().filter_map(|(_, port)| port.peer);
                affected.extend(peers.map(|peer| peer.node));
                affected.insert(guid);
            }
            None if search.passed.contains_key(&guid) => return Err("a switch is gone"),
            None => {}
        }
    }
    let mut paths = Vec::with_capacity(affected.len());
    for guid in affected
        .into_iter()
        .filter(|&guid| guid != search.local.node)
    {
        let Some(node) = inventory.hardware.node(guid) else {
            continue;
        };
        let arrivals = search.arrivals(inventory, guid, node);
        let before = search.passed.get(&guid).map(|passed| passed.path);
        if node.is_switch() && (before.is_none() || arrivals.first() != before.as_ref()) {
            return Err("a switch is reached otherwise");
        }
        let mut arrivals = arrivals.into_iter();
        paths.push((guid, arrivals.next().map(|path| (path, arrivals.next()))));
    }
    Ok(paths)
}

impl LastSearch {
    /// The paths that enter a node from its neighbours, in the order in which a search finds them.
    fn arrivals(
        &self,
        inventory: &Inventory,
        guid: Guid,
        node: &InventoryNode,
    ) -> Vec<DirectedPath> {
        let mut arrivals = Vec::new();
        for (number, port) in node.external_ports() {
            let Some(from) = port.peer.filter(|from| from.node != guid) else {
                continue;
            };
            let (Some(passed), Some(neighbour)) = (
                self.passed.get(&from.node),
                inventory.hardware.node(from.node),
            ) else {
                continue;
            };
            let passes_on = neighbour.is_switch() || from == self.local;
            let leads_here = neighbour
                .port(from.port)
                .is_some_and(|port| port.is_up() && port.peer == Some(PortKey::new(guid, number)));
            if passes_on
                && leads_here
                && let Ok(path) = passed.path.child(from.port)
            {
                arrivals.push((passed.rank, from.port, path));
            }
        }
        arrivals.sort_unstable_by_key(|&(rank, port, _)| (rank, port));
        arrivals.into_iter().map(|(_, _, path)| path).collect()
    }
}

/// Whether a full search finds the recorded paths, and no path to the nodes in `gone`.
fn is_as_searched(inventory: &Inventory, gone: &[Guid]) -> bool {
    let Some(local) = inventory.hardware.local else {
        return false;
    };
    let (paths, _) = search(inventory, local);
    let mut nodes = inventory.hardware.nodes().zip(paths);
    nodes.all(|((guid, node), paths)| match paths {
        Some(paths) => paths == (node.path, node.alternate) && !gone.contains(&guid),
        None => gone.contains(&guid),
    })
}

/// Searches the paths of all nodes, breadth first. Returns them in the order of the nodes' GUIDs,
/// with `None` for a node that is not reached.
fn search(inventory: &Inventory, local: PortKey) -> (Vec<Option<NodePaths>>, LastSearch) {
    // Indices in the order of GUIDs replace the GUIDs: each cable needs one lookup, and memory
    // accesses are local.
    let nodes: Vec<(Guid, &InventoryNode)> = inventory.hardware.nodes().collect();
    let index_of = |guid: Guid| nodes.binary_search_by_key(&guid, |&(guid, _)| guid).ok();
    let mut paths: Vec<Option<NodePaths>> = vec![None; nodes.len()];
    let mut search = LastSearch {
        local,
        suspects: inventory.suspects.clone(),
        passed: HashMap::new(),
        unreached: Vec::new(),
    };
    let mut queue = VecDeque::new();
    // Suspects that the search has reached; they are passed last.
    let mut suspects = VecDeque::new();
    if let Some(start) = index_of(local.node) {
        paths[start] = Some((DirectedPath::new(), None));
        queue.push_back(start);
    }
    while let Some(at) = queue.pop_front().or_else(|| suspects.pop_front()) {
        let Some((path, _)) = paths[at] else { continue };
        let (guid, node) = nodes[at];
        if node.is_switch() || guid == local.node {
            let rank = search.passed.len() as u32;
            search.passed.insert(guid, Passed { rank, path });
        }
        for (exit, peer) in exits(guid, node, local) {
            let (Some(next), Ok(path)) = (index_of(peer.node), path.child(exit)) else {
                continue;
            };
            match &mut paths[next] {
                Some((_, second)) if second.is_none() && peer.node != local.node => {
                    *second = Some(path);
                }
                Some(_) => {}
                unreached @ None => {
                    *unreached = Some((path, None));
                    if inventory.suspects.contains(&peer.node) {
                        suspects.push_back(next);
                    } else {
                        queue.push_back(next);
                    }
                }
            }
        }
    }
    (paths, search)
}

/// Whether the first or second path that [`refresh`] recorded enters `to` by the cable from `from`.
pub(super) fn lead_over(inventory: &Inventory, from: PortKey, to: PortKey) -> bool {
    let (Some(near), Some(far)) = (
        inventory.hardware.node(from.node),
        inventory.hardware.node(to.node),
    ) else {
        return false;
    };
    let Ok(path) = near.path.child(from.port) else {
        return false;
    };
    far.path == path || far.alternate == Some(path)
}

/// The cables by which an SMP can leave `node`: all cables of a switch, or the cable of the local
/// port.
fn exits(
    guid: Guid,
    node: &InventoryNode,
    local: PortKey,
) -> impl Iterator<Item = (PortNum, PortKey)> {
    let is_switch = node.is_switch();
    node.external_ports()
        .filter(move |&(number, _)| is_switch || PortKey::new(guid, number) == local)
        .filter(|(_, port)| port.is_up())
        .filter_map(|(number, port)| port.peer.map(|peer| (number, peer)))
        .filter(move |(_, peer)| peer.node != guid)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use rsm_mad::wire::attr::{NodeInfo, NodeType, PortInfo, PortState};
    use rsm_model::InventoryPort;

    use super::*;

    const PORTS: u8 = 6;

    /// GUID of a node and number of a port.
    type End = (u64, u8);

    /// An inventory of `switches` switches, with GUIDs from 0, and a host with the next GUID, whose
    /// port 1 is the local port; with these cables, ports that are down, and suspects.
    fn inventory(
        switches: u64,
        cables: &[(End, End)],
        down: &[End],
        suspects: &[u64],
    ) -> Inventory {
        let mut inventory = Inventory::default();
        for guid in 0..=switches {
            let is_host = guid == switches;
            let mut info = NodeInfo::default();
            info.set_node_type(if is_host {
                NodeType::Ca
            } else {
                NodeType::Switch
            })
            .set_node_guid(Guid(guid))
            .set_num_ports(PORTS);
            let mut port = PortInfo::default();
            port.set_port_state(PortState::Active);
            let port = InventoryPort {
                info: Some(port),
                ..InventoryPort::default()
            };
            let node = InventoryNode {
                info,
                description: None,
                ports: vec![port; usize::from(PORTS) + 1],
                switch: None,
                path: DirectedPath::default(),
                alternate: None,
                epoch: 0,
                first_epoch: 0,
                missed: 0,
            };
            inventory.hardware.insert(Guid(guid), node);
        }
        let key = |(guid, port): End| PortKey::new(Guid(guid), PortNum(port));
        for &(a, b) in cables {
            inventory.join(key(a), key(b));
        }
        for &port in down {
            let info = inventory
                .hardware
                .port_mut(key(port))
                .and_then(|port| port.info.as_mut());
            info.expect("it was made").set_port_state(PortState::Down);
        }
        inventory.suspects = suspects.iter().map(|&guid| Guid(guid)).collect();
        inventory.hardware.local = Some(key((switches, 1)));
        inventory
    }

    /// Number of hops to each node that is reached without passing a suspect.
    fn hops_without_suspects(inventory: &Inventory, local: PortKey) -> BTreeMap<Guid, usize> {
        let mut hops = BTreeMap::from([(local.node, 0)]);
        for _ in 0..inventory.hardware.len() {
            for (guid, node) in inventory.hardware.nodes() {
                let Some(&here) = hops.get(&guid) else {
                    continue;
                };
                if inventory.suspects.contains(&guid) {
                    continue;
                }
                for (_, peer) in exits(guid, node, local) {
                    let there = hops.entry(peer.node).or_insert(here + 1);
                    *there = (*there).min(here + 1);
                }
            }
        }
        hops
    }

    /// The node at the end of `path`, and whether the path passes a suspect.
    fn follow(inventory: &Inventory, local: PortKey, path: &DirectedPath) -> (Guid, bool) {
        let mut at = local.node;
        let mut passes_suspect = false;
        for (index, &exit) in path.hops().iter().enumerate() {
            passes_suspect |= index > 0 && inventory.suspects.contains(&at);
            let node = inventory
                .hardware
                .node(at)
                .expect("a path leads over what is known");
            let (_, peer) = exits(at, node, local)
                .find(|&(number, _)| number == exit)
                .expect("a path leads over cables that are up");
            at = peer.node;
        }
        (at, passes_suspect)
    }

    proptest! {
        #[test]
        fn incremental_paths_equal_a_full_search(
            switches in 1u64..9,
            cables in prop::collection::vec(((0u64..9, 1u8..=PORTS), (0u64..9, 1u8..=PORTS)), 1..30),
            steps in prop::collection::vec((0u8..6, (0u64..9, 1u8..=PORTS), (0u64..9, 1u8..=PORTS)), 1..12),
        ) {
            let known = |end: &End| end.0 <= switches;
            let mut cables: Vec<_> = cables.into_iter().filter(|(a, b)| known(a) && known(b) && a != b).collect();
            cables.push(((switches, 1), (0, 1)));
            let mut inventory = inventory(switches, &cables, &[], &[]);
            refresh(&mut inventory);
            let key = |(guid, port): End| PortKey::new(Guid(guid), PortNum(port));
            for (what, a, b) in steps.into_iter().filter(|(_, a, b)| known(a) && known(b) && a != b) {
                match what {
                    0 => {
                        inventory.unplug(key(a));
                    }
                    1 => inventory.join(key(a), key(b)),
                    2 => {
                        inventory.suspects.insert(Guid(a.0));
                    }
                    3 => inventory.suspects.clear(),
                    // The node answers by a cable that the search did not use.
                    4 if a.0 != switches => {
                        let path = inventory.hardware.node(Guid(b.0)).and_then(|node| node.path.child(PortNum(b.1)).ok());
                        let node = inventory.hardware.node_mut(Guid(a.0)).expect("it was made");
                        node.path = path.unwrap_or_default();
                    }
                    _ => {
                        let port = inventory.hardware.port_mut(key(a)).and_then(|port| port.info.as_mut());
                        let info = port.expect("it was made");
                        let state = if info.port_state() == PortState::Down {
                            PortState::Active
                        } else {
                            PortState::Down
                        };
                        info.set_port_state(state);
                    }
                }
                let gone = refresh(&mut inventory);
                prop_assert!(is_as_searched(&inventory, &gone), "after {what} at {a:?} and {b:?}");
            }
        }

        #[test]
        fn paths_are_shortest_and_pass_suspects_last(
            switches in 1u64..9,
            cables in prop::collection::vec(((0u64..9, 1u8..=PORTS), (0u64..9, 1u8..=PORTS)), 1..30),
            down in prop::collection::vec((0u64..9, 1u8..=PORTS), 0..6),
            suspects in prop::collection::vec(0u64..8, 0..4),
        ) {
            let known = |end: &End| end.0 <= switches;
            let mut cables: Vec<_> = cables.into_iter().filter(|(a, b)| known(a) && known(b) && a != b).collect();
            cables.push(((switches, 1), (0, 1)));
            let down: Vec<_> = down.into_iter().filter(|&end| known(&end)).collect();
            let suspects: Vec<_> = suspects.into_iter().filter(|&guid| guid < switches).collect();
            let mut inventory = inventory(switches, &cables, &down, &suspects);
            let local = inventory.hardware.local.expect("it was set");
            let gone = refresh(&mut inventory);
            let hops = hops_without_suspects(&inventory, local);
            for (guid, node) in inventory.hardware.nodes() {
                if gone.contains(&guid) {
                    prop_assert!(!hops.contains_key(&guid), "{guid} is reached");
                    continue;
                }
                let (end, passes_suspect) = follow(&inventory, local, &node.path);
                prop_assert_eq!(end, guid);
                prop_assert_eq!(passes_suspect, !hops.contains_key(&guid));
                if let Some(&hops) = hops.get(&guid) {
                    prop_assert_eq!(node.path.hops().len(), hops);
                }
                if let Some(alternate) = &node.alternate {
                    prop_assert_ne!(alternate, &node.path);
                    prop_assert_eq!(follow(&inventory, local, alternate).0, guid);
                }
            }
        }
    }
}
