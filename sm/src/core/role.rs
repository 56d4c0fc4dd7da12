//! One subnet manager among others (IBA 14.4.1).

use rsm_ids::{Guid, Lid};
use rsm_mad::transport::Datagram;
use rsm_mad::wire::attr::{Attribute, SmInfo, SmState};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::Smp;

use crate::sweep::inventory::{Inventory, PortKey};

/// What distinguishes this subnet manager.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Identity {
    /// The higher one is master, 0 to 15.
    pub priority: u8,
    /// Shown to other subnet managers that are trusted.
    pub sm_key: u64,
}

/// The state of this subnet manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// It has not seen the whole subnet yet.
    Discovering,
    /// Another one is master.
    Standby {
        /// The other one.
        master: Other,
    },
    /// It is master.
    Master,
}

/// Another subnet manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Other {
    /// Where it is.
    pub port: PortKey,
    /// The GUID that it gives as its own.
    pub guid: Guid,
    /// The LID of its port.
    pub lid: Lid,
    /// Its priority.
    pub priority: u8,
    /// Whether it says that it is master.
    pub is_master: bool,
    /// The description of its node.
    pub name: String,
}

/// All subnet managers that answered, in the order of their ports.
pub fn others(inventory: &Inventory) -> Vec<Other> {
    let mut others = Vec::new();
    for (guid, node) in inventory.nodes() {
        for (number, port) in node.ports.iter().enumerate() {
            let key = PortKey::new(guid, rsm_ids::PortNum(number as u8));
            if let Some(sm) = &port.sm
                && inventory.local != Some(key)
            {
                others.push(Other {
                    port: key,
                    guid: sm.guid(),
                    lid: port.info.as_ref().map_or(Lid::NONE, |info| info.lid()),
                    priority: sm.priority(),
                    is_master: sm.sm_state() == SmState::Master,
                    name: node.name(),
                });
            }
        }
    }
    others
}

/// Who is to be master, after a sweep.
///
/// A subnet manager that is new in the subnet leaves a master in its place, and one that is master gives way only
/// to a master that has precedence: the higher priority, then the lower GUID.
pub fn decide(role: &Role, inventory: &Inventory, identity: Identity, own_guid: Guid) -> Role {
    let others = others(inventory);
    let own = (identity.priority, std::cmp::Reverse(own_guid));
    let precedes = |other: &&Other| (other.priority, std::cmp::Reverse(other.guid)) > own;
    let stronger = match role {
        Role::Master => others.iter().filter(|other| other.is_master).find(precedes),
        _ => others
            .iter()
            .find(|other| other.is_master)
            .or_else(|| others.iter().find(precedes)),
    };
    match stronger {
        Some(master) => Role::Standby {
            master: master.clone(),
        },
        None => Role::Master,
    }
}

/// The answer to somebody's Get of SMInfo, or a refusal of anything else that concerns it.
pub fn answer_sm_info(
    request: &Datagram,
    role: &Role,
    identity: Identity,
    own_guid: Guid,
    activity: u32,
) -> Datagram {
    let mut reply = *request;
    let smp = Smp::from_bytes_mut(&mut reply.mad);
    if smp.header().method() == Method::GET {
        let mut info = SmInfo::default();
        info.set_guid(own_guid);
        info.set_act_count(activity);
        info.set_priority(identity.priority);
        info.set_sm_state(match role {
            Role::Discovering => SmState::Discovering,
            Role::Standby { .. } => SmState::Standby,
            Role::Master => SmState::Master,
        });
        *smp.data_mut() = *info.as_data();
        smp.make_response(rsm_mad::wire::header::Status::OK);
    } else {
        // Election by SubnSet(SMInfo) is not spoken here yet; the sender learns that at once.
        smp.make_response(rsm_mad::wire::header::Status::UNSUPPORTED_METHOD_ATTRIBUTE);
    }
    reply
}
