use rsm_ids::{Gid, Guid};

use super::PortKey;

/// What tells services apart, in the order in which they are listed (IBA 15.2.5.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// Its ServiceID.
    pub id: u64,
    /// The GID of the port that offers it, or of a multicast group.
    pub gid: Gid,
    /// The P_Key that it can be reached with; 0 for any.
    pub p_key: u16,
}

/// A service that a port offers. Its key is [`Service::key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// What tells it apart.
    pub key: ServiceKey,
    /// Its name, as far as it is text.
    pub name: String,
    /// The port that offers it; none while it is not in the fabric, and for a multicast group.
    pub port: Option<PortKey>,
    /// The description of the port's node; empty where there is no port.
    pub description: String,
    /// The GUID of the port that registered it.
    pub owner: Guid,
    /// The seconds that are left of its lease, begun ones counted; none where it has no end.
    pub lease_s: Option<u32>,
    /// Its 64 bytes of data.
    pub data: [u8; 64],
}

/// Which services are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceFilter {
    /// Those of this name.
    pub name: Option<String>,
    /// Those of this port.
    pub port: Option<PortKey>,
}
