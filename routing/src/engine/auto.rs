//! `auto`: the engine that suits the fabric.

use super::{Engine, EngineError, Options, Routing, UpDn};
use crate::tables::Tables;
use crate::topology::Topology;

/// Picks an engine, and says which and why. It picks `updn`: what is free of credit loops on any fabric.
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
        let routing = UpDn.route(topology, options, previous)?;
        Ok(Routing {
            reason: format!(
                "auto chose updn, which is free of credit loops on any fabric; {}",
                routing.reason
            ),
            ..routing
        })
    }
}
