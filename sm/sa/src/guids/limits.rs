//! Bounds of the registry of alias GUIDs. Requests beyond these bounds are answered with
//! ERR_NO_RESOURCES; GUIDCap limits the alias GUIDs of one port.

/// Maximum number of alias GUIDs of all ports: five virtual functions for each of 45,056 hosts, at
/// about 100 bytes each.
pub(crate) const MAX_ALIASES: usize = 1 << 18;
