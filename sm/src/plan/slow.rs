//! Cables that are slower than most of their siblings.

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_routing::engine::Routing;
use rsm_routing::topology::{SlowCable, SwitchIdx, Topology};

use crate::fabric::{Fabric, Node};
use crate::findings::{Finding, FindingKind, Severity, Subject};

/// Slow cables with a finding of their own; one more finding counts the others.
const NAMED: usize = 16;

/// Switches that should have the same cables: those of a model at a level.
type Kind = (u8, Option<(u32, u16)>);

/// The findings about cables between switches that are slower than most of their siblings.
pub(super) fn findings(topology: &Topology, routing: &Routing, fabric: &Fabric) -> Vec<Finding> {
    let slow = topology.slow_cables(|switch| kind(topology, routing, fabric, switch));
    // A weight of 1 stands for a link whose rate is not known.
    let slow: Vec<SlowCable> = slow.into_iter().filter(|slow| slow.rate > 1).collect();
    let mut findings: Vec<Finding> = slow
        .iter()
        .take(NAMED)
        .map(|slow| finding(slow, fabric))
        .collect();
    if let Some(more @ 1..) = slow.len().checked_sub(NAMED) {
        let text = format!(
            "{more} more cables are slower than most of their siblings: `rsmctl slow` lists them"
        );
        let kind = FindingKind::LinkSlow;
        findings.push(Finding::new(kind, Subject::Subnet, Severity::Warning, text));
    }
    findings
}

/// The level is that of the routes; engines without levels tell switches with hosts from others.
fn kind(topology: &Topology, routing: &Routing, fabric: &Fabric, switch: SwitchIdx) -> Kind {
    let rank = routing.ranks.as_ref();
    let rank = rank.and_then(|ranks| ranks.get(switch.index()).copied());
    let level = rank.unwrap_or(u8::from(topology.hosts(switch) > 0));
    let node = fabric.node_of(topology.switch(switch).guid);
    let model = node.map(|node| (node.info.vendor_id(), node.info.device_id()));
    (level, model)
}

fn finding(slow: &SlowCable, fabric: &Fabric) -> Finding {
    let SlowCable {
        cable,
        rate,
        beside,
    } = slow;
    let name = |(node, port): (Guid, PortNum)| {
        let node = fabric
            .node_of(node)
            .map_or_else(|| node.to_string(), Node::name);
        format!("{node} port {port}")
    };
    let (node, port) = cable.a;
    let gbps = |mbps: u32| f64::from(mbps) / 1000.0;
    let text = format!(
        "the cable between {} and {} carries {} Gb/s, most of its siblings {} Gb/s: routes give it less \
         by its rate, and the switches have less bandwidth; see whether a lane is dead or the cable is \
         for a lower speed, or train the link again",
        name(cable.a),
        name(cable.b),
        gbps(*rate),
        gbps(*beside)
    );
    let subject = Subject::Port(PortKey { node, port });
    Finding::new(FindingKind::LinkSlow, subject, Severity::Warning, text)
}
