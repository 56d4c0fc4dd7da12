use rsm_ids::{Guid, Lid};

use super::PortId;

/// A switch that was there and is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoneSwitch {
    /// Its GUID.
    pub guid: Guid,
    /// Its NodeDescription.
    pub description: String,
    /// The LID that it held; [`Lid::NONE`] where it held none.
    pub lid: Lid,
    /// Whether hosts were cabled to it.
    pub has_hosts: bool,
}

/// Missing switches, and the missing cables between switches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoneSwitches {
    /// By ascending GUID.
    pub switches: Vec<GoneSwitch>,
    /// Each cable once, by its two ends.
    pub cables: Vec<[PortId; 2]>,
}
