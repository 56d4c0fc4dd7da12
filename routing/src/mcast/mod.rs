//! Multicast: one tree of switches for each multicast LID.
//!
//! A switch forwards a multicast packet by every port of its mask but the one that it came in by
//! (IBA 18.2.4.3.4), so that only masks that form a tree deliver each packet once. A tree here
//! hangs from one switch and goes down from there by the same [`Orientation`] that the unicast
//! routes follow: packets climb towards the top and come down from it, never up again, and the
//! links of all trees and of all unicast routes together cannot form a credit loop. Where that is
//! impossible (routes without an orientation, members without a common top), [`plan`] tries other
//! trees and keeps them only where the dependencies prove acyclic together; else all groups of a
//! service level have parts of one master tree, which is proved on its lanes.
//!
//! A tree that changes keeps every branch that switches hold already, as long as it is among the
//! shortest: a join adds a branch, a leave removes one, a broken link moves the members behind it.
//! So planning would not change a tree that switches hold and that no difference of the fabric
//! concerns: [`follow`] gives the result of [`plan`], and looks at the other trees only.

mod delta;
mod follow;
mod ground;
mod grow;
mod masters;
mod orientation;
mod plan;
mod reach;
mod span;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::{Lid, PortNum};

pub use delta::GroundDelta;
pub use follow::{Earlier, Followed, follow};
pub use ground::Ground;
pub use orientation::Orientation;
pub use plan::{Held, Job, plan};
pub use table::{BLOCK_MLIDS, Mft, POSITION_PORTS, PortMask};

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
