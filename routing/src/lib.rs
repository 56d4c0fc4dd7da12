//! Routing for InfiniBand fabrics: topology, engines, proofs; pure computation.
//!
//! Nothing here reads a clock, a socket or a file. Every result is a function of its arguments
//! alone: ties break by GUID and port number, and the number of threads never shows.
//!
//! - [`netlist`] states nodes and cables; [`ibnetdiscover`] reads and writes it, [`generate`] makes
//!   it from published topologies;
//! - [`topology`] is the dense, immutable switch graph that everything else works on;
//! - [`engine`] computes forwarding tables for it;
//! - [`tables`] is what they compute, and [`lfts`] reads what others computed;
//! - [`lanes`] is what they need beside it: service levels and virtual lanes;
//! - [`mcast`] finds the trees of multicast groups beside them;
//! - [`verify`] proves tables without knowing which engine made them;
//! - [`quality`] measures how well they spread traffic, and [`picture`] shows it.

mod digest;
pub mod engine;
pub mod generate;
pub mod ibnetdiscover;
pub mod lanes;
pub mod lfts;
pub mod mcast;
pub mod netlist;
pub mod picture;
pub mod quality;
pub mod tables;
pub mod topology;
pub mod verify;
