//! Cables that are far slower than others beside them.

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_routing::topology::{SlowCable, Topology};

use crate::fabric::{Fabric, Node};
use crate::findings::{Finding, FindingKind, Severity, Subject};

/// Slow cables with a finding of their own; one more finding counts the others.
const NAMED: usize = 16;

/// The findings about cables between switches that have at most a fourth of the rate of others at
/// both ends.
pub(super) fn findings(topology: &Topology, fabric: &Fabric) -> Vec<Finding> {
    // A weight of 1 stands for a link whose rate is not known.
    let slow = topology.slow_cables();
    let slow: Vec<SlowCable> = slow.into_iter().filter(|slow| slow.rate > 1).collect();
    let mut findings: Vec<Finding> = slow
        .iter()
        .take(NAMED)
        .map(|slow| finding(slow, fabric))
        .collect();
    if let Some(more @ 1..) = slow.len().checked_sub(NAMED) {
        let text = format!("{more} more cables are far slower than others beside them");
        let kind = FindingKind::LinkSlow;
        findings.push(Finding::new(kind, Subject::Subnet, Severity::Warning, text));
    }
    findings
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
        "the cable between {} and {} carries {} Gb/s, others at both switches {} Gb/s: routes avoid it \
         by its rate, and the switches have less bandwidth; see whether a lane is dead, or train the link again",
        name(cable.a),
        name(cable.b),
        gbps(*rate),
        gbps(*beside)
    );
    let subject = Subject::Port(PortKey { node, port });
    Finding::new(FindingKind::LinkSlow, subject, Severity::Warning, text)
}
