//! The members of multicast groups, as input of planning.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Guid, Lid};

/// The members of each multicast LID in use, as registered with the SA. Immutable; successive sets
/// share unchanged members.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct GroupSet {
    /// Members by multicast LID: those of all groups that share it.
    pub by_mlid: BTreeMap<Lid, Arc<GroupMembers>>,
    /// Mask of the service levels of the groups of each multicast LID, including groups without
    /// members.
    pub levels: Arc<BTreeMap<Lid, u16>>,
    /// Whether there may be members without a registration, which only the switches' tables show.
    pub partial: bool,
}

/// The ports in the groups of one multicast LID.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct GroupMembers {
    /// Whether each port receives, by port GUID. All of them may send.
    pub ports: BTreeMap<Guid, bool>,
}

impl GroupSet {
    /// Mask of the service levels that packets to a multicast LID may have. All levels, if no group
    /// is known because only the switches' tables show members.
    pub(crate) fn levels_of(&self, mlid: Lid) -> u16 {
        self.levels.get(&mlid).copied().unwrap_or(u16::MAX)
    }

    /// The highest multicast LID with members.
    pub fn top(&self) -> Option<Lid> {
        self.by_mlid.last_key_value().map(|(&mlid, _)| mlid)
    }
}

impl GroupMembers {
    /// The ports that are members in only one of the two, or receive in only one.
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
