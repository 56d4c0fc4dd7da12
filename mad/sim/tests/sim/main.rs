//! Tests of the simulator: agents, personalities, routes of packets, the SA.

mod agents;
mod common;
mod live;
mod performance;
mod personalities;
mod random;
mod routes;
mod sa;
mod walks;
