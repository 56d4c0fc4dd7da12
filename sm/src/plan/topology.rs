//! From the fabric to what the routing library works on.

use std::collections::BTreeSet;

use rsm_ids::Lmc;
use rsm_mad::wire::attr::NodeType;
use rsm_routing::topology::{EndpointKind, SwitchKey, Topology, TopologyBuilder, TopologyError};

use super::lids::LidPlan;
use crate::fabric::{Fabric, NodeIx, PortRef};
use crate::sweep::inventory::PortKey;

/// The description that the reduction engines inside switches bear (SHARP).
const AGGREGATION_NODE: &str = "Mellanox Technologies Aggregation Node";

/// The switch graph of `fabric` with the LIDs of `lids`.
///
/// Left out are switches that cannot be programmed or have no LID, cables from a switch to itself, and those in `damped`
/// (either end names them).
///
/// # Errors
/// The LIDs or ports contradict each other, which what a sweep found does not.
pub fn build(
    fabric: &Fabric,
    lids: &LidPlan,
    damped: &BTreeSet<PortKey>,
) -> Result<Topology, TopologyError> {
    let mut builder = TopologyBuilder::new();
    let mut keys: Vec<Option<SwitchKey>> = vec![None; fabric.nodes.len()];
    for (ix, node) in fabric.switches() {
        let claim = lids.lids.get(&PortRef {
            node: ix,
            port: rsm_ids::PortNum::ZERO,
        });
        if let (Some(claim), Some(switch), false) = (claim, &node.switch, node.unmanageable) {
            let ports = node.info.num_ports();
            keys[ix.0 as usize] = Some(builder.add_switch(
                node.guid,
                ports,
                claim.base,
                claim.lmc,
                switch.linear_fdb_cap(),
            )?);
        }
    }
    let key_of = |ix: NodeIx| keys[ix.0 as usize];
    for (a, b) in fabric.links() {
        if a.node == b.node
            || !fabric.port(a).up
            || damped.contains(&fabric.key(a))
            || damped.contains(&fabric.key(b))
        {
            continue;
        }
        match (key_of(a.node), key_of(b.node)) {
            (Some(x), Some(y)) if fabric.port(b).up => {
                builder.add_link(x, a.port, y, b.port, weight(fabric, a))?
            }
            (Some(switch), None) => add_end_port(&mut builder, fabric, lids, switch, a, b)?,
            (None, Some(switch)) => add_end_port(&mut builder, fabric, lids, switch, b, a)?,
            _ => {}
        }
    }
    builder.build()
}

fn add_end_port(
    builder: &mut TopologyBuilder,
    fabric: &Fabric,
    lids: &LidPlan,
    switch: SwitchKey,
    exit: PortRef,
    end: PortRef,
) -> Result<(), TopologyError> {
    let node = fabric.node(end.node);
    let kind = match node.kind() {
        NodeType::Switch => return Ok(()),
        NodeType::Router => EndpointKind::Router,
        _ if node.description.starts_with(AGGREGATION_NODE) => EndpointKind::AggregationNode,
        _ => EndpointKind::Ca,
    };
    match lids.lids.get(&end) {
        Some(claim) => builder.add_endport(
            switch,
            exit.port,
            fabric.port(end).guid,
            claim.base,
            claim.lmc,
            kind,
        ),
        None => Ok(()),
    }
}

/// The link's data rate in Mb/s, so that a slow link gets a smaller share; 1 where the port does not tell.
fn weight(fabric: &Fabric, at: PortRef) -> u32 {
    let rate = fabric
        .port(at)
        .info
        .as_ref()
        .and_then(|info| info.link_rate());
    rate.map_or(1, |rate| rate.data_mbps()).max(1)
}

/// How many LIDs `lids` gives out.
pub fn lids_in_use(lids: &LidPlan) -> u32 {
    lids.lids
        .values()
        .map(|claim| u32::from(Lmc::lids(claim.lmc)))
        .sum()
}
