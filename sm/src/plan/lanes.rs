//! The virtual lanes that there are.

use rsm_mad::wire::attr::VlCap;
use rsm_routing::topology::{PortUse, Topology};

use super::policy::Policy;
use crate::fabric::Fabric;

/// How many data VLs every link between switches has, as far as its ports say and the policy lets them be used; `None`
/// where there is no such link.
pub(super) fn available(fabric: &Fabric, topology: &Topology, policy: &Policy) -> Option<u8> {
    let allowed = VlCap::from_code(policy.ports.max_operational_vls).data_vls();
    let mut least = None;
    for switch in topology.indices() {
        let Some(node) = fabric.find(topology.switch(switch).guid) else {
            continue;
        };
        let node = fabric.node(node);
        for (leads_to, port) in topology.port_uses(switch).iter().zip(&node.ports) {
            let info = port.info.as_ref();
            let own = info.and_then(|info| info.vl_cap().data_vls());
            if let (PortUse::Link { .. }, Some(own)) = (leads_to, own) {
                let own = own.min(allowed.unwrap_or(own));
                least = Some(least.map_or(own, |least: u8| least.min(own)));
            }
        }
    }
    least
}
