//! Replaces the umad devices and their part of sysfs, so that unmodified programs run against a
//! simulated fabric.
//!
//! ```text
//! rsm sim serve fat-tree:k=4,levels=3 --socket /tmp/fabric.sock &
//! LD_PRELOAD=librsm_sim_preload.so RSM_SIM_SOCKET=/tmp/fabric.sock RSM_SIM_NODE=host-3 ibnetdiscover
//! ```
//!
//! * Paths below `/sys/class/infiniband` and `/sys/class/infiniband_mad` are rewritten to a
//!   directory that the server keeps up to date (`paths`). Other functions of the C library that
//!   open files themselves, such as `scandir`, work on that directory unchanged.
//! * Opening `/dev/infiniband/umadN` or `issmN` connects to the server; the descriptor is the
//!   connection, so that `poll` and similar functions work on it, and the server sees when the
//!   process closes it or dies (`device`).
//! * `read`, `write` and `ioctl` on such a descriptor are turned into packets and back (`umad`).
//!
//! Without `RSM_SIM_SOCKET` every function only calls the C library's function. The shim itself
//! never calls the functions that it interposes: it makes its system calls directly, through
//! rustix.
//!
//! Descriptors that `dup` and similar functions create are not covered; programs with libibumad do
//! not use them.

mod device;
pub mod exports;
mod next;
mod paths;
mod setting;
mod table;
mod umad;
