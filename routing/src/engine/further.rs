//! Entries of the LIDs of virtual ports: each equals the entry of its port's base LID.
//!
//! Engines route a port only by its base LID. A copy of a column has the dependencies of that
//! column, so that it adds neither loops nor credit loops.
//!
//! Proofs, interim tables and a move of a virtual machine treat such a LID like any other.

use rayon::prelude::*;
use rsm_ids::Lid;

use crate::tables::Tables;
use crate::topology::Topology;

impl Tables {
    /// Gives the LIDs of virtual ports the entries of the base LIDs of their ports. Returns whether
    /// the fabric has virtual ports.
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
