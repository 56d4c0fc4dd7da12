use crate::JoinError;

/// Why a file cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// No such host.
    #[error("nothing is known of host `{0}`")]
    UnknownHost(String),
    /// A device without a PCI address, which the file names devices by.
    #[error(
        "{0} has no PCI address: import a source that tells it (sysfs, NCCL's topology, hwloc)"
    )]
    NoPciAddress(String),
    /// A device without a name, which the software addresses devices by.
    #[error("the adapter at {0} has no name: import a source that tells it")]
    NoDeviceName(String),
    /// A name that the format has no way to write.
    #[error("`{name}` cannot be a name of {format}: {rule}")]
    Name {
        /// The name.
        name: String,
        /// The format.
        format: &'static str,
        /// The characters that names may have there.
        rule: &'static str,
    },
    /// More adapters than the software takes.
    #[error("{found} ports: the software takes at most {limit}")]
    TooManyPorts {
        /// How many there are.
        found: usize,
        /// How many are taken.
        limit: usize,
    },
    /// A GPU without a port that works.
    #[error("GPU{0} has no port that works")]
    NoPort(u16),
    /// Hosts that no unit holds, because nothing of them is in the fabric.
    #[error("host `{0}` has no port in the fabric")]
    NotInFabric(String),
    /// Hosts and fabric have nothing in common.
    #[error(transparent)]
    Join(#[from] JoinError),
}
