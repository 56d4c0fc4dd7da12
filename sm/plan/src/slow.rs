//! Cables that are slower than most of their siblings.

use std::sync::Arc;

use rsm_model::fabric::Fabric;
use rsm_routing::engine::Routing;
use rsm_routing::topology::{SlowCable, SwitchIdx, Topology};

/// Key of switches that should have equal cables: level, VendorID and DeviceID.
type SiblingKey = (u8, Option<(u32, u16)>);

/// The cables between switches that are slower than most of their siblings.
pub(super) fn cables(topology: &Topology, routing: &Routing, fabric: &Fabric) -> Arc<[SlowCable]> {
    let slow = topology.slow_cables(|switch| sibling_key(topology, routing, fabric, switch));
    // A weight of 1 stands for an unknown rate.
    slow.into_iter().filter(|slow| slow.rate > 1).collect()
}

/// Key of a switch. The level is the rank of the switch in the routes; without ranks, it is 1 for
/// switches with hosts and 0 for others.
fn sibling_key(
    topology: &Topology,
    routing: &Routing,
    fabric: &Fabric,
    switch: SwitchIdx,
) -> SiblingKey {
    let rank = routing.ranks.as_ref();
    let rank = rank.and_then(|ranks| ranks.get(switch.index()).copied());
    let level = rank.unwrap_or(u8::from(topology.hosts(switch) > 0));
    let node = fabric.node_of(topology.switch(switch).guid);
    let model = node.map(|node| (node.info.vendor_id(), node.info.device_id()));
    (level, model)
}
