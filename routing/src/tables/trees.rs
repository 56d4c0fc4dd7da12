//! Multicast groups and their trees: what multicast forwarding tables say, LID by LID.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::{Lid, PortNum};

use super::{Mft, PortMask};
use crate::topology::SwitchIdx;

/// A port that takes part in a group: one that hangs off a switch, or a switch's own port 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member {
    /// The switch it hangs off, or is the port 0 of.
    pub switch: SwitchIdx,
    /// The port of that switch it hangs off; 0 for the switch itself.
    pub port: PortNum,
    /// Whether it gets the packets of the group. Every member may send them.
    pub receives: bool,
}

/// The members of all groups that share a multicast LID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The multicast LID.
    pub mlid: Lid,
    /// Sorted by (switch, port), each port once.
    pub members: Vec<Member>,
    /// A bit for each service level that packets to it may have.
    pub levels: u16,
}

/// The tree of a multicast LID; several, where cables do not join all of its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// The group that it was made for.
    pub group: Arc<Group>,
    /// The ports by which each switch forwards packets; sorted, none empty.
    pub masks: Vec<(SwitchIdx, PortMask)>,
    /// Members that reach each other, each part sorted. A member in no part is not served: its
    /// switch cannot multicast, or no tree to it is free of credit loops.
    pub parts: Vec<Vec<Member>>,
    /// Whether all of it follows the orientation of its ground.
    pub is_oriented: bool,
}

impl Tree {
    /// The ports by which a switch forwards packets.
    pub fn mask(&self, switch: SwitchIdx) -> PortMask {
        self.masks
            .binary_search_by_key(&switch, |&(at, _)| at)
            .map(|place| self.masks[place].1)
            .unwrap_or_default()
    }

    /// How many members no tree serves.
    pub fn unserved(&self) -> usize {
        self.group.members.len() - self.parts.iter().map(Vec::len).sum::<usize>()
    }
}

/// The trees of all multicast LIDs in use.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Trees {
    /// By multicast LID.
    pub by_mlid: BTreeMap<Lid, Arc<Tree>>,
}

impl Trees {
    /// The multicast forwarding table of each of `switches` switches, by number.
    pub fn tables(&self, switches: usize) -> Vec<Arc<Mft>> {
        let mut tables = vec![Mft::default(); switches];
        for (&mlid, tree) in &self.by_mlid {
            for &(switch, mask) in &tree.masks {
                tables[switch.index()].set(mlid, mask);
            }
        }
        tables.into_iter().map(Arc::new).collect()
    }
}
