//! Recognises dragonfly+ fabrics: two-level groups, and links between the spines of different
//! groups.

use rsm_ids::Guid;

use crate::topology::levels;
use crate::topology::{SwitchIdx, Topology};

/// A switch counts as a leaf if it has at least one in this many of the hosts of the switch with
/// the most hosts. A switch with fewer may be a spine with a storage or management node attached.
const FEW_HOSTS: usize = 4;

/// The groups of a dragonfly+.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The group of each switch. Groups are numbered in the order of their lowest leaf.
    pub group: Vec<u32>,
    /// For each switch, whether it is a leaf (true) or a spine.
    pub is_leaf: Vec<bool>,
    /// The number of groups.
    pub count: usize,
}

/// The reason why a fabric is no dragonfly+. The text follows "it is no dragonfly+: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoGroups {
    /// No switch has hosts, so there are no leaves.
    #[error("it has no hosts")]
    NoHosts,
    /// Two leaves are linked to each other.
    #[error("switches {one} and {other} both have hosts, and a link between them")]
    LinkedLeaves {
        /// The GUID of the first leaf.
        one: Guid,
        /// The GUID of the second leaf.
        other: Guid,
    },
    /// A switch without hosts is linked to no switch with hosts.
    #[error("switch {switch} has no hosts, and no link to a switch with hosts")]
    NoLeaf {
        /// The GUID of the switch without hosts.
        switch: Guid,
    },
    /// Two spines of one group are linked to each other.
    #[error("spines {one} and {other} of one group have a link between them")]
    LinkedSpines {
        /// The GUID of the first spine.
        one: Guid,
        /// The GUID of the second spine.
        other: Guid,
    },
    /// All switches form one group: the fabric is a tree.
    #[error("all leaves are in one group, which makes it a tree: updn routes it on one lane")]
    OneGroup,
    /// Two groups have no link between them.
    #[error("the groups of switches {one} and {other} have no link between them")]
    Unlinked {
        /// The lowest leaf of the first group.
        one: Guid,
        /// The lowest leaf of the second group.
        other: Guid,
    },
}

impl Groups {
    /// Finds the groups of `topology`.
    ///
    /// # Errors
    /// The fabric is no dragonfly+. Links may be missing, as long as every two groups have one
    /// left.
    pub fn find(topology: &Topology) -> Result<Groups, NoGroups> {
        let guid = |switch: SwitchIdx| topology.switch(switch).guid;
        let leaves = levels::edges(topology, FEW_HOSTS);
        if leaves.is_empty() {
            return Err(NoGroups::NoHosts);
        }
        let mut is_leaf = vec![false; topology.switch_count()];
        for leaf in &leaves {
            is_leaf[leaf.index()] = true;
        }
        let group = group_by_leaves(topology, &leaves, &is_leaf)?;
        let count = group.iter().max().map_or(0, |&last| last as usize + 1);
        if count == 1 {
            return Err(NoGroups::OneGroup);
        }
        let mut linked = vec![false; count * count];
        for switch in topology.indices().filter(|switch| !is_leaf[switch.index()]) {
            for other in topology.groups(switch).map(|group| group.neighbour) {
                let [a, b] = [switch, other].map(|end| group[end.index()] as usize);
                if !is_leaf[other.index()] && a == b {
                    let (one, other) = (guid(switch), guid(other));
                    return Err(NoGroups::LinkedSpines { one, other });
                }
                linked[a * count + b] = true;
            }
        }
        let lowest = |number: usize| {
            let is_in = |leaf: &&SwitchIdx| group[leaf.index()] as usize == number;
            leaves
                .iter()
                .find(is_in)
                .map_or(Guid(0), |&leaf| guid(leaf))
        };
        let unlinked =
            (0..count * count).find(|&pair| !linked[pair] && pair / count != pair % count);
        if let Some(pair) = unlinked {
            let (one, other) = (lowest(pair / count), lowest(pair % count));
            return Err(NoGroups::Unlinked { one, other });
        }
        Ok(Groups {
            group,
            is_leaf,
            count,
        })
    }
}

/// For each switch, the number of its group: the switches that links between leaves and spines
/// connect. Fails if two leaves are linked, or if a spine has no leaf.
fn group_by_leaves(
    topology: &Topology,
    leaves: &[SwitchIdx],
    is_leaf: &[bool],
) -> Result<Vec<u32>, NoGroups> {
    let guid = |switch: SwitchIdx| topology.switch(switch).guid;
    let mut group: Vec<Option<u32>> = vec![None; topology.switch_count()];
    let mut numbers = 0..;
    for &leaf in leaves {
        if group[leaf.index()].is_some() {
            continue;
        }
        let number = numbers.next();
        group[leaf.index()] = number;
        let mut open = vec![leaf];
        while let Some(switch) = open.pop() {
            for other in topology.groups(switch).map(|group| group.neighbour) {
                let ends = [switch, other];
                let [one_is_leaf, other_is_leaf] = ends.map(|end| is_leaf[end.index()]);
                if one_is_leaf && other_is_leaf {
                    let [one, other] = ends.map(guid);
                    return Err(NoGroups::LinkedLeaves { one, other });
                }
                if one_is_leaf != other_is_leaf && group[other.index()].is_none() {
                    group[other.index()] = number;
                    open.push(other);
                }
            }
        }
    }
    topology
        .indices()
        .map(|switch| {
            let no_leaf = NoGroups::NoLeaf {
                switch: guid(switch),
            };
            group[switch.index()].ok_or(no_leaf)
        })
        .collect()
}
