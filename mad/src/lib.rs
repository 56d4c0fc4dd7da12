//! InfiniBand management datagrams: wire formats, transactions, transports.

pub mod allowance;
pub mod client;
pub mod ids;
pub mod messenger;
mod time;
pub mod transport;
pub mod wire;

pub use time::Time;
