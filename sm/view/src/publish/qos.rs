//! Quality of service of the plan in force, in the form of the API.

use rsm_api::v1;
use rsm_config::QosPolicy;
use rsm_plan::qos::{PortClass, Qos};
use rsm_sa::SaSnapshot;

use super::published::Published;

/// Converts tables and rules. `sa_snapshot` has the number of ports in each group.
pub(super) fn shown(published: &Published, sa_snapshot: &SaSnapshot) -> v1::GetQosResponse {
    let policy = published.plan().map(|plan| &plan.policy);
    let tables = policy.and_then(|policy| policy.qos.as_deref());
    let rules = policy.and_then(|policy| policy.qos_policy.as_deref());
    let directory = sa_snapshot.directory();
    let ports = |group: usize| directory.map_or(0, |directory| directory.ports_in_group(group));
    let mut qos = v1::Qos {
        enabled: tables.is_some(),
        classes: tables.map(classes).unwrap_or_default(),
        ..v1::Qos::default()
    };
    if let Some(rules) = rules {
        add_policy(&mut qos, rules, ports);
    }
    v1::GetQosResponse {
        qos: Some(qos),
        generation: published.generation,
    }
}

fn classes(qos: &Qos) -> Vec<v1::QosClass> {
    let class = |class: PortClass| {
        let set = qos.set(class);
        v1::QosClass {
            name: class.name().to_owned(),
            max_vls: set.max_vls.into(),
            high_limit: set.high_limit.into(),
            vlarb_high: set.high.to_string(),
            vlarb_low: set.low.to_string(),
            sl_to_vl: set.sl2vl.iter().copied().map(u32::from).collect(),
        }
    };
    PortClass::ALL.into_iter().map(class).collect()
}

fn add_policy(qos: &mut v1::Qos, policy: &QosPolicy, ports: impl Fn(usize) -> usize) {
    // A text of at most 16 MB has fewer lines than that.
    let line = |line: usize| u32::try_from(line).unwrap_or(u32::MAX);
    qos.policy_file = policy.file.display().to_string();
    qos.default_level.clone_from(&policy.default_level().name);
    let levels = policy.levels.iter().map(|level| v1::QosLevel {
        name: level.name.clone(),
        description: level.description.clone(),
        service_level: level.sl.into(),
        limits: level.to_string(),
        line: line(level.line),
    });
    qos.levels = levels.collect();
    let rules = policy.rules.iter().map(|rule| {
        let level = policy.level_of(rule);
        v1::QosRule {
            line: line(rule.line),
            description: rule.description.clone(),
            criteria: policy.criteria(rule),
            level: level.name.clone(),
            service_level: level.sl.into(),
        }
    });
    qos.rules = rules.collect();
    let groups = policy.groups.iter().enumerate();
    let groups = groups.map(|(at, group)| v1::QosPortGroup {
        name: group.name.clone(),
        description: group.description.clone(),
        line: line(group.line),
        ports: u32::try_from(ports(at)).unwrap_or(u32::MAX),
    });
    qos.port_groups = groups.collect();
}
