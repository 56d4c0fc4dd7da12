//! Plans adaptive routing on the routes of a plan: groups of ports, their proof, and the switches
//! that may keep their groups in force while forwarding tables change.
//!
//! Groups complement finished routes and never replace them: forwarding tables are correct at all
//! times, and after any failure a switch returns to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_config::AdaptiveRouting;
use rsm_ids::{Guid, Lid};
use rsm_mad::wire::attr::Capability;
use rsm_model::capabilities::{DeviceCapabilities, DeviceType};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::text::count;
use rsm_routing::adaptive::{self, AdaptiveTables, Request};
use rsm_routing::engine::Ranking;
use rsm_routing::mcast::Orientation;
use rsm_routing::tables::Tables;
use rsm_routing::topology::Topology;
use rsm_routing::verify::{Held, SetReport, verify_mixture_of_sets, verify_sets_by};

use crate::adaptive::{ALL_SLS, Adaptive, AdaptiveHardware, AdaptivePolicy};
use crate::job::PlanJob;
use crate::plan::Plan;
use crate::witness;

/// GroupTop plus one is a multiple of this number, so a new leaf seldom changes GroupTop.
const GROUP_TOP_STEP: u16 = 64;

/// Adds adaptive routing on the routes of `plan`, and findings about adaptive routing. `links` is
/// the switch graph with all links that may carry packets, `held` are the forwarding tables that
/// switches hold.
pub(super) fn add(
    plan: &mut Plan,
    job: &PlanJob,
    links: &Topology,
    held: &Tables,
    orientation: &Orientation,
) {
    let policy = &job.policy.adaptive;
    let Some(hardware) = job.adaptive.as_ref().filter(|_| policy.is_on()) else {
        return;
    };
    let capacities = capacities(policy, hardware, plan);
    plan.findings.extend(excluded_types(policy, hardware));
    if capacities.iter().all(|&groups| groups < 2) {
        let why = "no switch has the capability, is of a type in routing.adaptive_devices, and \
                   accepts the tables";
        plan.findings.push(unused(Severity::Info, why.to_owned()));
        return;
    }
    match try_plan(job, plan, hardware, &capacities, orientation) {
        Ok(mut adaptive) => {
            adaptive.kept = kept(job, plan, &adaptive, links, held);
            plan.adaptive = Some(Arc::new(adaptive));
        }
        Err(why) => plan.findings.push(unused(Severity::Warning, why)),
    }
}

fn unused(severity: Severity, why: String) -> Finding {
    let text =
        format!("routing.adaptive is on, but packets follow the forwarding tables alone: {why}");
    Finding::new(FindingKind::AdaptiveUnused, Subject::Subnet, severity, text)
}

/// Number of groups that each switch can hold; 0 for switches that forward only by their forwarding
/// tables.
fn capacities(policy: &AdaptivePolicy, hardware: &AdaptiveHardware, plan: &Plan) -> Vec<u16> {
    let capacity = |guid: Guid| {
        let switch = hardware.switches.get(&guid)?;
        let fits_sls = policy.sls == ALL_SLS || switch.info.by_sl_cap();
        let is_usable =
            policy.devices.contains(&switch.device.device) && !switch.refuses && fits_sls;
        is_usable.then(|| switch.info.group_cap())
    };
    let switches = plan.topology.switches().iter();
    switches
        .map(|switch| capacity(switch.guid).unwrap_or(0))
        .collect()
}

