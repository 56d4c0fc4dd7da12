//! Hosts that must register again with the SA (ClientReregister, IBA 14.4.11).
//!
//! A host is due once: after its port changed to this manager, after earlier registrations became
//! unknown, or after its registrations ended while its port was cut off.

use std::collections::BTreeSet;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{CapabilityMask, PortInfo};

use super::Changes;

/// The ports whose hosts must get ClientReregister. A comparison cannot decide this, because the
/// bit always reads as 0. A port stays due until a Set with the bit was acknowledged.
#[derive(Clone, Default, Debug)]
pub struct Reregister {
    due: BTreeSet<PortKey>,
    /// The ports that already got the bit, if every host is due once; `None` otherwise.
    told: Option<BTreeSet<PortKey>>,
}

impl Reregister {
    /// Makes every host due.
    pub fn everybody() -> Reregister {
        Reregister {
            due: BTreeSet::new(),
            told: Some(BTreeSet::new()),
        }
    }

    /// Whether no host is due.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Ports that are due by themselves, not because every host is.
    pub(super) fn due(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.due.iter().copied()
    }

    /// Makes a port due.
    pub fn add(&mut self, port: PortKey) {
        self.due.insert(port);
    }

    /// Limits the due ports to those of `changes`. A host that is absent, or ignores
    /// ClientReregister, does not get the bit later: it registers again after its own reset.
    pub fn begin(&mut self, changes: &Changes) {
        let told = changes.ports.iter().filter(|(_, change)| change.reregister);
        self.due = told.map(|(&port, _)| port).collect();
    }

    /// Records that a port got ClientReregister.
    pub fn done(&mut self, port: PortKey) {
        self.due.remove(&port);
        if let Some(told) = &mut self.told {
            told.insert(port);
        }
    }

    /// Whether a port is due, and supports ClientReregister.
    pub(super) fn includes(&self, port: PortKey, info: &PortInfo) -> bool {
        let is_new = |told: &BTreeSet<PortKey>| !told.contains(&port);
        let due = self.due.contains(&port) || self.told.as_ref().is_some_and(is_new);
        due && heeds(info)
    }
}

/// Whether the host behind a port supports ClientReregister.
pub fn heeds(info: &PortInfo) -> bool {
    let supported = CapabilityMask::IS_CLIENT_REREGISTRATION_SUPPORTED;
    info.capability_mask().contains(supported)
}
