//! Hosts that are to register anew with the SA (IBA 14.4.11).

use std::collections::BTreeSet;

use rsm_ids::Guid;
use rsm_mad::wire::attr::{CapabilityMask, PortInfo};

use super::Changes;

/// The ports whose hosts are to be told, by a bit that reads as 0 whatever was written: it cannot
/// be compared, and is due until one Set with it was acknowledged.
#[derive(Clone, Default, Debug)]
pub struct Reregister {
    due: BTreeSet<Guid>,
    /// Where everybody is to be told as soon as he is met: those who were.
    told: Option<BTreeSet<Guid>>,
}

impl Reregister {
    /// Everybody is to be told, once.
    pub fn everybody() -> Reregister {
        Reregister {
            due: BTreeSet::new(),
            told: Some(BTreeSet::new()),
        }
    }

    /// Whether nobody is known who is to be told.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// The port with this GUID is due.
    pub fn add(&mut self, port: Guid) {
        self.due.insert(port);
    }

    /// Those are due who are told with `changes`. Who is not there, or does not heed it, is not
    /// told later either: he registers anew when he is reset.
    pub fn begin(&mut self, changes: &Changes) {
        let told = changes.ports.values();
        self.due = told.filter_map(|change| change.reregister).collect();
    }

    /// The port with this GUID was told.
    pub fn done(&mut self, port: Guid) {
        self.due.remove(&port);
        if let Some(told) = &mut self.told {
            told.insert(port);
        }
    }

    /// Whether the port with this GUID is to be told, and heeds it.
    pub(super) fn includes(&self, port: Guid, info: &PortInfo) -> bool {
        let is_new = |told: &BTreeSet<Guid>| !told.contains(&port);
        let due = self.due.contains(&port) || self.told.as_ref().is_some_and(is_new);
        due && heeds(info)
    }
}

/// Whether the host behind a port heeds ClientReregister.
pub fn heeds(info: &PortInfo) -> bool {
    let supported = CapabilityMask::IS_CLIENT_REREGISTRATION_SUPPORTED;
    info.capability_mask().contains(supported)
}
