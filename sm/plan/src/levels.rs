//! Checks the operator's service levels and VLs against the service levels and VLs of the routes.
//!
//! Routes that need only one VL close no cycle of links, and therefore no cycle of (link, VL) under
//! any tables: the operator's tables need only let packets pass. Routes that need several VLs are
//! proved with their own SLtoVLMappingTables, which switches hold in place of the operator's
//! tables. Adapters still choose the VL on the first link of a path by the operator's table, and
//! the operator's VLArbitrationTables apply at every port. A port never sends on a VL without a
//! weight, and packets on that VL wait for ever.

use std::collections::BTreeSet;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::NodeType;
use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_routing::engine::{EngineError, Routing};
use rsm_routing::lanes::{DROP, SERVICE_LEVELS};
use rsm_routing::topology::{PortUse, Topology};

use crate::policy::Policy;
use crate::qos::{PortClass, Qos, fold};

/// Reason why the operator's tables stop packets of the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// Ports drop a service level that the routes need.
    #[error(
        "the routes of {engine} need service level {sl}, and {} drop it: `qos.{}_sl2vl`, or `qos.sl2vl`, maps it to VL 15",
        ports(*class), class.name()
    )]
    Level {
        /// The engine of the routes.
        engine: &'static str,
        /// The service level.
        sl: u8,
        /// Class of the ports.
        class: PortClass,
    },
    /// No port of a class sends on a VL that the routes need.
    #[error(
        "the routes of {engine} need VL {vl}, and {} never send on it: `qos.{}_vlarb_high` and `vlarb_low` have no weight for it",
        ports(*class), class.name()
    )]
    Lane {
        /// The engine of the routes.
        engine: &'static str,
        /// The VL.
        vl: u8,
        /// Class of the ports.
        class: PortClass,
    },
}

/// Name of a class of ports, as the subject of a sentence.
fn ports(class: PortClass) -> &'static str {
    match class {
        PortClass::ChannelAdapter => "ports of channel adapters",
        PortClass::SwitchPort0 => "ports 0 of switches",
        PortClass::SwitchExternal => "ports of switches to hosts",
        PortClass::SwitchToSwitch => "ports between switches",
        PortClass::Router => "ports of routers",
    }
}

/// Classes of ports that send packets of hosts.
const SENDERS: [PortClass; 4] = [
    PortClass::ChannelAdapter,
    PortClass::SwitchExternal,
    PortClass::SwitchToSwitch,
    PortClass::Router,
];

/// The VL of a service level at the ports of a class that have the largest number of VLs; `None` if
/// the ports drop the service level.
fn vl_of(qos: &Qos, class: PortClass, sl: u8) -> Option<u8> {
    let vl = qos.set(class).sl2vl[usize::from(sl) % SERVICE_LEVELS];
    (vl != DROP).then(|| fold(vl, qos.most_vls(class)))
}

/// Whether ports of a class with the largest number of VLs send on a VL.
fn sends_on(qos: &Qos, class: PortClass, vl: u8) -> bool {
    let (set, vls) = (qos.set(class), qos.most_vls(class));
    let entries = set.high.entries().iter().chain(set.low.entries());
    // A port with one VL has no arbitration table.
    vls == 1
        || entries
            .clone()
            .any(|&(entry, weight)| weight > 0 && fold(entry, vls) == vl)
}

/// The positions of the bits that are set.
fn bits(mask: u16) -> impl Iterator<Item = u8> {
    (0..SERVICE_LEVELS as u8).filter(move |bit| mask >> bit & 1 == 1)
}

/// Checks that the operator's tables let packets of the routes pass, if the routes need several
/// VLs.
///
/// # Errors
/// The reason why the tables stop some packets for ever.
pub(super) fn check_lanes(
    fabric: &Fabric,
    policy: &Policy,
    topology: &Topology,
    routing: &Routing,
) -> Result<(), Stopped> {
    let (engine, lanes) = (routing.engine, &routing.lanes);
    let Some(qos) = policy.qos.as_deref().filter(|_| !lanes.is_single()) else {
        return Ok(());
    };
    let has_routers = || fabric.nodes().any(|node| node.kind() == NodeType::Router);
    for class in [PortClass::ChannelAdapter, PortClass::Router] {
        for sl in bits(lanes.used_levels()) {
            let stopped = match vl_of(qos, class, sl) {
                None => Stopped::Level { engine, sl, class },
                Some(vl) if !sends_on(qos, class, vl) => Stopped::Lane { engine, vl, class },
                Some(_) => continue,
            };
            if class != PortClass::Router || has_routers() {
                return Err(stopped);
            }
        }
    }
    for (class, to_switches) in [
        (PortClass::SwitchToSwitch, true),
        (PortClass::SwitchExternal, false),
    ] {
        let mut used = bits(lanes.used_vls(topology, to_switches));
        if let Some(vl) = used.find(|&vl| !sends_on(qos, class, vl)) {
            return Err(Stopped::Lane { engine, vl, class });
        }
    }
    Ok(())
}

