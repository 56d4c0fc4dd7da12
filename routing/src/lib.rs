//! Routing for InfiniBand fabrics: topology, engines, proofs; pure computation.
//!
//! This crate reads no clock, socket or file. Every result is a function only of its arguments:
//! ties break by GUID and port number, and the number of threads does not affect it.
//!
//! - [`netlist`] states nodes and cables; [`ibnetdiscover`] reads and writes it, [`generate`] makes
//!   it from published topologies;
//! - [`topology`] is the dense, immutable switch graph on which everything else works;
//! - [`engine`] computes forwarding tables for a topology;
//! - [`tables`] are the result of an engine, and [`lfts`] reads the tables of other programs;
//! - [`lanes`] are the service levels and virtual lanes that tables need;
//! - [`adaptive`] holds sets of ports in place of single entries, for adaptive routing;
//! - [`mcast`] finds the trees of multicast groups;
//! - [`verify`] proves the tables of any engine;
//! - [`quality`] measures how well tables spread traffic, and [`picture`] draws the result.
//!
//! Modules depend on earlier ones in this order: [`topology`], [`tables`], [`verify`], [`quality`],
//! [`engine`], then [`mcast`] and [`adaptive`]. Proofs therefore know neither engines nor the
//! planner of trees.

pub mod adaptive;
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
