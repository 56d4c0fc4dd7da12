//! Limits of the registry. Beyond them requests are answered with ERR_NO_RESOURCES; GUIDCap limits
//! the alias GUIDs of one port.

/// Alias GUIDs of all ports: 45,056 hosts with a handful of virtual functions each. About 100 bytes
/// each.
pub(crate) const MAX_ALIASES: usize = 1 << 18;
