//! The election of the master (IBA 14.4.1).

use std::cmp::Reverse;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, Lid, PortKey};
use rsm_mad::wire::attr::{PortInfo, SmInfo, SmState};
use rsm_state::{Identity, Other, Role};

/// The outcome of the election.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ElectionOutcome {
    /// This manager takes this role.
    Be(Role),
    /// This manager is master, and hands the subnet over to the other one.
    HandOver(Other),
}

/// All subnet managers that answered, in the order of their ports.
pub fn others(inventory: &Inventory) -> Vec<Other> {
    let other = |port: PortKey| {
        let node = inventory.node(port.node)?;
        let record = node.port(port.port)?;
        let sm = inventory.manager(port)?;
        Some(Other {
            port,
            guid: sm.guid(),
            lid: record.info.as_ref().map_or(Lid::NONE, PortInfo::lid),
            priority: sm.priority(),
            state: sm.sm_state(),
            sm_key: sm.sm_key(),
            name: inventory.name(port.node),
        })
    };
    let ports = inventory
        .managers()
        .filter(|&port| inventory.local != Some(port));
    ports.filter_map(other).collect()
}

/// Whether this subnet manager has precedence over another: by higher priority, then by lower GUID.
pub(crate) fn precedes(identity: Identity, own_guid: Guid, other: &Other) -> bool {
    (identity.priority, Reverse(own_guid)) > other.precedence()
}

/// Decides after a sweep which manager is master.
///
/// A subnet manager that is new in the subnet lets a master stay. A master hands over to a manager
/// with precedence, whether that is standby or master of another part of the subnet. `others` are
/// those that count: managers with another SM_Key do not belong to this subnet (IBA 14.4.1).
/// `predecessor`, which has just handed over, is no rival, whatever state its SMInfo showed.
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
            let master = others.iter().copied().find(|other| other.is_master());
            standby(master.or(stronger))
        }
        Role::Master => match stronger {
            Some(heir) if heir.state != SmState::Discovering => {
                return ElectionOutcome::HandOver(heir.clone());
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
