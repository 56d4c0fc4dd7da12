//! Isolation of hosts that act against the subnet: the switch port at the host's cable is disabled,
//! as by `rsmctl port disable`, until an operator enables it again.

use std::collections::BTreeMap;

use rsm_api::ControlError;
use rsm_api::model::{PortAction, PortCommand, Selector};
use rsm_ids::PortKey;
use rsm_plan::avoid::{Avoid, AvoidError, ISOLATION, NodeOrCable, Reason};

use super::port_command::{self, Target};
use super::published::Published;

/// The port of the switch to disable for the port of a host, and its record; `None` if it is
/// disabled already.
///
/// # Errors
/// The port has no cable to a switch, belongs to this manager, or other ports would be cut off with
/// it.
pub(super) fn target(
    published: &Published,
    host: PortKey,
    why: &str,
    now_unix_ms: u64,
) -> Result<Option<(PortKey, Reason)>, ControlError> {
    let refuse = |reason: String| ControlError::Refused { reason };
    let fabric = published.fabric();
    let command = PortCommand {
        port: Selector::Guid {
            guid: host.node,
            port: Some(host.port),
        },
        action: PortAction::Disable,
        accept_cut_off: true,
        accept_own_cut_off: false,
        accept_other_operator: false,
        by: ISOLATION.to_owned(),
        reason: why.to_owned(),
    };
    let target = port_command::target(published, &command.port)?;
    if published
        .snapshot
        .avoid
        .disabled()
        .any(|port| port == target.port)
    {
        return Ok(None);
    }
    if fabric.is_switch(host.node) || target.port.node == host.node {
        return Err(refuse(format!(
            "{} is no port of a host",
            fabric.port_name(host)
        )));
    }
    port_command::check(published, &target, &command)?;
    if let Some(other) = cut_off_beside(published, &target, host) {
        return Err(refuse(format!(
            "{} would be cut off with {}",
            fabric.port_name(other),
            fabric.port_name(host)
        )));
    }
    let reason = Reason::Drained(target.disabled(&command, now_unix_ms));
    Ok(Some((target.port, reason)))
}

/// A port of a node other than the host that would be cut off; `None` if there is no such port.
fn cut_off_beside(published: &Published, target: &Target, host: PortKey) -> Option<PortKey> {
    let snapshot = &published.snapshot;
    let reason = Reason::Unhealthy(String::new());
    let parts = BTreeMap::from([(NodeOrCable::Port(target.port), reason)]);
    let damped = snapshot.plan.as_ref().map(|plan| &plan.avoided.damped);
    let damped = damped.map(|damped| (**damped).clone()).unwrap_or_default();
    let checked = Avoid::clone(&snapshot.avoid).try_add(&parts, published.fabric(), &damped);
    match checked {
        Err(AvoidError::CutOff(cut_off)) => cut_off
            .ports
            .into_iter()
            .find(|port| port.node != host.node),
        Ok(()) | Err(AvoidError::TooMany) => None,
    }
}
