use crate::JoinError;

/// The reason why a file cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// No host has this name.
    #[error("nothing is known of host `{0}`")]
    UnknownHost(String),
    /// A device has no PCI address, by which the file identifies devices.
    #[error(
        "{0} has no PCI address: import a source that tells it (sysfs, NCCL's topology, hwloc)"
    )]
    NoPciAddress(String),
    /// A device has no name, by which the software addresses devices.
    #[error("the adapter at {0} has no name: import a source that tells it")]
    NoDeviceName(String),
    /// The format cannot express a name.
    #[error("`{name}` cannot be a name of {format}: {rule}")]
    Name {
        /// The given name.
        name: String,
        /// The name of the format.
        format: &'static str,
        /// The characters that the format permits in names.
        rule: &'static str,
    },
    /// A host has more adapters than the software accepts.
    #[error("{found} ports: the software takes at most {limit}")]
    TooManyPorts {
        /// The number of adapters.
        found: usize,
        /// The maximum number of adapters.
        limit: usize,
    },
    /// A GPU has no working port.
    #[error("GPU{0} has no port that works")]
    NoPort(u16),
    /// Hosts belong to no unit, because none of their ports is in the fabric.
    #[error("host `{0}` has no port in the fabric")]
    NotInFabric(String),
    /// Hosts and fabric have no ports in common.
    #[error(transparent)]
    Join(#[from] JoinError),
}
