//! Cables that went down together with a node, as when the node restarts or loses power.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rsm_api::model::PortState;
use rsm_api::together::LEAST;
use rsm_api::v1::event::Change;
use rsm_ids::{Guid, PortKey};

use super::Case;
use crate::history::moments::link_ends;

/// Maximum time, in milliseconds, between the losses of links that went down with their node: a
/// sweep reads the neighbours one after the other.
const TOGETHER_MS: u64 = 10_000;

/// A cable, with its lower end first.
pub(super) type Cable = (PortKey, PortKey);

/// A loss of a cable at a time, in milliseconds since the Unix epoch.
pub(super) type Loss = (u64, Cable);

/// The node with which a cable went down, and the number of times.
pub(super) type NodeLosses = BTreeMap<Cable, (Guid, u64)>;

impl Case<'_> {
    /// The cables that went down together with a node since the start of the question.
    pub(super) fn lost_with_nodes(&self) -> NodeLosses {
        let losses = self.events().filter_map(|(at, change)| {
            let link = match change {
                Change::LinkVanished(link) => link,
                Change::LinkChanged(link) if link.state() != PortState::Active => link,
                _ => return None,
            };
            Some((at, link_ends(link)?))
        });
        let losses: Vec<Loss> = losses.collect();
        let fabric = self.published.fabric();
        with_nodes(&losses, |node| {
            let cables = fabric.node_of(node).into_iter();
            let cables = cables.flat_map(|node| node.cables());
            cables.map(|(a, b)| (a.min(b), a.max(b))).collect()
        })
    }
}

/// Losses of cables of one node within [`TOGETHER_MS`]: indices of losses.
struct Group {
    node: Guid,
    losses: Vec<usize>,
}

/// Attributes losses, which are in the order of their times, to nodes. Each loss belongs to the end
/// that lost the greater share of its cables within [`TOGETHER_MS`] at some time, since a node that
/// restarts loses all of them; then to the end that lost more cables, then to the lower GUID.
/// Leaves out losses of fewer than [`LEAST`] cables at a time. `cables` has the present cables of a
/// node.
fn with_nodes(losses: &[Loss], cables: impl Fn(Guid) -> BTreeSet<Cable>) -> NodeLosses {
    let mut of_nodes: BTreeMap<Guid, Vec<(u64, Vec<usize>)>> = BTreeMap::new();
    for (index, &(at, (a, b))) in losses.iter().enumerate() {
        for node in BTreeSet::from([a.node, b.node]) {
            let groups = of_nodes.entry(node).or_default();
            match groups.last_mut() {
                Some((first, group)) if at <= *first + TOGETHER_MS => group.push(index),
                _ => groups.push((at, vec![index])),
            }
        }
    }
    let mut ranked: BTreeMap<_, Group> = BTreeMap::new();
    for (node, groups) in of_nodes {
        let lost_in = |group: &[usize]| {
            let lost = group.iter().map(|&index| losses[index].1);
            lost.collect::<BTreeSet<Cable>>()
        };
        let groups = groups.into_iter();
        let groups = groups.map(|(first, group)| (first, lost_in(&group), group));
        let large: Vec<_> = groups.filter(|(_, lost, _)| lost.len() >= LEAST).collect();
        if large.is_empty() {
            continue;
        }
        let present = cables(node);
        let share = |lost: &BTreeSet<Cable>| 1_000_000 * lost.len() / present.union(lost).count();
        let largest = large.iter().map(|(_, lost, _)| share(lost)).max();
        for (first, lost, losses) in large {
            let rank = (Reverse(largest), Reverse(lost.len()), node, first);
            ranked.insert(rank, Group { node, losses });
        }
    }
    let mut attributed = vec![false; losses.len()];
    let mut with_nodes = NodeLosses::new();
    for Group { node, losses: own } in ranked.into_values() {
        let rest = own.into_iter().filter(|&index| !attributed[index]);
        let rest: Vec<usize> = rest.collect();
        let lost: BTreeSet<Cable> = rest.iter().map(|&index| losses[index].1).collect();
        if lost.len() < LEAST {
            continue;
        }
        rest.iter().for_each(|&index| attributed[index] = true);
        for cable in lost {
            let (known, times) = with_nodes.entry(cable).or_insert((node, 0));
            *times += u64::from(*known == node);
        }
    }
    with_nodes
}

