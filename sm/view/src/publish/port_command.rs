//! Ports that operators disable, enable and reset.

use std::collections::{BTreeMap, BTreeSet};

use rsm_api::model::{PortCommand, Selector};
use rsm_api::resolve::resolve_cable_port;
use rsm_api::{ControlError, LookupError, timestamp};
use rsm_ids::{Guid, PortKey};
use rsm_mad::wire::attr::{PortPhysicalState, PortState};
use rsm_plan::avoid::{Avoid, AvoidError, Drained, NodeOrCable, Reason};

use super::api_view::{api_key, core_key};
use super::published::Published;

/// The port that a command sets: the end of the cable at a switch; of two switches, the one closer
/// to the subnet manager, which can still reach it to enable it again.
pub(super) struct Target {
    pub(super) port: PortKey,
    /// The other end of the cable; `None` if there is none.
    peer: Option<PortKey>,
    /// Name of the port, such as `leaf-03 port 7`.
    name: String,
    /// The port that the operator named, at this or the other end.
    pub(super) named: PortKey,
    /// The port that the operator named, with the other end of its cable: `leaf-03 port 7 (cable to
    /// spine-01 port 3)`.
    pub(super) asked: String,
}

impl Target {
    /// The record of this port as a disabled port.
    pub(super) fn disabled(&self, command: &PortCommand, since_unix_ms: u64) -> Drained {
        Drained {
            note: command.reason.clone(),
            forced: command.accept_cut_off,
            name: self.name.clone(),
            peer: self.peer,
            disabled: true,
            ..Drained::new(operator(&command.by), since_unix_ms)
        }
    }
}

/// The operator of a command, as records name it; `by` is the name in the command.
pub(super) fn operator(by: &str) -> String {
    match by {
        "" => "an operator".to_owned(),
        by => by.to_owned(),
    }
}

/// The port to set for the port that an operator names, at either end of a cable. The name may be
/// of a switch that cannot be reached because the port at the other end is disabled.
///
/// # Errors
/// The name refers to no port, or no end of the cable is a port of a switch.
pub(super) fn target(published: &Published, name: &Selector) -> Result<Target, ControlError> {
    let fabric = published.fabric();
    let refuse = |reason: String| ControlError::Refused { reason };
    let named = match resolve_cable_port(&published.names, name) {
        Err(error) => return disabled_before(published, name, &error).ok_or(error.into()),
        Ok(found) => core_key(found),
    };
    let at = fabric.find_port(named).ok_or(LookupError::NoSuchPort {
        port: api_key(named),
    })?;
    let peer = fabric.port(at).peer.or(last_peer(published, named));
    let port = match (disabled_at(published, named), peer) {
        (Some(disabled), _) => disabled,
        (None, Some(peer)) => nearer_end(published, named, peer),
        (None, None) => named,
    };
    if !fabric.is_switch(port.node) {
        let text = format!(
            "{} is no port of a switch and has no cable to one: nothing can reach it to enable it again",
            fabric.port_name(port)
        );
        return Err(refuse(text));
    }
    let (peer, other) = match named == port {
        true => (peer, peer),
        false => (Some(named), Some(port)),
    };
    let to = other.map(|other| format!(" (cable to {})", fabric.port_name(other)));
    Ok(Target {
        port,
        peer,
        name: fabric.port_name(port),
        named,
        asked: fabric.port_name(named) + &to.unwrap_or_default(),
    })
}

/// The other end that a link had before it went down; `None` if that end has another cable now.
fn last_peer(published: &Published, port: PortKey) -> Option<PortKey> {
    let fabric = published.fabric();
    let peer = published.snapshot.expected.port(port)?.peer;
    let is_cabled = |at| fabric.port(at).peer.is_some();
    (!fabric.find_port(peer).is_some_and(is_cabled)).then_some(peer)
}

/// The disabled port that leads to a node that has disappeared, if the name refers to the node's
/// port at the other end of that cable, or to the node and only one disabled port leads to it.
fn disabled_before(published: &Published, name: &Selector, error: &LookupError) -> Option<Target> {
    let LookupError::Gone { node, port, .. } = error else {
        return None;
    };
    let named = match port {
        Some(number) => PortKey::new(*node, *number),
        None => only_disabled_end(published, *node)?,
    };
    let port = disabled_at(published, named)?;
    let called = published.fabric().port_name(port);
    Some(Target {
        port,
        peer: Some(named),
        asked: format!("{name} (cable to {called})"),
        name: called,
        named,
    })
}

/// The only port of a node that has disappeared to which a disabled port leads.
fn only_disabled_end(published: &Published, node: Guid) -> Option<PortKey> {
    let disabled = published.snapshot.avoid.drained();
    let disabled = disabled.filter(|(_, drained)| drained.disabled);
    let ends = disabled.filter_map(|(_, drained)| drained.peer);
    let mut ends = ends.filter(|end| end.node == node);
    match (ends.next(), ends.next()) {
        (Some(end), None) => Some(end),
        _ => None,
    }
}

