//! Bounds of the registry of services. Requests beyond these bounds are answered with
//! ERR_NO_RESOURCES.

/// Maximum number of services of all ports. A host with several storage targets, or a manager, has
/// about ten services. Each service takes about 400 bytes.
pub(crate) const MAX_SERVICES: usize = 1 << 16;

/// Maximum number of services that one port registers with its virtual ports, for itself or for
/// other ports, so that no single port uses up [`MAX_SERVICES`].
pub(crate) const MAX_SERVICES_PER_PORT: usize = 1 << 10;
