//! The routing library: engines, proofs, generators, readers and hints.

mod common;
mod engines;
mod fabric_tree;
mod fabrics;
mod gdr_fleet;
mod gdr_import;
mod gdr_join;
mod gdr_render;
mod gdr_samples;
mod gdr_seats;
mod grids;
mod ibnetdiscover_round_trip;
mod ibsim_loads;
mod lanes;
mod multicast;
mod nue;
mod picture;
mod prefixes;
mod quality;
mod random;
mod real_fabrics;
mod rebalance;
mod special;
mod topology;
mod verify;
mod verify_changes;