/// Names the link with the fewest VLs, or the configuration key that limits all links, if `error`
/// says that the engine needs more VLs. `None` for other errors.
pub(super) fn vl_limit(
    fabric: &Fabric,
    policy: &Policy,
    topology: &Topology,
    error: &EngineError,
) -> Option<String> {
    let &EngineError::TooFewLanes { available, .. } = error else {
        return None;
    };
    let data_vls = |code| rsm_mad::wire::attr::VlCap::from_code(code).data_vls();
    let has = |vls: &str| format!("{vls} permits {available} and no more");
    if data_vls(policy.ports.links.max_op_vls) == Some(available) {
        return Some(has("`links.max_op_vls`"));
    }
    let most = policy
        .qos
        .as_deref()
        .map(|qos| qos.most_vls(PortClass::SwitchToSwitch));
    if most.and_then(data_vls) == Some(available) {
        return Some(has("`qos.max_vls`, or that of `sw2sw` or `swe`,"));
    }
    let ends = topology.indices().flat_map(|switch| {
        let ports = (0..=u8::MAX).map(rsm_ids::PortNum);
        let links = ports.zip(topology.port_uses(switch));
        let links = links.filter(|(_, leads_to)| matches!(leads_to, PortUse::Link { .. }));
        let node = topology.switch(switch).guid;
        links.map(move |(port, _)| PortKey { node, port })
    });
    let vls = |key: &PortKey| {
        let port = fabric.port(fabric.find_port(*key)?);
        port.info.as_ref()?.vl_cap().data_vls()
    };
    let mut ends = ends;
    let short = ends.find(|key| vls(key) == Some(available))?;
    let node = fabric.node_of(short.node)?;
    Some(format!(
        "port {} of {} ({}) has {available} VLs, as few as any between switches",
        short.port, node.description, short.node
    ))
}

