//! The virtual lanes that there are.

use rayon::prelude::*;
use rsm_mad::wire::attr::VlCap;
use rsm_routing::topology::{PortUse, SwitchIdx, Topology};

use super::policy::Policy;
use crate::fabric::Fabric;

/// How many data VLs every link between switches has, as far as its ports say and the policy lets them be used; `None`
/// where there is no such link.
pub(super) fn available(fabric: &Fabric, topology: &Topology, policy: &Policy) -> Option<u8> {
    let allowed = VlCap::from_code(policy.ports.links.max_op_vls).data_vls();
    let of_switch = |switch: SwitchIdx| {
        let node = fabric.node_of(topology.switch(switch).guid)?;
        let ports = topology.port_uses(switch).iter().zip(&node.ports);
        let links = ports.filter(|(leads_to, _)| matches!(leads_to, PortUse::Link { .. }));
        let lanes = links.filter_map(|(_, port)| port.info.as_ref()?.vl_cap().data_vls());
        lanes.min()
    };
    // The ports of all switches are more than a processor's cache holds.
    let switches: Vec<SwitchIdx> = topology.indices().collect();
    let least = switches.into_par_iter().filter_map(of_switch).min()?;
    Some(least.min(allowed.unwrap_or(least)))
}
