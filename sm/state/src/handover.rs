//! The ports that a takeover touches.

use std::collections::BTreeSet;

use rsm_ids::PortKey;

/// The ports that learn of another manager: what a takeover sends beside the difference between
/// plan and hardware.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Handover {
    /// Ports whose hosts get ClientReregister (IBA 14.4.11) where no store tells what hosts are
    /// registered for, as at the first start.
    pub reregistered: BTreeSet<PortKey>,
    /// Ports that get another MasterSMLID, because the last manager ran at another port.
    pub new_master_lids: BTreeSet<PortKey>,
}
