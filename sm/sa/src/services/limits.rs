//! Bounds of the registry of services. Requests beyond them are answered with ERR_NO_RESOURCES.

/// Bound of all services. A host with several storage targets and a few managers has about ten, at
/// about 400 bytes each.
pub(crate) const MAX_SERVICES: usize = 1 << 16;

/// Bound of the services that one port registers, for itself or for others, so that no single port
/// uses up all room.
pub(crate) const MAX_SERVICES_PER_PORT: usize = 1 << 10;
