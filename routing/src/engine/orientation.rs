//! The direction up of links, from a ranking.

use super::Ranking;
use crate::topology::{Orientation, Topology};

impl Orientation {
    /// The orientation of a ranking, which an engine that ranks switches routed by. `None` where
    /// the ranking lacks a switch.
    pub fn of(topology: &Topology, ranking: &Ranking) -> Option<Orientation> {
        Orientation::of_guids(topology, &ranking.followed())
    }
}
