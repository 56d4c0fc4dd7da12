use rsm_ids::{Guid, Lid, PortNum};

use super::PortKey;

/// Where a switch sends packets for one LID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardingEntry {
    /// The destination LID, unicast.
    pub lid: Lid,
    /// The exit port; 0 is the switch itself.
    pub port: PortNum,
    /// The port that holds the LID, where one does.
    pub destination: Option<PortKey>,
    /// The description of the destination's node; empty without one.
    pub destination_description: String,
}

/// A part of the linear forwarding table of a switch (IBA 14.2.5.10), as the switch last confirmed
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardingTable {
    /// The generation of the snapshot that the table comes from.
    pub generation: u64,
    /// The GUID of the switch.
    pub switch: Guid,
    /// The description of the switch.
    pub description: String,
    /// The LID of the switch's port 0.
    pub lid: Lid,
    /// LinearFDBTop: the highest LID that the switch forwards.
    pub top: Lid,
    /// The entries, ascending by LID; LIDs that the switch drops (port 255) are left out.
    pub entries: Vec<ForwardingEntry>,
}