/// Findings about switches that have the capability, but forward only by their forwarding tables:
/// their type is not listed, or cannot limit adaptive routing to SLs.
fn excluded_types(policy: &AdaptivePolicy, hardware: &AdaptiveHardware) -> Vec<Finding> {
    let mut unlisted: BTreeMap<u16, u64> = BTreeMap::new();
    let mut without_sls = 0;
    for switch in hardware.switches.values() {
        if !policy.devices.contains(&switch.device.device) {
            *unlisted.entry(switch.device.device).or_default() += 1;
        } else if policy.sls != ALL_SLS && !switch.info.by_sl_cap() {
            without_sls += 1;
        }
    }
    let mut findings: Vec<Finding> = unlisted
        .into_iter()
        .map(|(device, switches)| {
            let text = format!(
                "{} of type {device:#06x} could route adaptively, but follow their forwarding tables alone: confirm their \
                 encodings as docs/limits.md says, and add the type to routing.adaptive_devices",
                count(switches, "switch", "switches")
            );
            Finding::new(FindingKind::AdaptiveUnused, Subject::Subnet, Severity::Info, text)
        })
        .collect();
    if without_sls > 0 {
        let text = format!(
            "{} cannot limit adaptive routing to SLs, and follow their forwarding tables alone: see routing.adaptive_sls",
            count(without_sls, "switch", "switches")
        );
        let (kind, severity) = (FindingKind::AdaptiveUnused, Severity::Info);
        findings.push(Finding::new(kind, Subject::Subnet, severity, text));
    }
    findings
}

/// Plans and proves groups for the routes of `plan`; [`Adaptive::kept`] is empty.
///
/// # Errors
/// The reason why there are no groups, as a sentence.
fn try_plan(
    job: &PlanJob,
    plan: &Plan,
    hardware: &AdaptiveHardware,
    capacities: &[u16],
    orientation: &Orientation,
) -> Result<Adaptive, String> {
    let ranking = shortest_ranking(plan)?;
    let previous = job.previous.as_ref();
    let previous = previous.and_then(|previous| previous.adaptive.as_deref());
    let groups = adaptive::plan(&Request {
        topology: &plan.topology,
        tables: &plan.routing.tables,
        order: &ranking.shortest(),
        capacities,
        ids: previous.map_or(&hardware.ids, |previous| &previous.ids),
        in_order: &in_order_lids(job, plan, &hardware.capabilities),
        before: previous.map(|previous| &previous.tables),
    })
    .map_err(|error| error.to_string())?;
    let report = prove(plan, &groups.tables, orientation)?;
    let guids = plan.topology.switches().iter().map(|switch| switch.guid);
    let switches: BTreeSet<Guid> = guids
        .zip(capacities)
        .filter(|&(_, &capacity)| capacity >= 2)
        .map(|(guid, _)| guid)
        .collect();
    let least = capacities
        .iter()
        .copied()
        .filter(|&groups| groups >= 2)
        .min();
    let highest = groups
        .ids
        .pairs()
        .map(|(_, group)| group)
        .max()
        .unwrap_or(1);
    let top = (highest / GROUP_TOP_STEP + 1).saturating_mul(GROUP_TOP_STEP) - 1;
    Ok(Adaptive {
        recovers: job.policy.adaptive.mode == AdaptiveRouting::FastRecovery,
        sls: job.policy.adaptive.sls,
        tables: groups.tables,
        ids: groups.ids,
        report,
        leaves: groups.leaves,
        groups: groups.groups,
        group_top: top.min(least.unwrap_or(2) - 1),
        tests: test_switches(plan, hardware, &switches),
        switches,
        kept: BTreeSet::new(),
    })
}

/// The ranking of the plan's routes.
///
/// # Errors
/// The reason, if the routes follow no order or are not the shortest ones that follow their order.
fn shortest_ranking(plan: &Plan) -> Result<&Ranking, String> {
    let engine = plan.routing.engine;
    let ranking = plan.routing.ranking.as_ref();
    let ranking = ranking.filter(|_| plan.follows_ranking && plan.routing.lanes.is_single());
    let ranking = ranking.ok_or_else(|| {
        format!("the routes of {engine} follow no order of the switches; use fabric-tree or updn")
    })?;
    if !ranking.has_shortest_routes() {
        let longer = "are not the shortest by their order of the switches";
        return Err(format!(
            "the routes of {engine} {longer}; use fabric-tree or updn"
        ));
    }
    Ok(ranking)
}

/// Proves groups together with the tables of a plan.
///
/// # Errors
/// The faults that the proof found.
fn prove(
    plan: &Plan,
    tables: &AdaptiveTables,
    orientation: &Orientation,
) -> Result<SetReport, String> {
    let held = Held {
        tables: &plan.routing.tables,
        adaptive: tables,
    };
    let is_above = |high, low| orientation.is_above(high, low);
    let (report, follows) = verify_sets_by(&plan.topology, held, is_above);
    if report.is_sound() && follows {
        return Ok(report);
    }
    let mut found: Vec<String> = report.witnesses.iter().map(witness::unicast).collect();
    if found.is_empty() {
        found.push("a choice turns up after going down".to_owned());
    }
    Err(format!(
        "the proof refused the groups: {}",
        found.join("; ")
    ))
}