/// Findings about service levels that the operator assigns to packets.
pub(super) fn findings(policy: &Policy, routing: &Routing) -> Vec<Finding> {
    let users = users(policy);
    if routing.lanes.needs_levels() {
        return overruled(policy, routing).into_iter().collect();
    }
    let Some(qos) = policy.qos.as_deref().filter(|_| routing.lanes.is_single()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (sl, user) in users {
        for class in SENDERS
            .into_iter()
            .filter(|&class| class != PortClass::Router)
        {
            let name = class.name();
            let fault = match vl_of(qos, class, sl) {
                None => format!("drop it (`qos.{name}_sl2vl`, or `qos.sl2vl`, maps it to VL 15)"),
                Some(vl) if !sends_on(qos, class, vl) => format!(
                    "never send it: `qos.{name}_vlarb_high` and `vlarb_low`, or those for every \
                     port, have no weight for its VL {vl}"
                ),
                Some(_) => continue,
            };
            found.push(finding(format!(
                "packets on service level {sl} ({user}) do not arrive: {} {fault}; change the \
                 tables in section `qos`, or the service level",
                ports(class)
            )));
        }
    }
    found
}

fn finding(text: String) -> Finding {
    let kind = FindingKind::ServiceLevel;
    Finding::new(kind, Subject::Subnet, Severity::Warning, text)
}

/// The service levels that the operator assigns to packets, each with the first key, partition or
/// file of the configuration that assigns it.
fn users(policy: &Policy) -> Vec<(u8, String)> {
    let own = [(policy.ports.sm_sl, "sm.sm_sl".to_owned())];
    let partitions = policy.partitions.list.iter().flat_map(|partition| {
        let groups = partition.groups.iter().map(|group| group.sl);
        let levels = std::iter::once(partition.sl).chain(groups);
        levels.map(|sl| (sl, format!("partition {}", partition.name)))
    });
    let rules = policy.qos_policy.iter().flat_map(|rules| {
        let file = rules.file.display().to_string();
        let levels = rules.service_levels().into_iter();
        levels.map(move |sl| (sl, file.clone()))
    });
    let mut seen = BTreeSet::new();
    let all = own.into_iter().chain(partitions).chain(rules);
    all.filter(|&(sl, _)| seen.insert(sl)).collect()
}

/// The finding about service levels that paths do not get, because the routes need other levels.
fn overruled(policy: &Policy, routing: &Routing) -> Option<Finding> {
    let partitions = policy.partitions.list.iter();
    let partitions = partitions.filter(|partition| partition.sl != 0);
    let mut from: Vec<String> = partitions
        .take(3)
        .map(|partition| format!("partition {} (SL {})", partition.name, partition.sl))
        .collect();
    if let Some(rules) = &policy.qos_policy {
        let levels = rules.service_levels();
        let levels: Vec<String> = levels.iter().map(u8::to_string).collect();
        from.push(format!(
            "{} (SL {})",
            rules.file.display(),
            levels.join(", ")
        ));
    }
    if from.is_empty() {
        return None;
    }
    Some(finding(format!(
        "the routes of {} choose the service level of paths between switches, so such paths do not \
         get the service levels of {}: only MTU, rate and partition of the policy apply; take an \
         engine that needs one VL, such as updn, if these service levels matter more",
        routing.engine,
        from.join(" and of ")
    )))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use rsm_config::{QosConfig, QosKeys, SlToVl, VlWeights, parse_partitions, parse_qos_policy};
    use rsm_routing::engine::EngineKind;
    use rsm_routing::generate::generate;

    use super::*;
    use crate::{Plan, PlanJob, plan};

    const TORUS: &str = "torus:5x5,hosts=1";

    fn policy(engine: EngineKind, qos: &QosConfig) -> Policy {
        Policy {
            engine,
            qos: Qos::of(qos, 5).map(Arc::new),
            ..Policy::default()
        }
    }

    fn on() -> QosConfig {
        QosConfig {
            enabled: true,
            ..QosConfig::default()
        }
    }

    fn planned(spec: &str, policy: Policy) -> Result<Arc<Plan>, String> {
        planned_with(spec, policy, |_| {})
    }

    fn planned_with(
        spec: &str,
        policy: Policy,
        change: impl Fn(&mut Fabric),
    ) -> Result<Arc<Plan>, String> {
        let mut fabric = Fabric::of_netlist(&generate(spec).unwrap());
        change(&mut fabric);
        let job = PlanJob::first(Arc::new(fabric), Arc::new(policy));
        plan(&job).plan().map_err(|refused| refused.with_causes())
    }

    fn texts(plan: &Plan) -> Vec<&str> {
        let findings = plan.findings.iter();
        let of_levels = findings.filter(|finding| finding.kind == FindingKind::ServiceLevel);
        of_levels.map(|finding| finding.text.as_str()).collect()
    }

    #[test]
    fn default_tables_of_opensm_pass_every_engine_that_needs_several_vls() {
        for engine in [EngineKind::Dfsssp, EngineKind::Torus, EngineKind::Nue] {
            let plan = planned(TORUS, policy(engine, &on())).unwrap();
            assert_eq!(texts(&plan), [] as [&str; 0], "{engine:?}");
        }
    }

    #[test]
    fn routes_that_need_a_vl_without_weight_are_refused() {
        let weights = VlWeights::parse("0:4");
        let between = QosConfig {
            sw2sw: QosKeys {
                vlarb_high: weights.clone(),
                vlarb_low: weights.clone(),
                ..QosKeys::default()
            },
            ..on()
        };
        let refused = planned(TORUS, policy(EngineKind::Dfsssp, &between)).unwrap_err();
        let expected =
            "the routes of dfsssp need VL 1, and ports between switches never send on it";
        assert!(refused.contains(expected), "{refused}");
        // An adapter maps SL 1 to VL 1 on the first link of a path.
        let adapters = QosConfig {
            ca: between.sw2sw.clone(),
            ..on()
        };
        let refused = planned(TORUS, policy(EngineKind::Dfsssp, &adapters)).unwrap_err();
        let expected = "need VL 1, and ports of channel adapters never send on it";
        assert!(refused.contains(expected), "{refused}");
        // Ports at hosts need only VL 0.
        let hosts = QosConfig {
            swe: between.sw2sw.clone(),
            sw2sw: QosKeys {
                vlarb_low: VlWeights::parse("0:1,1:1,2:1,3:1,4:1,5:1,6:1,7:1"),
                ..QosKeys::default()
            },
            ..on()
        };
        planned(TORUS, policy(EngineKind::Dfsssp, &hosts)).unwrap();
    }

    #[test]
    fn routes_that_need_a_service_level_dropped_by_adapters_are_refused() {
        let mut lanes = [0; SERVICE_LEVELS];
        lanes[1] = DROP;
        let qos = QosConfig {
            ca: QosKeys {
                sl2vl: Some(SlToVl(lanes)),
                ..QosKeys::default()
            },
            ..on()
        };
        let refused = planned(TORUS, policy(EngineKind::Dfsssp, &qos)).unwrap_err();
        let expected =
            "need service level 1, and ports of channel adapters drop it: `qos.ca_sl2vl`";
        assert!(refused.contains(expected), "{refused}");
        // Routes on a tree need only one VL, with any tables.
        planned("fat-tree:k=4,levels=2", policy(EngineKind::Dfsssp, &qos)).unwrap();
    }

    #[test]
    fn errors_about_too_few_vls_name_the_link_or_the_key() {
        let of = |policy: Policy| planned(TORUS, policy).unwrap_err();
        let mut one = policy(EngineKind::Dfsssp, &QosConfig::default());
        one.ports.links.max_op_vls = 1;
        let refused = of(one);
        assert!(
            refused.contains("`links.max_op_vls` permits 1 and no more"),
            "{refused}"
        );
        let qos = QosConfig {
            max_vls: Some(1),
            ..on()
        };
        let refused = of(policy(EngineKind::Dfsssp, &qos));
        assert!(refused.contains("`qos.max_vls`"), "{refused}");

        let short = |fabric: &mut Fabric| {
            let mut nodes = fabric.nodes_mut().filter(|node| node.is_switch());
            let node = nodes.nth(7).unwrap();
            for info in node.ports.iter_mut().filter_map(|port| port.info.as_mut()) {
                info.set_vl_cap(rsm_mad::wire::attr::VlCap::from_code(1));
            }
        };
        let policy = policy(EngineKind::Dfsssp, &QosConfig::default());
        let refused = planned_with(TORUS, policy, short).unwrap_err();
        let fabric = Fabric::of_netlist(&generate(TORUS).unwrap());
        let node = fabric
            .nodes()
            .filter(|node| node.is_switch())
            .nth(7)
            .unwrap();
        assert!(
            refused.contains(&format!("{} ({})", node.description, node.guid)),
            "{refused}"
        );
        assert!(
            refused.contains("has 1 VLs, as few as any between switches"),
            "{refused}"
        );
    }

    #[test]
    fn unused_and_dropped_service_levels_of_the_operator_are_reported() {
        let (partitions, _) = parse_partitions(
            Path::new("p"),
            "Default=0x7fff : ALL=full ;\nTenant=0x10, sl=3 : ALL=full ;",
            false,
        );
        let rules = "qos-ulps\ndefault : 2\nend-qos-ulps\n";
        let (rules, findings) = parse_qos_policy(Path::new("q.conf"), rules);
        assert_eq!(findings, []);
        let mut lanes: [u8; SERVICE_LEVELS] = std::array::from_fn(|sl| sl as u8 % 8);
        lanes[3] = DROP;
        let qos = QosConfig {
            sl2vl: Some(SlToVl(lanes)),
            swe: QosKeys {
                vlarb_high: VlWeights::parse("0:1"),
                vlarb_low: VlWeights::parse("1:1"),
                ..QosKeys::default()
            },
            ..on()
        };
        let with = |engine, qos: &QosConfig| Policy {
            partitions: Arc::new(partitions.clone()),
            qos_policy: Some(Arc::new(rules.clone())),
            ..policy(engine, qos)
        };
        let plan = planned("fat-tree:k=4,levels=2", with(EngineKind::Auto, &qos)).unwrap();
        let found = texts(&plan);
        let has = |parts: [&str; 2]| {
            found
                .iter()
                .any(|text| parts.iter().all(|part| text.contains(part)))
        };
        assert!(
            has([
                "service level 3 (partition Tenant)",
                "ports of channel adapters drop it"
            ]),
            "{found:?}"
        );
        assert!(
            has([
                "service level 2 (q.conf)",
                "ports of switches to hosts never send it"
            ]),
            "{found:?}"
        );
        // Ports between switches use the tables of ports to hosts if they have none of their own.
        assert_eq!(found.len(), 3 + 2, "{found:?}");

        let plan = planned(TORUS, with(EngineKind::Dfsssp, &on())).unwrap();
        let found = texts(&plan);
        assert_eq!(found.len(), 1);
        let parts = [
            "the routes of dfsssp",
            "partition Tenant (SL 3) and of q.conf (SL 2)",
        ];
        assert!(
            parts.iter().all(|part| found[0].contains(part)),
            "{found:?}"
        );
    }
}
