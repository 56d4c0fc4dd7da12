//! Predicts the routes after a drain: plans routes around the drained parts, and compares them with
//! the routes in force.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_routing::netlist::host_of;
use rsm_routing::topology::{SwitchIdx, Topology};

use crate::avoid::{Avoid, NodeOrCable, Reason};
use crate::{Plan, PlanJob};

/// The predicted routes after a drain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AfterDrain {
    /// Maximum link load in paths of pairs of hosts, (now, then).
    pub max_load: (u64, u64),
    /// Switches whose hosts keep fewer links to other switches, ascending by GUID: drained
    /// switches, and other switches that keep a single link.
    pub narrowed: Vec<Narrowed>,
}

/// A switch whose hosts share fewer links to other switches than before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Narrowed {
    /// GUID of the switch.
    pub switch: Guid,
    /// Number of hosts at the switch that are not drained, at least 1. Several adapters of one host
    /// count as one.
    pub hosts: usize,
    /// The ports of the links that routes would use.
    pub links: Vec<PortNum>,
    /// Number of links that routes use now.
    pub links_now: usize,
}

/// Predicts the routes after the parts of `avoid` are drained in the subnet in which `plan` is in
/// force, even if ports would be cut off without these parts. `None` if no new plan would come into
/// force.
pub fn after_drain(plan: &Arc<Plan>, avoid: Arc<Avoid>) -> Option<AfterDrain> {
    let job = PlanJob {
        avoid: avoid.clone(),
        ..PlanJob::after(plan, plan.fabric.clone())
    };
    let next = crate::plan(&job).plan().ok()?;
    let is_drained = |node: Guid| {
        matches!(
            avoid.reason(NodeOrCable::Node(node)),
            Some(Reason::Drained(_))
        )
    };
    let narrowed = next.topology.indices().filter_map(|index_after| {
        let switch = next.topology.switch(index_after).guid;
        let index_now = plan.topology.switch_by_guid(switch)?;
        let links = links(&next.topology, index_after);
        let links_now = self::links(&plan.topology, index_now).len();
        let is_narrow = links.len() < links_now && (links.len() == 1 || is_drained(switch));
        let hosts = match is_narrow {
            true => live_hosts(&next, index_after, is_drained),
            false => 0,
        };
        (hosts > 0).then_some(Narrowed {
            switch,
            hosts,
            links,
            links_now,
        })
    });
    let mut narrowed: Vec<Narrowed> = narrowed.collect();
    narrowed.sort_by_key(|one| one.switch);
    Some(AfterDrain {
        max_load: (plan.report.load.max, next.report.load.max),
        narrowed,
    })
}

/// The ports of a switch with links to other switches.
fn links(topology: &Topology, switch: SwitchIdx) -> Vec<PortNum> {
    let groups = topology.groups(switch);
    let links = groups.flat_map(|group| group.links.iter().map(|link| link.port));
    links.collect()
}

/// The number of hosts at a switch with an adapter that is not drained.
fn live_hosts(plan: &Plan, switch: SwitchIdx, is_drained: impl Fn(Guid) -> bool) -> usize {
    let guid = plan.topology.switch(switch).guid;
    let destinations = plan.topology.destinations_of(switch).iter();
    let hosts = destinations.filter(|destination| destination.kind.is_host());
    let nodes = hosts.filter_map(|host| {
        let at = plan.fabric.find_port(PortKey::new(guid, host.port))?;
        plan.fabric.node_of(plan.fabric.port(at).peer?.node)
    });
    let live = nodes.filter(|node| !is_drained(node.guid));
    let names: BTreeSet<String> = live
        .map(|node| match host_of(node.reported()) {
            Some(host) => host.to_owned(),
            None => node.guid.to_string(),
        })
        .collect();
    names.len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rsm_model::fabric::Fabric;
    use rsm_routing::generate::generate;

    use super::*;
    use crate::avoid::Drained;
    use crate::policy::Policy;

    fn drained() -> Reason {
        Reason::Drained(Drained {
            forced: true,
            ..Drained::new("operator", 1)
        })
    }

    #[test]
    fn drained_leaf_keeps_one_link_for_its_hosts_and_other_leaves_keep_all_links() {
        let fabric = Arc::new(Fabric::of_netlist(&generate("pgft:2;4,4;1,4;1,1").unwrap()));
        let job = PlanJob::first(fabric, Arc::new(Policy::default()));
        let plan = crate::plan(&job).plan().unwrap_or_else(|refused| {
            panic!("{}", refused.with_causes());
        });
        let after = |parts: &[NodeOrCable]| {
            let mut avoid = Avoid::default();
            let parts: BTreeMap<_, _> = parts.iter().map(|&part| (part, drained())).collect();
            avoid.add(&parts).expect("they are few");
            after_drain(&plan, Arc::new(avoid)).expect("a plan is possible")
        };
        let own = plan
            .fabric
            .local
            .map(|local| plan.fabric.node(local.node).guid);
        let switches = plan.topology.indices();
        let leaf = switches
            .filter(|&switch| plan.topology.hosts(switch) > 0)
            .find(|&switch| {
                let hosts = plan.topology.destinations_of(switch).iter();
                !hosts.clone().any(|host| Some(host.guid) == own)
            })
            .expect("a leaf without the subnet manager");
        let guid = plan.topology.switch(leaf).guid;
        let found = after(&[NodeOrCable::Node(guid)]);
        let [narrowed] = &found.narrowed[..] else {
            panic!("the leaf alone: {found:?}");
        };
        let shown = (narrowed.switch, narrowed.hosts, narrowed.links.len());
        assert_eq!((shown, narrowed.links_now), ((guid, 4, 1), 4));
        // Each of four hosts sends to twelve others over that link.
        assert!(found.max_load.1 >= 48 && found.max_load.1 > found.max_load.0);
        let spine = plan.topology.groups(leaf).next().expect("an uplink");
        let spine = plan.topology.switch(spine.neighbour).guid;
        assert_eq!(after(&[NodeOrCable::Node(spine)]).narrowed, []);
        let hosts = plan.topology.destinations_of(leaf).iter();
        let hosts = hosts.filter(|host| host.kind.is_host());
        let parts = hosts.filter_map(|host| {
            let at = plan.fabric.find_port(PortKey::new(guid, host.port))?;
            Some(NodeOrCable::Node(plan.fabric.port(at).peer?.node))
        });
        let all: Vec<NodeOrCable> = parts.chain([NodeOrCable::Node(guid)]).collect();
        assert_eq!(after(&all).narrowed, [], "no host is left at it");
    }
}
