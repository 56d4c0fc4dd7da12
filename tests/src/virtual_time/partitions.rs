//! Partition policies from the text of a file, and checks of the P_Keys in the hardware.

use std::path::Path;
use std::sync::Arc;

use rsm_config::{ConfigSeverity, parse_partitions};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::PKey;
use rsm_plan::Plan;
use rsm_plan::policy::Policy;
use rsm_sim::Sim;

use super::expect::Reach;

/// The policy of a partition file with the text `text`.
///
/// # Panics
///
/// The text has errors.
#[must_use]
pub fn policy(text: &str) -> Arc<Policy> {
    let (partitions, findings) = parse_partitions(Path::new("partitions.conf"), text, false);
    let errors: Vec<_> = findings
        .iter()
        .filter(|finding| finding.severity == ConfigSeverity::Error)
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    Arc::new(Policy {
        partitions: Arc::new(partitions),
        ..Policy::default()
    })
}

/// The P_Keys that a port holds, by index, up to the last nonzero P_Key.
///
/// # Panics
///
/// The port does not exist.
#[must_use]
pub fn held(sim: &Sim, port: (Guid, PortNum)) -> Vec<PKey> {
    let mut keys = sim.p_keys(port.0, port.1).expect("the port exists");
    let used = keys.iter().rposition(|key| key.is_valid());
    keys.truncate(used.map_or(0, |last| last + 1));
    keys
}

/// Descriptions of all ports whose P_Keys or partition enforcement differ from the plan.
#[must_use]
pub fn misplaced(sim: &Sim, reach: &Reach, plan: &Plan) -> Vec<String> {
    let mut problems = Vec::new();
    let key = |port: (Guid, PortNum)| PortKey::new(port.0, port.1);
    let mut check = |port: (Guid, PortNum)| {
        let Some(table) = plan.partitions.table(key(port)) else {
            return;
        };
        let held = held(sim, port);
        if held[..] != table[..] {
            let (guid, number) = port;
            problems.push(format!(
                "{guid} port {number} holds {held:?}, not {table:?}"
            ));
        }
    };
    for &port in &reach.end_ports {
        check(port);
    }
    let ends = reach.links.iter().flat_map(|&(a, b)| [a, b]);
    let ends: Vec<_> = ends.filter(|end| sim.switch_info(end.0).is_ok()).collect();
    for &end in &ends {
        check(end);
    }
    for (guid, number) in ends {
        let info = sim.port_info(guid, number).expect("the port exists");
        let (inbound, outbound) = (
            info.partition_enforcement_inbound(),
            info.partition_enforcement_outbound(),
        );
        let end = key((guid, number));
        let known = plan.fabric.find_port(end);
        let wanted = known.map(|_| plan.partitions.enforced(end));
        if wanted.is_some_and(|wanted| (wanted.inbound, wanted.outbound) != (inbound, outbound)) {
            problems.push(format!(
                "{guid} port {number} drops {inbound} and {outbound}, not {wanted:?}"
            ));
        }
    }
    problems
}