/// The port that operators keep disabled at one of the ends of the cable at `key`, as it was when
/// the port was disabled. Drained cables without a disabled port do not count, nor does the former
/// other end of a port that has another cable now.
fn disabled_at(published: &Published, key: PortKey) -> Option<PortKey> {
    let fabric = published.fabric();
    let has_cable = fabric
        .find_port(key)
        .is_some_and(|at| fabric.port(at).peer.is_some());
    let mut drained = published.snapshot.avoid.drained();
    drained.find_map(|(part, drained)| match part {
        NodeOrCable::Port(port) if drained.disabled => {
            let is_other_end = drained.peer == Some(key) && !has_cable && !part.is_there(fabric);
            (port == key || is_other_end).then_some(port)
        }
        _ => None,
    })
}

/// The end at a switch; of two switches, the end closer to the subnet manager. An end that has
/// disappeared counts as farther.
fn nearer_end(published: &Published, one: PortKey, other: PortKey) -> PortKey {
    let rank = |key: PortKey| {
        let node = published.fabric().node_of(key.node);
        node.map_or((true, true, u8::MAX), |node| {
            (false, !node.is_switch(), node.distance)
        })
    };
    match rank(one) <= rank(other) {
        true => one,
        false => other,
    }
}

/// Checks that the link of a port may go down.
///
/// # Errors
/// The command would cut off ports, or the subnet manager itself, and does not accept that.
pub(super) fn check(
    published: &Published,
    target: &Target,
    command: &PortCommand,
) -> Result<(), ControlError> {
    let snapshot = &published.snapshot;
    let fabric = published.fabric();
    let drained = Reason::Drained(target.disabled(command, 0));
    let parts = BTreeMap::from([(NodeOrCable::Port(target.port), drained)]);
    let none = BTreeSet::new();
    let damped = snapshot
        .plan
        .as_ref()
        .map_or(&none, |plan| &*plan.avoided.damped);
    let local = fabric.local.map(|at| fabric.key(at));
    let is_own_link = local.is_some_and(|own| own == target.port || Some(own) == target.peer);
    let checked = Avoid::clone(&snapshot.avoid).try_add(&parts, fabric, damped);
    let (cut_off, includes_manager) = match checked {
        Ok(()) => (None, is_own_link),
        Err(AvoidError::CutOff(cut_off)) => {
            let includes_manager = is_own_link || cut_off.includes_manager;
            (Some(cut_off), includes_manager)
        }
        Err(error @ AvoidError::TooMany) => {
            return Err(ControlError::Refused {
                reason: error.to_string(),
            });
        }
    };
    if includes_manager && !command.accept_own_cut_off {
        let reason = format!(
            "{} is on the way of this subnet manager: it would be cut off from the fabric, and could \
             not enable the port again. Move the manager first, or accept that with \
             --cut-off-this-manager (accept_own_cut_off)",
            target.asked
        );
        return Err(ControlError::Refused { reason });
    }
    match cut_off {
        Some(cut_off) if !command.accept_cut_off && !includes_manager => {
            Err(ControlError::CutOff {
                ports: cut_off.ports.len() as u64,
                reason: format!(
                    "{}: refused, and everything stays as it was: without this cable {cut_off}",
                    target.asked
                ),
            })
        }
        _ => Ok(()),
    }
}

/// Checks that a port is disabled, by rsm or otherwise.
///
/// # Errors
/// The port is not disabled.
pub(super) fn check_enable(published: &Published, target: &Target) -> Result<(), ControlError> {
    let fabric = published.fabric();
    let is_ours = published
        .snapshot
        .avoid
        .disabled()
        .any(|port| port == target.port);
    let info = fabric
        .find_port(target.port)
        .and_then(|at| fabric.port(at).info.as_ref());
    let is_disabled =
        info.is_some_and(|info| info.port_physical_state() == PortPhysicalState::Disabled);
    if is_ours || is_disabled {
        return Ok(());
    }
    Err(ControlError::Refused {
        reason: format!("{} is not disabled", target.asked),
    })
}

/// The text of the refusal to enable a port that `order` of another operator keeps disabled.
pub(super) fn disabled_by_another(order: &Drained) -> String {
    let since = timestamp(order.since_unix_ms);
    let note = match order.note.as_str() {
        "" => String::new(),
        note => format!(" ({note})"),
    };
    format!(
        "{} was disabled by {} at {since}{note}: refused, and everything stays as it was: enabling the port ends that",
        order.name, order.by
    )
}

/// Checks that a port has a link, which a reset takes down and up again.
///
/// # Errors
/// The port has no link.
pub(super) fn check_reset(published: &Published, target: &Target) -> Result<(), ControlError> {
    let fabric = published.fabric();
    let at = fabric.find_port(target.port);
    let info = at.and_then(|at| fabric.port(at).info.as_ref());
    if info.is_some_and(|info| info.port_state() != PortState::Down) {
        return Ok(());
    }
    Err(ControlError::Refused {
        reason: format!("{} has no link: there is nothing to reset", target.name),
    })
}
