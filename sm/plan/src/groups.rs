//! The members of multicast groups, as input of planning.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, Lid};

/// The members of each multicast LID in use, as registered with the SA. Immutable; successive sets
/// share unchanged members.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct GroupSet {
    /// Members by multicast LID: the members of all groups that share the LID.
    pub by_mlid: BTreeMap<Lid, Arc<GroupMembers>>,
    /// Mask of the service levels of the groups of each multicast LID, including groups without
    /// members.
    pub levels: Arc<BTreeMap<Lid, u16>>,
    /// Whether ports may be members without a registration; only the tables of switches show such
    /// members.
    pub partial: bool,
}

/// The ports in the groups of one multicast LID.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct GroupMembers {
    /// Whether each port receives, by port GUID. Every port may send.
    pub ports: BTreeMap<Guid, bool>,
}

impl GroupSet {
    /// Mask of the service levels that packets to a multicast LID may have; all levels if no
    /// registered group has the LID and only the tables of switches show its members.
    pub(crate) fn levels_of(&self, mlid: Lid) -> u16 {
        self.levels.get(&mlid).copied().unwrap_or(u16::MAX)
    }

    /// The highest multicast LID with members; `None` if there are no members.
    pub fn top(&self) -> Option<Lid> {
        self.by_mlid.last_key_value().map(|(&mlid, _)| mlid)
    }
}

impl GroupMembers {
    /// The ports that are members of only one of `self` and `other`, or receive in only one of
    /// them.
    pub fn differing(&self, other: &GroupMembers) -> BTreeSet<Guid> {
        if std::ptr::eq(self, other) {
            return BTreeSet::new();
        }
        let (mut here, mut there) = (self.ports.iter().peekable(), other.ports.iter().peekable());
        let mut differing = BTreeSet::new();
        loop {
            let next = match (here.peek(), there.peek()) {
                (Some((one, _)), Some((other, _))) => **one.min(other),
                (Some((guid, _)), None) | (None, Some((guid, _))) => **guid,
                (None, None) => return differing,
            };
            let is_next = |(guid, _): &(&Guid, &bool)| **guid == next;
            if here.next_if(is_next) != there.next_if(is_next) {
                differing.insert(next);
            }
        }
    }
}
