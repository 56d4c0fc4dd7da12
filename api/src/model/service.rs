use rsm_ids::{Gid, Guid};

use super::PortKey;

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

/// A service that a port offers. Its key is [`Service::key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its key.
    pub key: ServiceKey,
    /// Its name; a replacement character stands for bytes that are not UTF-8.
    pub name: String,
    /// The port that offers it; none while it is not in the fabric, and for a multicast group.
    pub port: Option<PortKey>,
    /// The description of the port's node; empty where there is no port.
    pub description: String,
    /// The GUID of the port that registered it.
    pub owner: Guid,
    /// The remaining seconds of its lease, rounded up; none where it has no end.
    pub lease_s: Option<u32>,
    /// Its 64 bytes of data.
    pub data: [u8; 64],
}

/// A filter of services; the default passes all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceFilter {
    /// Only services of this name.
    pub name: Option<String>,
    /// Only services of this port.
    pub port: Option<PortKey>,
}