#[cfg(test)]
mod tests {
    use rsm_ids::PortNum;

    use super::*;

    fn cable(leaf: u64, spine: u64, number: u8) -> Cable {
        let end = |node| PortKey::new(Guid(node), PortNum(number));
        (end(leaf), end(spine))
    }

    /// The cables of `bundle` between each of the leaves 1 to 8 and each of the spines 101 to 104.
    fn cables(bundle: u8) -> Vec<Cable> {
        let pairs = (1..=8).flat_map(|leaf| (101..=104).map(move |spine| (leaf, spine)));
        let cables = pairs.flat_map(|(leaf, spine)| {
            (0..bundle).map(move |at| cable(leaf, spine, spine as u8 % 100 * bundle + at))
        });
        cables.collect()
    }

    fn attributed(losses: &[Loss], bundle: u8) -> NodeLosses {
        with_nodes(losses, |node| {
            let all = cables(bundle).into_iter();
            let own = all.filter(|(a, b)| a.node == node || b.node == node);
            own.collect()
        })
    }

    #[test]
    fn losses_of_a_spine_are_not_attributed_to_a_leaf_whose_bundle_ends_at_it() {
        // The last bundle is read after the window of the spine.
        let own = cables(4).into_iter();
        let own = own.filter(|(_, spine)| spine.node == Guid(102));
        let losses: Vec<Loss> = own
            .map(|cable| (u64::from(cable.0.node == Guid(8)) * 11_000, cable))
            .collect();
        let with_nodes = attributed(&losses, 4);
        assert_eq!(with_nodes.len(), 32);
        let bundle = with_nodes
            .into_iter()
            .filter(|(cable, _)| cable.0.node == Guid(8));
        for (cable, found) in bundle {
            assert_eq!(found, (Guid(102), 1), "{cable:?}");
        }
    }

    #[test]
    fn leaf_that_lost_only_its_cables_to_restarted_spines_is_no_cause() {
        // Each of three leaves loses eight of its cables, each of four spines loses all six.
        let own = cables(2).into_iter();
        let own = own.filter(|(leaf, _)| leaf.node <= Guid(3));
        let losses: Vec<Loss> = own.map(|cable| (0, cable)).collect();
        let hosts = |node: Guid| {
            let end = move |number: u8| PortKey::new(node, PortNum(100 + number));
            let host = move |number: u8| {
                let guid = Guid(1000 * node.0 + u64::from(number));
                PortKey::new(guid, PortNum(1))
            };
            let numbers = if node.0 < 100 { 0..16u8 } else { 0..0 };
            numbers.map(move |number| (end(number), host(number)))
        };
        let with_nodes = with_nodes(&losses, |node| hosts(node).collect());
        let nodes: BTreeSet<Guid> = with_nodes.values().map(|&(node, _)| node).collect();
        assert_eq!(nodes, (101..=104).map(Guid).collect());
    }

    #[test]
    fn restart_counts_once_although_another_cable_was_lost_shortly_before() {
        let flap = cable(1, 101, 1);
        let own = cables(1).into_iter();
        let own = own.filter(|(_, spine)| spine.node == Guid(104));
        let mut losses = vec![(0, flap)];
        losses.extend(
            own.enumerate()
                .map(|(at, cable)| (9_000 + 500 * at as u64, cable)),
        );
        let with_nodes = attributed(&losses, 1);
        assert_eq!(with_nodes.len(), 8);
        assert!(with_nodes.values().all(|&found| found == (Guid(104), 1)));
    }

    #[test]
    fn three_cables_of_a_node_are_single_losses() {
        let own = cables(1).into_iter();
        let own = own.filter(|(_, spine)| spine.node == Guid(104)).take(3);
        let losses: Vec<Loss> = own.map(|cable| (0, cable)).collect();
        assert!(attributed(&losses, 1).is_empty());
    }
}
