//! Groups losses of links by their common node: when a node fails or restarts, all its links go
//! down.

use std::collections::BTreeMap;

use crate::v1;

/// The least number of links of one node that count as a loss of the node: fewer links go down
/// together by chance, or with one bundle of cables.
pub const LEAST: usize = 4;

/// The counters that grow at a port when its link goes down with a node, although nothing is wrong
/// with the link itself.
const OF_LOSSES: [&str; 3] = [LINK_DOWNED, DISCARDS, RELAY_ERRORS];

/// The name of the counter of a port for losses of its link (IBA 16.1.3.5).
pub const LINK_DOWNED: &str = "LinkDownedCounter";

/// The name of the counter of packets that a switch received and has no way on for (IBA 16.1.3.5):
/// no error of a cable.
pub const RELAY_ERRORS: &str = "PortRcvSwitchRelayErrors";

/// Whether a port counts packets that a switch could not relay, and no other errors.
pub fn has_only_relay_errors(port: &v1::PortCounters) -> bool {
    let mut errors = port.errors.iter();
    !port.errors.is_empty() && errors.all(|error| error.name == RELAY_ERRORS)
}

/// The name of the counter of packets that a port discarded because the other end took no data, or
/// its link was down (IBA 16.1.3.5): congestion or a slow receiver, no error of a cable.
pub const DISCARDS: &str = "PortXmitDiscards";

/// Whether a port counts discarded packets, and no errors of its cable.
pub fn has_only_discards(port: &v1::PortCounters) -> bool {
    let counts = |name: &str| port.errors.iter().any(|error| error.name == name);
    let mut errors = port.errors.iter();
    counts(DISCARDS) && errors.all(|error| [DISCARDS, RELAY_ERRORS].contains(&error.name.as_str()))
}

/// Groups links by the node that most of them share, then the remaining links in the same way, as
/// long as at least four links share a node. Returns each such node with the indices of its links
/// in `links`, ascending; links without a group are left out. If nodes share equally many links,
/// the lowest node comes first.
pub fn by_node<N: Ord + Clone>(links: &[[N; 2]]) -> Vec<(N, Vec<usize>)> {
    let mut open: Vec<usize> = (0..links.len()).collect();
    let mut groups = Vec::new();
    loop {
        let mut counts: BTreeMap<&N, usize> = BTreeMap::new();
        for &at in &open {
            let [a, b] = &links[at];
            *counts.entry(a).or_default() += 1;
            if a != b {
                *counts.entry(b).or_default() += 1;
            }
        }
        // If several elements are equal, `max_by_key` returns the last one.
        let most = counts.into_iter().rev().max_by_key(|&(_, count)| count);
        let Some((node, _)) = most.filter(|&(_, count)| count >= LEAST) else {
            return groups;
        };
        let (own, rest) = open.iter().partition(|&&at| links[at].contains(node));
        groups.push((node.clone(), own));
        open = rest;
    }
}

/// A port with errors, or the ports whose links went down with one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Offender {
    /// The description of the node with which the links went down; `None` for a single port.
    pub with: Option<String>,
    /// The single port, or the ports of the links; never empty.
    pub ports: Vec<v1::PortCounters>,
}

impl Offender {
    /// An offender of a single port.
    pub fn single(port: v1::PortCounters) -> Offender {
        Offender {
            with: None,
            ports: vec![port],
        }
    }
}

/// Ports with errors, in their order. Ports that count nothing but losses of their link are one
/// offender if at least four of them count the same number of losses and their links share a node.
pub fn offenders(ports: Vec<v1::PortCounters>) -> Vec<Offender> {
    let lost: Vec<(u64, usize)> = ports
        .iter()
        .enumerate()
        .filter_map(|(at, port)| Some((losses(port)?, at)))
        .collect();
    let mut by_times: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for &(times, at) in &lost {
        by_times.entry(times).or_default().push(at);
    }
    // A group is at the position of its first port.
    let mut places: BTreeMap<usize, (Option<String>, Vec<usize>)> =
        (0..ports.len()).map(|at| (at, (None, vec![at]))).collect();
    for members in by_times.into_values() {
        let ends: Vec<[String; 2]> = members.iter().map(|&at| nodes(&ports[at])).collect();
        for (node, own) in by_node(&ends) {
            let own: Vec<usize> = own.into_iter().map(|one| members[one]).collect();
            for at in &own {
                places.remove(at);
            }
            let name = name_of(&node, &ports[own[0]]);
            places.insert(own[0], (Some(name), own));
        }
    }
    let mut ports: Vec<Option<v1::PortCounters>> = ports.into_iter().map(Some).collect();
    let offenders = places.into_values().map(|(with, own)| Offender {
        with,
        ports: own.iter().filter_map(|&at| ports[at].take()).collect(),
    });
    offenders.collect()
}

