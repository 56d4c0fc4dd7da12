//! The parts of the hardware that a command concerns and that do not hold its result yet.

use std::collections::BTreeSet;

use rsm_api::ControlError;
use rsm_api::model::PortAction;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::PortState;
use rsm_model::fabric::{Fabric, Port};
use rsm_state::{Convergence, TablesWritten};

/// Number of ports and nodes that an answer names.
const MAX_NAMES: usize = 8;

/// The parts of the hardware that a command concerns. The failure of a device outside these parts
/// does not make the command fail.
#[derive(Clone, Debug)]
pub(super) enum Concern {
    /// No part: the answer to the command itself states what is missing.
    InAnswer,
    /// All ports and tables.
    Everything,
    /// The tables of all switches.
    Tables,
    /// The links at these ports, which an operator takes down or up.
    Links(BTreeSet<PortKey>, PortAction),
    /// The P_KeyTables of the ports and virtual ports with these GUIDs, and the switch ports at
    /// their cables.
    PKeys(BTreeSet<Guid>),
}

impl Concern {
    /// Checks that the hardware that the command concerns holds its result at the end of the pass
    /// `done`, which led to `fabric`.
    ///
    /// # Errors
    /// [`ControlError::Unwritten`] with the parts that do not hold the result.
    pub(super) fn check(&self, done: &Convergence, fabric: &Fabric) -> Result<(), ControlError> {
        if let Some(reason) = &done.unwritten.ended {
            return Err(unwritten(0, reason.clone()));
        }
        let parts = self.unwritten_ports(done, fabric);
        if parts.is_empty() {
            return Ok(());
        }
        let named = parts.iter().take(MAX_NAMES);
        let mut names: Vec<String> = named.map(|&part| name(fabric, part)).collect();
        if parts.len() > MAX_NAMES {
            names.push(format!("{} more", parts.len() - MAX_NAMES));
        }
        Err(unwritten(parts.len(), names.join(", ")))
    }

    /// The ports that the command concerns and that do not hold its result; port 0 stands for a
    /// node.
    fn unwritten_ports(&self, done: &Convergence, fabric: &Fabric) -> BTreeSet<PortKey> {
        let unwritten = &done.unwritten;
        match self {
            Concern::InAnswer => BTreeSet::new(),
            Concern::Everything => unwritten.ports.clone(),
            Concern::Tables => match &done.tables {
                TablesWritten::Unknown => unwritten.ports.clone(),
                TablesWritten::AllBut(switches) => {
                    let zero = |&switch: &Guid| PortKey::new(switch, PortNum::ZERO);
                    switches.iter().map(zero).collect()
                }
            },
            Concern::Links(ports, action) => {
                let holds = |port: &PortKey| match action {
                    PortAction::Disable => fabric.is_disabled(*port) && is_down(fabric, *port),
                    PortAction::Enable => !fabric.is_disabled(*port),
                    PortAction::Reset | PortAction::Unspecified => !unwritten.ports.contains(port),
                };
                ports.iter().copied().filter(|port| !holds(port)).collect()
            }
            Concern::PKeys(guids) => {
                let of_failed = |&part: &PortKey| concerns(fabric, part, guids, |_| true);
                // The pass has compared each entry of a table that was read.
                let of_unread =
                    |&part: &PortKey| concerns(fabric, part, guids, |port| port.p_keys.is_none());
                let failed = unwritten.ports.iter().copied().filter(of_failed);
                let unread = unwritten.unread.iter().copied().filter(of_unread);
                let mut parts: BTreeSet<PortKey> = failed.chain(unread).collect();
                let ports = parts.iter().filter(|part| part.port != PortNum::ZERO);
                let named: BTreeSet<Guid> = ports.map(|port| port.node).collect();
                parts.retain(|part| part.port != PortNum::ZERO || !named.contains(&part.node));
                parts
            }
        }
    }
}

/// Whether a port has no link.
fn is_down(fabric: &Fabric, port: PortKey) -> bool {
    let info = fabric
        .find_port(port)
        .and_then(|at| fabric.port(at).info.as_ref());
    info.is_some_and(|info| info.port_state() == PortState::Down)
}

/// Whether `part`, a port or port 0 of a node, has P_Keys for one of the GUIDs: its own GUID, the
/// GUIDs of its virtual ports, or, at an external port of a switch, the GUIDs of the port at the
/// other end of the cable. Ports for which `counts` returns false are left out.
fn concerns(
    fabric: &Fabric,
    part: PortKey,
    guids: &BTreeSet<Guid>,
    counts: impl Fn(&Port) -> bool,
) -> bool {
    let Some(node) = fabric.node_of(part.node) else {
        return false;
    };
    let has = |port: &Port| {
        let mut vports = port
            .vports
            .iter()
            .flat_map(|of_port| of_port.vports.values());
        let is_named =
            guids.contains(&port.guid) || vports.any(|vport| guids.contains(&vport.guid()));
        is_named && counts(port)
    };
    if node.is_switch() {
        let peer = fabric.find_port(part).and_then(|at| fabric.peer(at));
        let own = node.ports.first().filter(|_| part.port == PortNum::ZERO);
        return own.is_some_and(has) || peer.is_some_and(|peer| has(fabric.port(peer)));
    }
    match part.port {
        PortNum::ZERO => node.ports.iter().any(has),
        number => node.ports.get(number.index()).is_some_and(has),
    }
}

/// The name of a port, or of the node if `part` is port 0.
fn name(fabric: &Fabric, part: PortKey) -> String {
    match part.port {
        PortNum::ZERO => fabric.name(part.node),
        _ => fabric.port_name(part),
    }
}

fn unwritten(parts: usize, what: String) -> ControlError {
    ControlError::Unwritten {
        parts: parts as u64,
        what,
    }
}
