//! Who takes part in multicast, as far as planning depends on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::{Guid, Lid};

/// The members of each multicast LID in use, as subnet administration has them. Immutable; sets that follow each other
/// share what did not change.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct GroupSet {
    /// By multicast LID. Groups that share one are joined here.
    pub by_mlid: BTreeMap<Lid, Arc<Members>>,
    /// Others may take part of whom nothing is remembered: what switches hold tells of them.
    pub partial: bool,
}

/// The ports that take part in the groups of one multicast LID.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Members {
    /// By port GUID: whether the port receives. All of them may send.
    pub ports: BTreeMap<Guid, bool>,
}

impl GroupSet {
    /// The highest multicast LID that anybody takes part in.
    pub fn top(&self) -> Option<Lid> {
        self.by_mlid.last_key_value().map(|(&mlid, _)| mlid)
    }
}
