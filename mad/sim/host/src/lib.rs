//! The hosts of a simulated fabric: the umad services of their kernels.
//!
//! ```text
//!  program ─▶ libibumad ─▶ rsm-sim-preload ─▶ Unix socket ─▶ server ─▶ MadLayer ─▶ rsm-sim
//!            open, read,   the C library's    one connection          one for each
//!            write, ioctl  functions          for each open file      port in use
//! ```
//!
//! * [`abi`]: the structures and numbers of the kernel's interface (`rdma/ib_user_mad.h`).
//! * [`layer`]: the MAD layer of one port, a state machine without I/O.
//! * [`protocol`]: the packets between the shim and the server. A connection stands for an open
//!   device, so that `poll` works on it unchanged, and the end of a process closes its devices.
//! * [`seen`]: the check that the devices that a process sees are simulated.
//! * [`server`]: connects layers, connections and the simulation.
//!
//! # Like Linux
//!
//! Agents, with their numbers in the upper half of transaction identifiers; the choice of the agent
//! that receives an unsolicited datagram; responses only for the requesting agent; time-outs and
//! retries, and the header that a program then reads; RMPP version 1 for agents that registered
//! with it; Gets and Sets that are answered BUSY, refused or not answered; one holder of IsSM.
//!
//! # Unlike Linux
//!
//! * `write` does not wait for the server, so it cannot fail for a transaction that is already
//!   pending. `read` returns such a datagram with EINVAL as its status.
//! * Datagrams have no GRH, and ports have only the queue pairs 0 and 1.

pub mod abi;
pub mod layer;
pub mod protocol;
pub mod seen;
pub mod server;
