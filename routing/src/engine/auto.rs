//! `auto`: the engine that suits the fabric.

use super::fabric_tree::{FabricTree, has_ranks};
use super::{Engine, EngineError, Options, Routing, UpDn};
use crate::tables::Tables;
use crate::topology::Topology;

/// Picks an engine, and says which and why: [`FabricTree`] for a fabric that has ranks, however
/// irregular, and [`UpDn`], which is free of credit loops on any fabric, for all others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

impl Engine for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn guarantee(&self) -> &'static str {
        UpDn.guarantee()
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        let (engine, why): (&dyn Engine, _) = if has_ranks(topology, options) {
            (&FabricTree, "because the switches stand in ranks")
        } else {
            (
                &UpDn,
                "because many links join switches of the same rank, and it is free of credit loops on any fabric",
            )
        };
        let routing = engine.route(topology, options, previous)?;
        Ok(Routing {
            reason: format!("auto chose {} {why}; {}", engine.name(), routing.reason),
            ..routing
        })
    }
}
