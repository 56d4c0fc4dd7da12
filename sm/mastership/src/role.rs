//! The election of the master (IBA 14.4.1).

use std::cmp::Reverse;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, Lid, PortKey};
use rsm_mad::wire::attr::{PortInfo, SmInfo, SmState};
use rsm_state::{Identity, Other, Role};

/// The outcome of the election.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ElectionOutcome {
    /// This manager takes or keeps this role.
    Be(Role),
    /// This manager is master, and hands the subnet over to this other manager.
    HandOver(Other),
}

/// The other subnet managers whose SMInfo is known, in the order of their ports.
pub fn others(inventory: &Inventory) -> Vec<Other> {
    let other = |port: PortKey| {
        let node = inventory.hardware.node(port.node)?;
        let record = node.port(port.port)?;
        let sm = inventory.hardware.manager(port)?;
        Some(Other {
            port,
            guid: sm.guid(),
            lid: record.info.as_ref().map_or(Lid::NONE, PortInfo::lid),
            priority: sm.priority(),
            state: sm.sm_state(),
            sm_key: sm.sm_key(),
            name: inventory.hardware.name(port.node),
        })
    };
    let ports = inventory
        .hardware
        .managers()
        .filter(|&port| inventory.hardware.local != Some(port));
    ports.filter_map(other).collect()
}

/// Whether this subnet manager has precedence over another: by higher priority, then by lower GUID.
pub(crate) fn precedes(identity: Identity, own_guid: Guid, other: &Other) -> bool {
    (identity.priority, Reverse(own_guid)) > other.precedence()
}

/// Decides after a sweep which manager is master.
///
/// A new subnet manager stands by for an existing master. A master hands over to a manager with
/// precedence, whether that manager is a standby or the master of another part of the subnet.
/// `others` has no managers with another SM_Key, which do not belong to this subnet (IBA 14.4.1).
/// `predecessor` is the GUID of a manager that has just handed over. It is ignored, because its
/// SMInfo may still show the former state.
pub(crate) fn decide(
    role: &Role,
    others: &[Other],
    identity: Identity,
    own_guid: Guid,
    predecessor: Option<Guid>,
) -> ElectionOutcome {
    let others: Vec<&Other> = others
        .iter()
        .filter(|other| Some(other.guid) != predecessor && other.state != SmState::NotActive)
        .collect();
    let stronger = others
        .iter()
        .copied()
        .filter(|other| !precedes(identity, own_guid, other))
        .max_by_key(|other| other.precedence());
    let standby = |master: Option<&Other>| match master.cloned() {
        Some(master) => Role::Standby { master },
        None => Role::Master,
    };
    ElectionOutcome::Be(match role {
        Role::NotActive => Role::NotActive,
        Role::Discovering | Role::Standby { .. } => {
            // If there are two masters, the one with precedence stays master.
            let masters = others.iter().copied().filter(|other| other.is_master());
            let master = masters.max_by_key(|other| other.precedence());
            standby(master.or(stronger))
        }
        Role::Master => match stronger {
            Some(successor) if successor.state != SmState::Discovering => {
                return ElectionOutcome::HandOver(successor.clone());
            }
            _ => standby(stronger.filter(|other| other.is_master())),
        },
    })
}

/// SMInfo as this subnet manager shows it.
pub(crate) fn sm_info(role: &Role, identity: Identity, own_guid: Guid, activity: u32) -> SmInfo {
    let mut info = SmInfo::default();
    info.set_guid(own_guid);
    info.set_sm_key(identity.sm_key);
    info.set_act_count(activity);
    info.set_priority(identity.priority);
    info.set_sm_state(role.state());
    info
}
