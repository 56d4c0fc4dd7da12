//! Limits of the registry. Beyond them requests are answered with ERR_NO_RESOURCES.

/// Services in all. A host with several storage targets and a few managers has about ten; about 400
/// bytes each.
pub(crate) const MAX_SERVICES: usize = 1 << 16;

/// Services that one port registers, for itself or for others: no single port can take the room of
/// all.
pub(crate) const MAX_SERVICES_PER_PORT: usize = 1 << 10;
