use rsm_ids::Gid;

use super::PortId;

/// The key of a service, in the order of lists (IBA 15.2.5.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// Its ServiceID.
    pub id: u64,
    /// The GID of the port that offers it, or of a multicast group.
    pub gid: Gid,
    /// The P_Key for packets to it; 0 for any.
    pub p_key: u16,
}

/// A filter of services; the default passes all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceFilter {
    /// Only services of this name.
    pub name: Option<String>,
    /// Only services of this port.
    pub port: Option<PortId>,
}
