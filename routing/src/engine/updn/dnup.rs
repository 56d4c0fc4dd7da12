//! `dnup`: up*/down* on a ranking by distance from the hosts; given roots have no effect.

use super::super::{Engine, EngineError, Options, Routing};
use super::candidates;
use crate::tables::Tables;
use crate::topology::Topology;

/// Up*/down* on the ranking by distance from the hosts, for fabrics in which hosts are attached
/// nearer to the roots than some switches are. Given roots have no effect.
///
/// - *Guarantee*: that of [`UpDn`](super::UpDn). If no such ranking reaches every connected pair,
///   the ranking starts from a single switch, and the reason says so.
/// - *Needs*: one VL; packets may have any service level.
/// - *Complexity*: O(n · e) for n switches and e pairs of neighbours.
#[derive(Clone, Copy, Debug, Default)]
pub struct DnUp;

impl Engine for DnUp {
    fn name(&self) -> &'static str {
        "dnup"
    }

    fn guarantee(&self) -> &'static str {
        "free of loops and of credit loops on any fabric, on one virtual lane; ranked by the hosts"
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        super::route(self.name(), topology, options, previous, &[], |earlier| {
            candidates::choose_by_hosts(topology, earlier)
        })
    }
}
