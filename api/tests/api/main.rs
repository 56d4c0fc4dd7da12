//! The whole API against a subnet manager in memory: server, clients and `rsmctl` as a process.

mod access;
mod audited;
mod connections;
mod errors;
mod expect;
mod fake;
mod gpu;
mod gpu_files;
mod lists;
mod multicast;
mod partitions;
mod reflection;
mod refusals;
mod registrations;
mod roles;
mod routing;
mod rsmctl;
mod served;
mod shutdown;
mod tls;
mod watch;
