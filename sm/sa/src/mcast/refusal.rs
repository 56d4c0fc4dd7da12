//! The reasons for refused joins, which findings state.

use std::fmt;

use rsm_config::Partitions;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{Mtu, PKey};
use rsm_mad::wire::sa::{ComponentMask, McMemberRecord, Rate};

use super::{GroupRegistry, MemberPort, MulticastGroup, join, mgid, realize};

/// Reason why the join of a port is refused, if the cause is the port or the group rather than an
/// invalid request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinRefusal {
    /// The link is slower than the group's rate.
    Rate {
        /// Rate of the link.
        port: Rate,
        /// Rate of the group.
        group: Rate,
        /// P_Key of the group.
        p_key: PKey,
    },
    /// The MTU of the link is smaller than the MTU of the group.
    Mtu {
        /// MTU of the link.
        port: Mtu,
        /// MTU of the group.
        group: Mtu,
        /// P_Key of the group.
        p_key: PKey,
    },
    /// The port has no P_Key of the group's partition.
    NotInPartition {
        /// P_Key of the group.
        p_key: PKey,
    },
    /// A component of the request differs from the group.
    Differs {
        /// Component of MCMemberRecord.
        component: &'static str,
        /// Value in the request.
        requested: u64,
        /// Value of the group.
        actual: u64,
        /// P_Key of the group.
        p_key: PKey,
    },
    /// The group does not exist, and the request lacks components to create it.
    NoGroup {
        /// P_Key in the MGID of IP over InfiniBand, or in the request.
        p_key: Option<PKey>,
    },
}

impl JoinRefusal {
    /// P_Key of the group; `None` if it is unknown.
    pub fn p_key(&self) -> Option<PKey> {
        match *self {
            JoinRefusal::Rate { p_key, .. }
            | JoinRefusal::Mtu { p_key, .. }
            | JoinRefusal::NotInPartition { p_key }
            | JoinRefusal::Differs { p_key, .. } => Some(p_key),
            JoinRefusal::NoGroup { p_key } => p_key,
        }
    }

    /// Advice to the operator, without a final period.
    pub fn remedy(&self) -> &'static str {
        match self {
            JoinRefusal::Rate { .. } => {
                "give the partition a lower `rate` (partitions.conf, `rsmctl partition configure`), or see why the link is slow"
            }
            JoinRefusal::Mtu { .. } => {
                "give the partition a smaller `mtu` (partitions.conf, `rsmctl partition configure`)"
            }
            JoinRefusal::NotInPartition { .. } => {
                "make the port a member (partitions.conf, `rsmctl partition add`), or take the interface off the host"
            }
            JoinRefusal::Differs { .. } => {
                "set the same value at the host and for the partition, or `sa.validate_joins = false`"
            }
            JoinRefusal::NoGroup { .. } => {
                "give the partition `ipoib` (partitions.conf, `rsmctl partition configure --ipoib`), or take the interface off \
                 the host"
            }
        }
    }
}

impl fmt::Display for JoinRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            JoinRefusal::Rate { port, group, .. } => write!(
                f,
                "the rate of its link is {port} (code {}), and the group needs at least {group} (code {})",
                port.0, group.0
            ),
            JoinRefusal::Mtu { port, group, .. } => write!(
                f,
                "the MTU of its link is {} bytes (code {}), and the group needs at least {} (code {})",
                port.bytes().unwrap_or_default(),
                port.code(),
                group.bytes().unwrap_or_default(),
                group.code()
            ),
            JoinRefusal::NotInPartition { p_key } => {
                write!(f, "the port holds no key of the partition {}", PKey(p_key.base()))
            }
            JoinRefusal::Differs {
                component,
                requested,
                actual,
                ..
            } => write!(f, "the request has {component} {requested:#x}, and the group {actual:#x}"),
            JoinRefusal::NoGroup { .. } => f.write_str(
                "there is no such group, and the request does not have all components to create one",
            ),
        }
    }
}

/// Describes a group by its MGID, and its partition by name and P_Key.
pub fn described(mgid: Gid, p_key: Option<PKey>, partitions: &Partitions) -> String {
    let partition = p_key.map(|p_key| {
        let key = PKey(p_key.base());
        match partitions.find(p_key) {
            Some(found) if found.name != key.to_string() => {
                format!("partition `{}`, {key}", found.name)
            }
            _ => format!("partition {key}"),
        }
    });
    let partition = partition.map_or_else(String::new, |partition| format!(" ({partition})"));
    match mgid::ip_partition(mgid) {
        Some(_) if is_broadcast(mgid) => {
            format!("the broadcast group of IP over InfiniBand {mgid}{partition}")
        }
        Some(_) => format!("the IP multicast group {mgid}{partition}"),
        None => format!("the multicast group {mgid}{partition}"),
    }
}

/// Whether a group is the broadcast group of a partition, without which a host has no IP over
/// InfiniBand there (RFC 4391, 5).
pub fn is_broadcast(mgid: Gid) -> bool {
    mgid::ip_partition(mgid).is_some() && mgid::broadcast_of(mgid).is_none()
}

impl GroupRegistry {
    /// Reason why [`GroupRegistry::join`] refuses this request of `port` for itself; `None` if the
    /// request is invalid regardless of port and group.
    pub fn refusal(
        &self,
        record: &McMemberRecord,
        mask: ComponentMask,
        port: &MemberPort<'_>,
    ) -> Option<JoinRefusal> {
        match self.groups.get(&record.mgid()) {
            Some(group) => refusal_by_group(group, record, self.validated(mask), port),
            None => {
                let of_mgid = mgid::ip_partition(record.mgid());
                let requested = mask.contains(McMemberRecord::P_KEY).then(|| record.p_key());
                let p_key = of_mgid.or(requested);
                let expects_group =
                    mgid::is_valid(record.mgid()) && !mask.contains(join::REQUIRED_TO_CREATE);
                expects_group.then_some(JoinRefusal::NoGroup { p_key })
            }
        }
    }
}

/// Reason why a join of an existing group is refused; `None` if port and request fit the group.
fn refusal_by_group(
    group: &MulticastGroup,
    record: &McMemberRecord,
    mask: ComponentMask,
    port: &MemberPort<'_>,
) -> Option<JoinRefusal> {
    let parameters = &group.parameters;
    let p_key = parameters.p_key;
    if !port.is_in(p_key) {
        return Some(JoinRefusal::NotInPartition { p_key });
    }
    if !realize::can_carry(port, parameters) {
        let is_slow = port.rate.tenth_gbps() < parameters.rate.tenth_gbps();
        return Some(match is_slow {
            true => JoinRefusal::Rate {
                port: port.rate,
                group: parameters.rate,
                p_key,
            },
            false => JoinRefusal::Mtu {
                port: port.mtu,
                group: parameters.mtu,
                p_key,
            },
        });
    }
    let mismatch = join::mismatch(record, mask.without(McMemberRecord::MLID), group)?;
    let join::Mismatch {
        component,
        requested,
        actual,
    } = mismatch;
    Some(JoinRefusal::Differs {
        component,
        requested,
        actual,
        p_key,
    })
}