/// The first answering switch of each type among `switches`; see [`Adaptive::tests`].
fn test_switches(
    plan: &Plan,
    hardware: &AdaptiveHardware,
    switches: &BTreeSet<Guid>,
) -> BTreeMap<DeviceType, Guid> {
    let mut tests = BTreeMap::new();
    for (guid, switch) in &hardware.switches {
        if switches.contains(guid) && !plan.transition.mute.contains(guid) {
            tests.entry(switch.device).or_insert(*guid);
        }
    }
    tests
}

/// LIDs of hosts that do not show that they accept packets out of order.
fn in_order_lids(job: &PlanJob, plan: &Plan, capabilities: &DeviceCapabilities) -> BTreeSet<Lid> {
    let fabric = &job.fabric;
    let ports = fabric.end_ports().filter(|(at, _)| at.port.0 != 0);
    let keeps_order = ports.filter(|(at, _)| {
        let info = &fabric.node(at.node).info;
        let has = |capability| capabilities.has(info, capability);
        !has(Capability::OutOfOrder) && !has(Capability::OutOfOrderV2)
    });
    let claims = keeps_order.filter_map(|(at, _)| plan.claim(fabric.key(at)));
    claims
        .flat_map(|claim| claim.base.0..claim.base.0.saturating_add(claim.lmc.lids()))
        .map(Lid)
        .collect()
}

/// Switches that keep their groups in force while other switches get new forwarding tables. These
/// are all switches whose tables and groups stay, or none if some mixture of tables during the push
/// has a loop or a credit loop.
fn kept(
    job: &PlanJob,
    plan: &Plan,
    adaptive: &Adaptive,
    links: &Topology,
    held: &Tables,
) -> BTreeSet<Guid> {
    let Some(hardware) = &job.adaptive else {
        return BTreeSet::new();
    };
    let order = |plan: &Plan| {
        let ranking = plan.routing.ranking.as_ref();
        ranking.map(|ranking| ranking.follows.clone())
    };
    let previous = job.previous.as_deref();
    let order_differs = previous.is_none_or(|previous| order(previous) != order(plan));
    let is_unknown = job.hardware.iter().any(|held| !held.complete);
    if order_differs || is_unknown || !plan.transition.mute.is_empty() {
        return BTreeSet::new();
    }
    let stages: Vec<&Tables> = plan.transition.interim.iter().collect();
    let stages = [stages, vec![&plan.routing.tables]].concat();
    let mut unchanged = AdaptiveTables::default();
    let mut kept = BTreeSet::new();
    let mut changes = false;
    for index in plan.topology.indices() {
        let guid = plan.topology.switch(index).guid;
        let before = held.lft(index);
        let is_as_before = |stage: &&Tables| {
            let now = stage.lft(index);
            now.is_shared_with(before) || now.differing_blocks(before).next().is_none()
        };
        let stays = stages.iter().all(is_as_before);
        changes |= !stays;
        let in_force = hardware.switches.get(&guid);
        let in_force = in_force.and_then(|switch| switch.in_force.as_deref());
        let wanted = adaptive.tables.table(index);
        let table = in_force.filter(|&table| stays && Some(table) == wanted);
        kept.extend(table.map(|_| guid));
        unchanged.switches.push(table.cloned().unwrap_or_default());
    }
    if !changes || kept.is_empty() {
        return kept;
    }
    let mut before = Held {
        tables: held,
        adaptive: &unchanged,
    };
    let is_safe = stages.into_iter().all(|tables| {
        let next = Held {
            tables,
            adaptive: &unchanged,
        };
        let before = std::mem::replace(&mut before, next);
        verify_mixture_of_sets(links, before, next).keeps_moving()
    });
    match is_safe {
        true => kept,
        false => BTreeSet::new(),
    }
}
