//! What the registry holds at most. Beyond it requests are answered with ERR_NO_RESOURCES.

/// Services in all. A host with several storage targets and a few managers has about ten; about 400
/// bytes each.
pub const MAX_SERVICES: usize = 1 << 16;

/// Services that one port registers, be they its own or another's: no single port can take the room
/// of all others.
pub const MAX_SERVICES_PER_PORT: usize = 1 << 10;
