//! The direction of links, up or down, that a ranking gives.

use super::Ranking;
use crate::topology::{Orientation, Topology};

impl Orientation {
    /// The orientation of links that paths follow under an engine's ranking; `None` if the ranking
    /// lacks a switch.
    pub fn of(topology: &Topology, ranking: &Ranking) -> Option<Orientation> {
        Orientation::of_guids(topology, &ranking.followed())
    }
}
