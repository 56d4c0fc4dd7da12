use rsm_ids::{Guid, Lid};

use super::{PortId, Selector};

/// The missing parts that an operator gives up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GivenUp {
    /// All missing nodes and cables. Exchanged cables stay expected at their former ports.
    Missing,
    /// All exchanged cables, which are expected at their present ports from now on.
    Exchanged,
    /// The missing parts at a node, a host or a port. A port of an exchanged cable names that
    /// exchange.
    Named(Selector),
}

/// A missing switch that was present before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoneSwitch {
    /// The GUID of the switch.
    pub guid: Guid,
    /// The NodeDescription of the switch.
    pub description: String,
    /// The LID of the switch; [`Lid::NONE`] if it had none.
    pub lid: Lid,
    /// Whether hosts were cabled to the switch.
    pub has_hosts: bool,
}

/// Missing switches, and the missing cables between switches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoneSwitches {
    /// The missing switches, by ascending GUID.
    pub switches: Vec<GoneSwitch>,
    /// The missing cables, each once, as pairs of ends.
    pub cables: Vec<[PortId; 2]>,
    /// The switches at which cables of hosts are missing, by ascending GUID.
    pub leaves: Vec<Guid>,
}
