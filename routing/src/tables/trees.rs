//! Multicast groups and their trees: the content of multicast forwarding tables, LID by LID.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::{Lid, PortNum};

use super::{Mft, PortMask};
use crate::topology::SwitchIdx;

/// A port that takes part in a group: a port attached to a switch, or a switch's own port 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member {
    /// The switch to which the port is attached, or whose port 0 it is.
    pub switch: SwitchIdx,
    /// The port of that switch to which the member is attached; 0 for the switch itself.
    pub port: PortNum,
    /// Whether the port gets the packets of the group. Every member may send them.
    pub receives: bool,
}

/// The members of all groups that share a multicast LID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The multicast LID of the group.
    pub mlid: Lid,
    /// The members, sorted by (switch, port), each port once.
    pub members: Vec<Member>,
    /// A bit for each service level that packets to the group may have.
    pub levels: u16,
}

/// The tree of a multicast LID, or several trees if cables do not connect all of its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// The group for which the tree was made.
    pub group: Arc<Group>,
    /// The ports by which each switch forwards packets, sorted by switch; no mask is empty.
    pub masks: Vec<(SwitchIdx, PortMask)>,
    /// The members, sorted, in sets that reach each other. A member in no set is not served: its
    /// switch cannot multicast, or no tree to it is free of credit loops.
    pub parts: Vec<Vec<Member>>,
    /// Whether the whole tree follows the orientation of its basis.
    pub is_oriented: bool,
}

impl Tree {
    /// The ports by which a switch forwards packets; empty if it forwards none.
    pub fn mask(&self, switch: SwitchIdx) -> PortMask {
        self.masks
            .binary_search_by_key(&switch, |&(at, _)| at)
            .map(|place| self.masks[place].1)
            .unwrap_or_default()
    }

    /// The number of members that no tree serves.
    pub fn unserved(&self) -> usize {
        self.group.members.len() - self.parts.iter().map(Vec::len).sum::<usize>()
    }
}

/// The trees of all multicast LIDs in use.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Trees {
    /// The trees by multicast LID.
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
