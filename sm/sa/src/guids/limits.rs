//! Bounds of the registry of alias GUIDs. Requests beyond them are answered with ERR_NO_RESOURCES;
//! GUIDCap limits the alias GUIDs of one port.

/// Bound of the alias GUIDs of all ports: 45,056 hosts with a handful of virtual functions each, of
/// about 100 bytes each.
pub(crate) const MAX_ALIASES: usize = 1 << 18;
