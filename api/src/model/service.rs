use rsm_ids::Gid;

use super::PortId;

/// The key of a service, by which lists are sorted (IBA 15.2.5.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// The ServiceID.
    pub id: u64,
    /// The GID of the port that offers the service, or of a multicast group.
    pub gid: Gid,
    /// The P_Key for packets to the service; 0 for any.
    pub p_key: u16,
}

/// A filter of services; the default passes all services.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceFilter {
    /// The filter passes only services of this name.
    pub name: Option<String>,
    /// The filter passes only services of this port.
    pub port: Option<PortId>,
}
