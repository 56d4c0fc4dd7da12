use rsm_ids::{Gid, Guid};

use super::PortKey;

/// What tells alias GUIDs apart, in the order in which they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AliasGuidKey {
    /// The GUID of the port.
    pub port: Guid,
    /// Its place in the port's GUIDInfo, from 1: at 0 is the port's own.
    pub index: u8,
}

/// A name that a port has beside its own (IBA 15.2.5.18). Its key is [`AliasGuid::key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasGuid {
    /// What tells it apart.
    pub key: AliasGuidKey,
    /// The GID that the port has by it; its lower half is the name.
    pub gid: Gid,
    /// The port; none while it is not in the fabric.
    pub port: Option<PortKey>,
    /// The description of the port's node; empty where there is no port.
    pub description: String,
}
