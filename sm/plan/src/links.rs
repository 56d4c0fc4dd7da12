//! State of the switches' links according to PortInfo: numbers of data VLs, and links that are not
//! yet Active. Each plan updates the state of the previous plan, because reading the ports of all
//! switches touches tens of megabytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{PortInfo, PortState, VlCap};
use rsm_model::fabric::{Fabric, Node, Port};
use rsm_routing::topology::{PortUse, SwitchIdx, Topology};
use rsm_routing::verify::{IdleLinks, LinkEnd};

use crate::policy::Policy;
use crate::qos::PortClass;

/// State of the ports of all switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkPorts {
    /// Number of ports at links between switches, by their number of data VLs.
    by_vls: BTreeMap<u8, u32>,
    /// Cabled ports that are not Active, by switch; a switch without such a port has no entry.
    inactive: BTreeMap<Guid, Vec<(PortNum, LinkEnd)>>,
}

impl LinkPorts {
    /// Reads the ports of all switches of `topology` in `fabric`.
    pub(super) fn read(fabric: &Fabric, topology: &Topology) -> LinkPorts {
        let of_switch = |switch: SwitchIdx| {
            let node = fabric.node_of(topology.switch(switch).guid)?;
            Some((node, vls(node, topology, switch), inactive(node)))
        };
        let found: Vec<Option<_>> = topology.par_indices().map(of_switch).collect();
        let mut ports = LinkPorts::default();
        for (node, vls, inactive) in found.into_iter().flatten() {
            ports.add(node.guid, vls, inactive);
        }
        ports
    }

    /// Updates `self`, the state on `before`, to `fabric` and its `topology`. Reads only switches
    /// at which the two fabrics differ. `None` if the changes of the topology since `before` are
    /// not known.
    pub(super) fn follow(
        self: &Arc<LinkPorts>,
        before: (&Fabric, &Topology),
        (fabric, topology): (&Fabric, &Topology),
    ) -> Option<Arc<LinkPorts>> {
        let mut changed: BTreeSet<Guid> = BTreeSet::new();
        changed.extend(topology.changes_since(before.1.id())?);
        let differing = before.0.differing_nodes(fabric);
        changed.extend(
            differing
                .filter(|node| node.is_switch())
                .map(|node| node.guid),
        );
        if changed.is_empty() {
            return Some(self.clone());
        }
        let mut ports = LinkPorts::clone(self);
        for guid in changed {
            if let Some((node, switch)) = find(before, guid) {
                for vls in vls(node, before.1, switch) {
                    ports.remove_one(vls);
                }
                ports.inactive.remove(&guid);
            }
            if let Some((node, switch)) = find((fabric, topology), guid) {
                ports.add(guid, vls(node, topology, switch), inactive(node));
            }
        }
        Some(Arc::new(ports))
    }

    fn add(
        &mut self,
        switch: Guid,
        vls: impl Iterator<Item = u8>,
        inactive: Vec<(PortNum, LinkEnd)>,
    ) {
        for vls in vls {
            *self.by_vls.entry(vls).or_default() += 1;
        }
        if !inactive.is_empty() {
            self.inactive.insert(switch, inactive);
        }
    }

    /// Removes a port with this number of data VLs.
    fn remove_one(&mut self, vls: u8) {
        if let Some(count) = self.by_vls.get_mut(&vls) {
            *count -= 1;
            if *count == 0 {
                self.by_vls.remove(&vls);
            }
        }
    }

    /// Smallest number of data VLs of any link between switches, limited by the policy; `None` if
    /// no such link is known.
    pub(super) fn data_vls(&self, policy: &Policy) -> Option<u8> {
        let allowed = VlCap::from_code(policy.ports.links.max_op_vls).data_vls();
        let least = *self.by_vls.keys().next()?;
        let qos = policy.qos.as_deref();
        let set = qos.and_then(|qos| {
            let most = qos.most_vls(PortClass::SwitchToSwitch);
            VlCap::from_code(most).data_vls()
        });
        Some(
            least
                .min(allowed.unwrap_or(least))
                .min(set.unwrap_or(least)),
        )
    }

    /// Links between switches of `topology` that are not Active at both ends. `topology` must
    /// belong to the fabric.
    pub(super) fn idle(&self, topology: &Topology) -> IdleLinks {
        let ports = self.inactive.iter().filter_map(|(&guid, ports)| {
            let switch = topology.switch_by_guid(guid)?;
            Some(ports.iter().map(move |&(port, end)| (switch, port, end)))
        });
        IdleLinks::of(topology, ports.flatten())
    }
}

/// A switch of the topology, by its GUID.
fn find<'a>(
    (fabric, topology): (&'a Fabric, &Topology),
    guid: Guid,
) -> Option<(&'a Node, SwitchIdx)> {
    Some((fabric.node_of(guid)?, topology.switch_by_guid(guid)?))
}

/// The number of data VLs of each port that leads from a switch to a switch, if PortInfo shows it.
fn vls<'a>(
    node: &'a Node,
    topology: &'a Topology,
    switch: SwitchIdx,
) -> impl Iterator<Item = u8> + use<'a> {
    let ports = topology.port_uses(switch).iter().zip(&node.ports);
    let links = ports.filter(|(leads_to, _)| matches!(leads_to, PortUse::Link { .. }));
    links.filter_map(|(_, port)| port.info.as_ref()?.vl_cap().data_vls())
}

/// The cabled ports of a switch that are not Active.
fn inactive(node: &Node) -> Vec<(PortNum, LinkEnd)> {
    let end = |port: &Port| match port.info.as_ref().map(PortInfo::port_state) {
        Some(PortState::Active) => LinkEnd::Active,
        // A port that never answered may be in any state.
        Some(PortState::Armed) | None => LinkEnd::Armed,
        Some(_) => LinkEnd::Closed,
    };
    let ports = (0u8..=u8::MAX).map(PortNum).zip(&node.ports);
    let cabled = ports.filter(|(_, port)| port.peer.is_some());
    let ends = cabled.map(|(number, port)| (number, end(port)));
    ends.filter(|&(_, end)| end < LinkEnd::Active).collect()
}
