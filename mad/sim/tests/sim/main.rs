//! The simulator: agents, personalities, ways of packets, the SA.

mod agents;
mod common;
mod live;
mod personalities;
mod random;
mod sa;
mod ways;
