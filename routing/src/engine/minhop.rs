//! `minhop`: balanced shortest paths, without protection from credit loops.

use super::choose::Choice;
use super::paths;
use super::spread::Spread;
use super::{Engine, EngineError, Options, Routing, prepare};
use crate::lanes::Lanes;
use crate::tables::Tables;
use crate::topology::Topology;
use crate::topology::levels;

/// Shortest paths over any graph, balanced over equal-cost neighbours and parallel links.
///
/// Roots and an earlier ranking have no effect on this engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinHop;

impl Engine for MinHop {
    fn name(&self) -> &'static str {
        "minhop"
    }

    fn guarantee(&self) -> &'static str {
        "shortest paths between all connected ports; free of loops, but not of credit loops where \
         the cabling has cycles"
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        prepare::check_capacities(topology)?;
        prepare::in_pool(options, || {
            let tiles = paths::shortest(topology);
            if let Some(switch) = paths::overlong(topology, &tiles) {
                return Err(prepare::path_too_long(topology, switch));
            }
            let levels = levels::from_edges(topology, levels::ANY_HOST);
            let spread = Spread::new(topology, &levels, &options.listed);
            let choice = Choice {
                topology,
                tiles: &tiles,
                order: None,
                spread: &spread,
                previous,
            };
            let reason =
                "minhop: shortest paths, balanced; credit loops are not excluded".to_owned();
            let lanes = Lanes::default();
            Ok(Routing::unranked(
                self.name(),
                reason,
                choice.tables(),
                lanes,
            ))
        })?
    }
}
