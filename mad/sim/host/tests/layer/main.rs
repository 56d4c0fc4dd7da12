//! Tests of the MAD layer of a port, in virtual time.

mod agents;
mod segments;
mod world;
