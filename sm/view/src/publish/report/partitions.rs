//! The check of partitions: hosts that reach no other host, and the partitions that operators made.

use std::collections::BTreeMap;

use rsm_api::v1;
use rsm_ids::Guid;
use rsm_mad::wire::attr::PKey;
use rsm_model::fabric::Fabric;
use rsm_model::findings::FindingKind;
use rsm_model::text::count;
use rsm_plan::Plan;
use rsm_plan::partitions::{IsolatedPorts, isolated_ports};
use rsm_routing::netlist::host_of;

use super::super::partitions::of_port;
use super::super::published::Published;
use super::orders::minute;
use super::topic::Measured;

pub(super) fn partitions(published: &Published, plan: &Plan) -> Measured {
    let isolated = isolated_ports(&plan.fabric, &plan.partitions);
    let mut summary = count(plan.policy.partitions.list.len(), "partition", "partitions");
    if !isolated.ports.is_empty() {
        let (number, of) = (isolated.ports.len(), isolated.of);
        summary += &format!("; {number} of {of} ports of hosts reach no other host");
    }
    summary += &made_by_operators(published);
    let mut findings = published.snapshot.findings.iter();
    let worst = match findings.any(|finding| finding.kind == FindingKind::PartitionApart) {
        // The finding names the ports.
        true => Vec::new(),
        false => isolated_hosts(published, &plan.fabric, &isolated),
    };
    match isolated.ports.is_empty() {
        true => Measured::pass(summary),
        false => Measured {
            worst,
            ..Measured::warn(summary)
        },
    }
}

/// The number of partitions that operators made at run time, and the last one; empty if there are
/// none.
fn made_by_operators(published: &Published) -> String {
    let made = published.snapshot.overlay.partitions();
    let made = made.filter(|&(p_key, _)| p_key != PKey::DEFAULT_FULL.base());
    let made: Vec<_> = made.collect();
    let Some((p_key, last)) = made.iter().max_by_key(|(_, made)| made.since_unix_ms) else {
        return String::new();
    };
    let (name, by) = (&last.settings.name, &last.by);
    let at = minute(last.since_unix_ms);
    let last = format!("{} {name} by {by}, {at}", PKey(*p_key));
    match made.len() {
        1 => format!("; 1 made at run time: {last}"),
        many => format!("; {many} made at run time, last {last}"),
    }
}

/// A sentence about each isolated host, or about each isolated port of a host with other ports.
fn isolated_hosts(published: &Published, fabric: &Fabric, isolated: &IsolatedPorts) -> Vec<String> {
    let mut hosts: BTreeMap<(String, Option<Guid>), Vec<_>> = BTreeMap::new();
    for &at in &isolated.ports {
        let node = fabric.node(at.node);
        let host = match host_of(node.reported()) {
            Some(host) => (host.to_owned(), None),
            None => (node.name(), Some(node.guid)),
        };
        hosts.entry(host).or_default().push(at);
    }
    let texts = hosts.into_iter().map(|((host, _), ports)| {
        let own = of_port(published, fabric.key(ports[0]));
        let own = own.iter().map(|one| {
            let membership = match one.membership() {
                v1::Membership::Limited => " (limited)",
                _ => "",
            };
            format!("{} {}{membership}", PKey(one.p_key as u16), one.name)
        });
        let own: Vec<String> = own.collect();
        let own = match own.is_empty() {
            true => "none".to_owned(),
            false => own.join(", "),
        };
        format!(
            "{host} ({}) reaches no other host by its partitions: {own}",
            count(ports.len(), "port", "ports")
        )
    });
    texts.collect()
}
