//! The routing library: engines, proofs, generators and readers.

mod balance;
mod common;
mod detours;
mod engines;
mod fabric_tree;
mod fabrics;
mod grids;
mod ibnetdiscover_round_trip;
mod ibsim_loads;
mod lanes;
mod multicast;
mod multicast_follow;
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
