//! Finds out which devices a process sees: the devices of a simulated host, or the devices of this
//! machine.
//!
//! The check uses functions of the C library, which the preloaded library replaces.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt as _;

use crate::protocol::RUN_VARIABLE;

/// The name of every simulated adapter; a node has one.
pub const ADAPTER: &str = "rsm0";

/// The simulated adapter's `board_id`. Real adapters have a `board_id` like `MT_0000000838`.
pub const BOARD_ID: &str = "RSM_SIM";

/// The text that a process prints when it sees a simulated device.
pub const PROVEN: &str = "the umad device is simulated\n";

/// The reason why a process sees no simulated device.
#[derive(Debug, thiserror::Error)]
pub enum SeenError {
    /// The adapter is not in sysfs.
    #[error("cannot read {path}")]
    NoAdapter {
        /// The file that every simulated adapter has.
        path: String,
        /// The error of the C library.
        source: io::Error,
    },
    /// The adapter is not simulated.
    #[error("{ADAPTER} is a real adapter, of the board {board}")]
    RealAdapter {
        /// The content of `board_id` of the adapter.
        board: String,
    },
    /// The device cannot be opened.
    #[error("cannot open {DEVICE}")]
    NoDevice {
        /// The error of the C library.
        source: io::Error,
    },
    /// The device is a file of the kernel.
    #[error("{DEVICE} is a device of this machine")]
    RealDevice,
}

/// The first device of a simulated adapter.
const DEVICE: &str = "/dev/infiniband/umad0";

/// Whether `rsm sim run` runs this process and the adapters that the process sees are simulated.
/// Opens no device.
pub fn is_run_on_a_simulation() -> bool {
    std::env::var_os(RUN_VARIABLE).is_some_and(|value| !value.is_empty())
        && simulated_adapter().is_ok()
}

/// Proves that this process sees the simulated adapter, and that opening its device leads to the
/// server.
///
/// # Errors
/// [`SeenError`] if the process sees no simulated device. A real device is opened only if its
/// adapter has the name and the board of a simulated adapter.
pub fn simulated_device() -> Result<(), SeenError> {
    simulated_adapter()?;
    let opened = File::open(DEVICE)
        .and_then(|device| device.metadata())
        .map_err(|source| SeenError::NoDevice { source })?;
    // A descriptor from the shim is a connection to the server; a descriptor from a kernel is a
    // character device.
    match opened.file_type().is_socket() {
        true => Ok(()),
        false => Err(SeenError::RealDevice),
    }
}

/// Checks that the adapter in sysfs is simulated.
fn simulated_adapter() -> Result<(), SeenError> {
    let path = format!("/sys/class/infiniband/{ADAPTER}/board_id");
    let board =
        fs::read_to_string(&path).map_err(|source| SeenError::NoAdapter { path, source })?;
    match board.trim_end() {
        BOARD_ID => Ok(()),
        board => Err(SeenError::RealAdapter {
            board: board.to_owned(),
        }),
    }
}
