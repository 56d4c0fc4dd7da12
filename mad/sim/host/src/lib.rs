//! The hosts of a simulated fabric: what their kernels do for programs that use the umad devices.
//!
//! ```text
//!  program ─▶ libibumad ─▶ rsm-sim-preload ─▶ Unix socket ─▶ server ─▶ MadLayer ─▶ rsm-sim
//!            open, read,   the C library's    one connection          one for each
//!            write, ioctl  functions          for each open file      port in use
//! ```
//!
//! * [`abi`]: the structures and numbers of the kernel's interface (`rdma/ib_user_mad.h`).
//! * [`protocol`]: what the shim and the server say to each other. A connection stands for an open
//!   device, so that `poll` works on it as it is, and a process that dies closes its devices.
//! * [`layer`]: the MAD layer of one port. It has no socket, no thread and no clock.
//! * [`server`]: ties layers, connections and the simulation together.
//!
//! # What is as on Linux
//!
//! Agents, with the numbers they put into the upper half of transaction identifiers; which agent an
//! unsolicited datagram goes to; responses only to who asked; time-outs and retries, and the header
//! that comes back when they are used up; RMPP version 1 for agents that registered with it; BUSY,
//! refused and unanswered Gets and Sets; one holder of IsSM.
//!
//! # What is not
//!
//! * `write` does not wait for the server, so that it cannot say that a transaction is under way
//!   already. Such a datagram comes back from `read` with EINVAL as its status.
//! * There are no GRHs, and no queue pairs but 0 and 1.

pub mod abi;
pub mod layer;
pub mod protocol;
pub mod server;
