//! Routing for InfiniBand fabrics: topology, engines, proofs; pure computation.
//!
//! This crate reads no clock, socket or file. Every result is a function only of its arguments:
//! ties break by GUID and port number, and the number of threads does not affect it.
//!
//! - [`netlist`] lists nodes and cables; [`ibnetdiscover`] reads and writes a netlist, [`generate`]
//!   makes a netlist of a published topology;
//! - [`topology`] is the dense, immutable switch graph on which the other modules work;
//! - [`engine`] computes forwarding tables for a topology;
//! - [`tables`] are the result of an engine, and [`lfts`] reads the tables of other programs;
//! - [`lanes`] are the service levels and virtual lanes that tables need;
//! - [`adaptive`] holds sets of ports in place of single entries, for adaptive routing;
//! - [`mcast`] finds the trees of multicast groups;
//! - [`verify`] proves the tables of any engine;
//! - [`quality`] measures how well tables spread traffic, and [`picture`] draws the result.
//!
//! A module depends only on earlier modules in this order: [`topology`], [`tables`], [`verify`],
//! [`quality`], [`engine`], then [`mcast`] and [`adaptive`]. Proofs are therefore independent of
//! the engines and of the computation of multicast trees.

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
