//! What the registry holds at most. Beyond it requests are answered with ERR_NO_RESOURCES; how many
//! names one port has its GUIDCap says.

/// Alias GUIDs of all ports: 45,056 hosts with a handful of virtual functions each. About 100 bytes
/// each.
pub const MAX_ALIASES: usize = 1 << 18;
