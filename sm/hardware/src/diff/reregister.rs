//! Hosts that must register again with the SA (ClientReregister, IBA 14.4.11).
//!
//! A host must register again once after each of these events: its port changed to this manager;
//! its earlier registrations became unknown; its registrations ended while its port was cut off.

use std::collections::BTreeSet;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{CapabilityMask, PortInfo};

use super::Changes;

/// The ports whose hosts must get ClientReregister. This cannot follow from a comparison, because
/// the bit always reads as 0. A port stays due until a Set with the bit is acknowledged.
#[derive(Clone, Default, Debug)]
pub struct Reregister {
    /// Ports that are due for a reason of their own.
    due: BTreeSet<PortKey>,
    /// Ports that already got the bit, if every host is due once; else `None`.
    reregistered: Option<BTreeSet<PortKey>>,
}

impl Reregister {
    /// Makes every host due.
    pub fn everybody() -> Reregister {
        Reregister {
            due: BTreeSet::new(),
            reregistered: Some(BTreeSet::new()),
        }
    }

    /// Whether no port is due for a reason of its own.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Ports that are due for a reason of their own, not because every host is.
    pub(super) fn due(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.due.iter().copied()
    }

    /// Makes a port due.
    pub fn add(&mut self, port: PortKey) {
        self.due.insert(port);
    }

    /// Limits the due ports to the ports of `changes`. A host that is absent, or ignores
    /// ClientReregister, does not get the bit later: it registers again after its own reset.
    pub fn begin(&mut self, changes: &Changes) {
        let asked = changes.ports.iter().filter(|(_, change)| change.reregister);
        self.due = asked.map(|(&port, _)| port).collect();
    }

    /// Records that a port got ClientReregister.
    pub fn done(&mut self, port: PortKey) {
        self.due.remove(&port);
        if let Some(reregistered) = &mut self.reregistered {
            reregistered.insert(port);
        }
    }

    /// Whether a port is due, and supports ClientReregister.
    pub(super) fn includes(&self, port: PortKey, info: &PortInfo) -> bool {
        let is_new = |reregistered: &BTreeSet<PortKey>| !reregistered.contains(&port);
        let due = self.due.contains(&port) || self.reregistered.as_ref().is_some_and(is_new);
        due && heeds(info)
    }
}

/// Whether the host behind a port supports ClientReregister.
pub fn heeds(info: &PortInfo) -> bool {
    let supported = CapabilityMask::IS_CLIENT_REREGISTRATION_SUPPORTED;
    info.capability_mask().contains(supported)
}
