//! The input of measurements of routes: the rail and the host of each destination.

use rsm_ids::Guid;
use rsm_model::fabric::Fabric;
use rsm_routing::quality::Settings;
use rsm_routing::topology::Topology;

use crate::order::HostOrder;

/// The settings of a measurement. Rails and hosts come from the names of devices, or, if the names
/// show no rails, from the host order, which follows inventories and cables.
pub fn settings(
    fabric: &Fabric,
    topology: &Topology,
    order: &HostOrder,
    seed: u64,
    ranks: Option<Vec<u8>>,
) -> Settings {
    let by_name = fabric.rails(topology);
    let destinations = topology.destinations().iter();
    let guids = destinations.map(|destination| destination.guid);
    let (rails, hosts) = match by_name.is_empty() && !order.rails.is_empty() {
        true => (
            guids
                .clone()
                .map(|guid: Guid| order.rails.get(&guid).copied())
                .collect(),
            guids.map(|guid| order.hosts.get(&guid).copied()).collect(),
        ),
        false => (by_name, fabric.hosts(topology)),
    };
    Settings {
        seed,
        rails,
        hosts,
        ranks,
    }
}
