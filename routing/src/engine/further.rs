//! Entries of the LIDs of virtual ports: each equals the entry of its port's base LID.
//!
//! Engines route a port only by its base LID. Equal entries give both LIDs equal paths and channel
//! dependencies, so that a copy adds neither loops nor credit loops.
//!
//! Proofs, interim tables and moves of virtual machines treat such a LID like any other.

use rayon::prelude::*;
use rsm_ids::Lid;

use crate::tables::Tables;
use crate::topology::Topology;

impl Tables {
    /// Gives the LIDs of virtual ports the entries of their ports' base LIDs. Returns whether the
    /// fabric has LIDs of virtual ports.
    pub fn copy_to_further_lids(&mut self, topology: &Topology) -> bool {
        let ends = topology.destinations().iter();
        let copies: Vec<(Lid, Lid)> = ends
            .flat_map(|end| end.further.iter().map(move |lid| (end.lid, lid)))
            .collect();
        if copies.is_empty() {
            return false;
        }
        self.lfts.par_iter_mut().for_each(|lft| {
            for &(base, lid) in &copies {
                lft.set_entry(lid, lft.entry(base));
            }
        });
        true
    }
}
