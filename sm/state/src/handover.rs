//! The ports that a takeover writes.

use std::collections::BTreeSet;

use rsm_ids::PortKey;

/// The ports to which a takeover makes the new manager known. The takeover writes these ports in
/// addition to the differences between plan and hardware.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Handover {
    /// Ports whose hosts get ClientReregister (IBA 14.4.11), because no store has their
    /// registrations, for example at the first start.
    pub reregistered: BTreeSet<PortKey>,
    /// Ports that get another MasterSMLID, because the last manager ran at another port.
    pub new_master_lids: BTreeSet<PortKey>,
}
