//! The simulator: agents, personalities, ways of packets, administration.

mod administration;
mod agents;
mod common;
mod live;
mod personalities;
mod random;
mod ways;