/// The number of times that the link of a port went down; `None` for a port that counts other
/// errors as well.
pub fn losses(port: &v1::PortCounters) -> Option<u64> {
    let mut errors = port.errors.iter();
    let downed = port.errors.iter().find(|error| error.name == LINK_DOWNED)?;
    let is_loss = errors.all(|error| OF_LOSSES.contains(&error.name.as_str()));
    is_loss.then_some(downed.total)
}

/// The GUIDs of the nodes at both ends of a port's cable.
fn nodes(port: &v1::PortCounters) -> [String; 2] {
    let own = port.port.clone().unwrap_or_default().node_guid;
    let peer = port.peer.clone();
    let peer = peer.map_or_else(|| own.clone(), |peer| peer.node_guid);
    [own, peer]
}

/// The description of the node with this GUID, which is at one end of the port's cable.
fn name_of(guid: &str, port: &v1::PortCounters) -> String {
    let own = port.port.as_ref().map_or("", |key| key.node_guid.as_str());
    match guid == own {
        true => port.description.clone(),
        false => port.peer_description.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_grouped_by_the_node_that_most_of_them_share() {
        let links = [
            ["a", "x"],
            ["b", "x"],
            ["c", "x"],
            ["d", "x"],
            ["e", "x"],
            ["e", "f"],
            ["e", "g"],
            ["e", "h"],
            ["e", "i"],
            ["k", "l"],
        ];
        let groups = by_node(&links);
        assert_eq!(
            groups,
            [("e", vec![4, 5, 6, 7, 8]), ("x", vec![0, 1, 2, 3])]
        );
        assert!(by_node(&links[..3]).is_empty());
    }

    fn port(node: &str, peer: &str, errors: &[(&str, u64)]) -> v1::PortCounters {
        let key = |node: &str| v1::PortKey {
            node_guid: node.to_owned(),
            number: 1,
        };
        let errors = errors.iter().map(|&(name, total)| v1::ErrorCounter {
            name: name.to_owned(),
            total,
            ..v1::ErrorCounter::default()
        });
        v1::PortCounters {
            port: Some(key(node)),
            description: node.to_owned(),
            peer: Some(key(peer)),
            peer_description: peer.to_owned(),
            errors: errors.collect(),
            ..v1::PortCounters::default()
        }
    }

    #[test]
    fn ports_with_equally_many_losses_of_links_to_one_switch_are_one_offender() {
        let once: &[_] = &[("LinkDownedCounter", 1)];
        let with_discards: &[_] = &[("LinkDownedCounter", 1), ("PortXmitDiscards", 9)];
        let ports = vec![
            port("leaf-1", "spine-2", &[("SymbolErrorCounter", 500)]),
            port("leaf-1", "spine-1", with_discards),
            port("leaf-2", "spine-1", once),
            port("leaf-9", "spine-1", &[("LinkDownedCounter", 7)]),
            port("leaf-3", "spine-1", once),
            port("leaf-4", "spine-1", once),
            port("leaf-5", "spine-3", once),
        ];
        let offenders = offenders(ports);
        let shown = offenders.iter().map(|one| {
            let first = one.ports[0].description.as_str();
            (one.with.as_deref(), first, one.ports.len())
        });
        let expected = [
            (None, "leaf-1", 1),
            (Some("spine-1"), "leaf-1", 4),
            (None, "leaf-9", 1),
            (None, "leaf-5", 1),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }
}
