//! Measures the subnet and its manager for each check.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_api::firmware::{FirmwareGroup, groups};
use rsm_api::model::{CountersState, PastSpan, PortOrder};
use rsm_api::{AGGREGATION_NODE, CountersQueries, v1};
use rsm_mad::wire::attr::{NodeType, SmState};
use rsm_model::expected::MissingCounts;
use rsm_model::findings::FindingKind;
use rsm_model::text::count;
use rsm_plan::Plan;
use rsm_routing::netlist::{HostTally, host_of};
use rsm_routing::quality::Spread;
use rsm_state::Role;

use super::super::analysis;
use super::super::published::Published;
use super::capacity::{self, capacity};
use super::counted;
use super::host::HostFacts;
use super::orders::orders;
use super::partitions::partitions;
use super::parts::cable_name;
use super::redundancy::single_points;
use super::topic::{Measured, Topic};

/// Maximum number of ports whose errors or waits are examined, the worst first.
const COUNTED_PORTS: usize = 1000;

/// A day, in milliseconds.
const DAY_MS: u64 = 24 * 3600 * 1000;

/// Maximum number of gone hosts that the check of nodes names.
const GONE_HOSTS: usize = 4;

/// The input of the checks.
pub(in crate::publish) struct Sources {
    pub(in crate::publish) published: Arc<Published>,
    /// Evenness with which the routes in force spread paths, or the reason why it is unknown.
    pub(in crate::publish) spread: Result<(Arc<Plan>, Spread), String>,
    pub(in crate::publish) counters: CountersState,
    /// The ports with the most errors, the worst first, or the reason why they are unknown.
    pub(in crate::publish) errors: Result<Vec<v1::PortCounters>, String>,
    /// The ports that counted errors in the last day, or the reason why they are unknown.
    pub(in crate::publish) day: Result<Vec<v1::CountedPort>, String>,
    /// The ports at which data waits longest, the worst first, and the number of ports that count
    /// waits, or the reason why they are unknown.
    pub(in crate::publish) waits: Result<(Vec<v1::PortCounters>, u64), String>,
    /// The nodes with their firmware.
    pub(in crate::publish) firmware: Vec<v1::DeviceFirmware>,
    pub(in crate::publish) gpus: v1::GetGpuStatusResponse,
    /// Number of multicast LIDs of the SA's groups, or `None` if the SA does not answer.
    pub(in crate::publish) multicast_lids: Option<usize>,
    pub(in crate::publish) host: Arc<dyn HostFacts>,
}

/// The ports with the most errors per hour, the worst first.
///
/// # Errors
/// Counters are not read.
pub(super) fn errors(counters: &dyn CountersQueries) -> Result<Vec<v1::PortCounters>, String> {
    let top = counters.top(PortOrder::Errors, COUNTED_PORTS, None);
    top.map(|top| top.ports).map_err(|error| error.to_string())
}

/// The ports that counted errors in the last day, the span of `rsmctl flaps`.
///
/// # Errors
/// No past of the counters is kept, or it cannot be read.
pub(super) fn errors_of_day(
    counters: &dyn CountersQueries,
) -> Result<Vec<v1::CountedPort>, String> {
    let until_unix_ms = counters.now_unix_ms();
    let span = PastSpan {
        since_unix_ms: until_unix_ms.saturating_sub(DAY_MS),
        until_unix_ms,
    };
    let top = counters.top_since(PortOrder::Errors, COUNTED_PORTS, None, span);
    top.map(|top| top.ports).map_err(|error| error.to_string())
}

/// The ports at which data waits longest, the worst first, and the number of ports that count
/// waits.
///
/// # Errors
/// Counters are not read.
pub(super) fn waits(
    counters: &dyn CountersQueries,
) -> Result<(Vec<v1::PortCounters>, u64), String> {
    let top = counters.top(PortOrder::Wait, COUNTED_PORTS, None);
    top.map(|top| (top.ports, top.total))
        .map_err(|error| error.to_string())
}

/// The firmware of all nodes.
pub(super) fn all_firmware(counters: &dyn CountersQueries) -> Vec<v1::DeviceFirmware> {
    let all = counters.firmware(None, usize::MAX).items.into_iter();
    all.map(|node| node.message).collect()
}

/// Every check, in the order of [`Topic::ALL`].
pub(in crate::publish) fn make_checks(sources: &Sources) -> Vec<v1::Check> {
    let topics = Topic::ALL.into_iter();
    topics
        .map(|topic| {
            let measured = measure(topic, sources);
            let mut check = topic.with_findings(measured, &sources.published);
            if topic == Topic::Cabling && !sources.published.snapshot.expected.design().is_empty() {
                check.command = "rsmctl design".to_owned();
            }
            if topic == Topic::LinkErrors && counted::has_only_earlier_errors(sources) {
                check.command = "rsmctl top --errors --since 1d".to_owned();
            }
            check
        })
        .collect()
}

fn measure(topic: Topic, sources: &Sources) -> Measured {
    let published = &*sources.published;
    match topic {
        Topic::Store => return sources.host.store().measured(),
        Topic::Clock => return sources.host.clock().measured(),
        Topic::Certificates => return sources.host.certificates().measured(),
        Topic::Managers => return managers(published),
        Topic::Settings => {
            return Measured::pass("the configuration in force is that of the file".to_owned());
        }
        _ if published.fabric().is_empty() => {
            return Measured::not_known("the subnet has not been read yet".to_owned());
        }
        Topic::Security => {
            return Measured::pass("no host acts for another one or beyond its share".to_owned());
        }
        Topic::Nodes => return nodes(published),
        Topic::LinkRates => return link_rates(published),
        Topic::LinkErrors => return counted::link_errors(sources),
        Topic::LinkFlaps => return counted::link_flaps(sources),
        Topic::Congestion => return counted::congestion(sources),
        Topic::Cabling => return cabling(published),
        Topic::Orders => return orders(published),
        Topic::Firmware => return firmware(&sources.firmware),
        Topic::GpuRails => return gpu_rails(sources),
        _ => {}
    }
    let plan = match (&published.snapshot.role, published.plan()) {
        (Role::Master, Some(plan)) => plan,
        (Role::Standby { master }, _) => {
            return Measured::not_known(format!(
                "{} at LID {} is master: ask it",
                master.name, master.lid
            ));
        }
        _ => return Measured::not_known("there are no routes yet".to_owned()),
    };
    match topic {
        Topic::Routes => routes(published),
        Topic::Balance => balance(sources),
        Topic::Multicast => multicast(plan),
        Topic::Partitions => partitions(published, plan),
        Topic::SinglePoints => single_points(published, plan),
        _ => capacity(published, plan, sources.multicast_lids),
    }
}

fn nodes(published: &Published) -> Measured {
    let counts = &published.counts;
    let all = published.fabric().nodes();
    let silent = all.filter(|node| node.suspected || node.unmanageable);
    let silent = silent.count();
    let missing = &published.missing_counts;
    let hosts = published
        .fabric()
        .nodes()
        .filter(|node| node.kind() != NodeType::Switch && node.reported() != AGGREGATION_NODE);
    let hosts: HostTally<'_> = hosts.map(|node| node.description.as_str()).collect();
    let mut summary = format!(
        "{} and {hosts} answer",
        count(counts.switches, "switch", "switches")
    );
    let gone = missing.nodes();
    if gone != MissingCounts::default() {
        summary += &format!(", {gone}{}", gone_hosts(published));
    }
    let gone = gone.switches + gone.hosts + gone.adapters;
    if counts.unfinished > 0 {
        summary += &format!(
            ", {}",
            count(
                counts.unfinished,
                "port is not Active",
                "ports are not Active"
            )
        );
    }
    if silent > 0 {
        summary += &format!(", {silent} owe answers");
    }
    // Findings name each part that is missing or does not answer.
    match gone + counts.unfinished + silent as u64 {
        0 => Measured::pass(summary),
        _ => Measured::warn(summary),
    }
}

/// The names of hosts that are gone as a whole, not with a switch: ` (host-2861, host-3309)`; empty
/// if there are none.
fn gone_hosts(published: &Published) -> String {
    let missing = published.missing.iter().map(|missing| &missing.message);
    let whole = missing.filter(|one| one.kind() == v1::MissingKind::Host && !one.of_present_host);
    let names = whole.map(|one| host_of(&one.name).unwrap_or(&one.name));
    let names: BTreeSet<&str> = names.collect();
    if names.is_empty() {
        return String::new();
    }
    let mut shown: Vec<&str> = names.iter().copied().take(GONE_HOSTS).collect();
    let more = names.len().saturating_sub(GONE_HOSTS);
    let more = format!("{more} more");
    if names.len() > GONE_HOSTS {
        shown.push(&more);
    }
    format!(" ({})", shown.join(", "))
}

fn link_rates(published: &Published) -> Measured {
    let fabric = published.fabric();
    let slow = fabric.links().filter_map(|(here, there)| {
        let (low, high) = (fabric.key(here), fabric.key(there));
        published.snapshot.slow_links.get(low, high)?;
        Some(cable_name(fabric, low, high))
    });
    let slow: Vec<String> = slow.collect();
    let links = published.counts.links;
    let summary = match slow.len() {
        0 => format!(
            "{} at the full rate of both ends",
            count(links, "link runs", "links run")
        ),
        slow => format!(
            "{slow} of {} below full rate",
            count(links, "link", "links")
        ),
    };
    // The findings about slow links name each link with its rates.
    match slow.is_empty() {
        true => Measured::pass(summary),
        false => Measured::warn(summary),
    }
}

fn firmware(nodes: &[v1::DeviceFirmware]) -> Measured {
    let groups = groups(nodes);
    let known = groups.iter().filter(|group| !group.version.is_empty());
    let known: Vec<&FirmwareGroup<'_>> = known.collect();
    let unknown = groups.iter().filter(|group| group.version.is_empty());
    let unknown: usize = unknown.map(|group| group.nodes.len()).sum();
    if known.is_empty() {
        let reason = groups
            .first()
            .map_or("no node is there", |group| group.reason);
        return Measured::not_known(format!(
            "{}: {reason}",
            count(unknown, "node has not shown it", "nodes have not shown it")
        ));
    }
    let usual = known.iter().filter(|group| !group.differs && !group.lone);
    let usual = usual.map(|group| format!("{} {}", group.device, group.version));
    let lone = known.iter().filter(|group| group.lone).map(|group| {
        let (only, device) = (&group.nodes[0].description, group.device);
        format!("{only} is the only {device} ({})", group.version)
    });
    let mut summary = lone.chain(usual).collect::<Vec<_>>().join(", ");
    let worst = known.iter().filter(|group| group.differs).map(|group| {
        let first = &group.nodes[0].description;
        let more = match group.nodes.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{} {} at {first}{more}", group.device, group.version)
    });
    let worst: Vec<String> = worst.collect();
    if unknown > 0 {
        summary += &format!(
            "; {}",
            count(unknown, "node is not known", "nodes are not known")
        );
    }
    Measured::unless(worst, v1::Verdict::Warn, summary)
}

fn cabling(published: &Published) -> Measured {
    let missing = &published.missing_counts;
    let gone = missing.cables + missing.host_cables;
    let comparison = published.snapshot.expected.design();
    let exchanged = missing.exchanged_cables + comparison.exchanged_cables();
    let is_as_before = gone + exchanged == 0;
    let before = format!(
        "{} missing, {exchanged} exchanged",
        count(gone, "cable", "cables")
    );
    let is_good = is_as_before && (comparison.is_empty() || comparison.is_right());
    let summary = match (comparison.is_empty(), is_as_before) {
        (true, true) => format!(
            "{} where they were before; there is no design to compare with (`design.file`)",
            count(published.counts.links, "cable is", "cables are")
        ),
        (true, false) => before + ", compared with before",
        (false, _) => format!(
            "{} of {} as designed, {} not seen, {} to make{}",
            comparison.right,
            count(comparison.designed as u64, "cable", "cables"),
            comparison.unseen.len(),
            count(comparison.moves().count() as u64, "move", "moves"),
            match is_as_before {
                true => String::new(),
                false => format!("; {before}"),
            }
        ),
    };
    if is_good {
        return Measured::pass(summary);
    }
    // Warnings name the cables between switches, and cables that differ from the design.
    let shown = published.missing.iter().map(|missing| &missing.message);
    let of_hosts = shown.filter(|one| one.kind() == v1::MissingKind::HostCable);
    let worst = of_hosts.map(|one| {
        let port = one.port.unwrap_or_default();
        format!("{}:{port}, which led to {}", one.name, one.place)
    });
    Measured {
        worst: worst.collect(),
        ..Measured::warn(summary)
    }
}

fn routes(published: &Published) -> Measured {
    let Some(report) = published.snapshot.reachability() else {
        return Measured::not_known("there is no proof of the routes in force".to_owned());
    };
    let mut worst = Vec::new();
    let lost = report.unreachable_pairs + report.disconnected_pairs;
    if lost > 0 {
        worst.push(count(
            lost,
            "pair cannot be reached",
            "pairs cannot be reached",
        ));
    }
    if !report.loop_free {
        worst.push("packets can loop".to_owned());
    }
    if !report.credit_loop_free {
        worst.push("credit loops are possible: the subnet can lock up".to_owned());
    }
    let engine = published.plan().map_or("", |plan| plan.routing.engine);
    let summary = format!(
        "{} proved: {} of {engine}, at most {} hops",
        count(report.reachable_pairs, "pair", "pairs"),
        if worst.is_empty() {
            "no loop, no credit loop, routes"
        } else {
            "routes"
        },
        report.max_hops
    );
    Measured::unless(worst, v1::Verdict::Fail, summary)
}

fn balance(sources: &Sources) -> Measured {
    match &sources.spread {
        Err(reason) => Measured::not_known(reason.clone()),
        Ok((plan, spread)) => {
            let is_even = spread.lost_pairs == 0 && spread.balance.beyond == 0;
            let summary = analysis::verdict(plan, spread);
            match is_even {
                true => Measured::pass(summary),
                false => Measured::warn(summary),
            }
        }
    }
}

fn multicast(plan: &Plan) -> Measured {
    let Some(multicast) = &plan.multicast else {
        return Measured::not_known(capacity::NO_MEMBERS.to_owned());
    };
    let trees = multicast.trees.by_mlid.len();
    Measured::pass(format!(
        "{} proved",
        count(trees, "multicast tree", "multicast trees")
    ))
}

fn managers(published: &Published) -> Measured {
    let snapshot = &published.snapshot;
    let others = snapshot.others.iter();
    let standbys = others
        .filter(|other| other.state == SmState::Standby)
        .count();
    match &snapshot.role {
        Role::Master if standbys == 0 => Measured::warn(
            "this manager is master, and none stands by: if it ends, no fault is repaired until it \
             is back"
                .to_owned(),
        ),
        Role::Master => Measured::pass(format!(
            "this manager is master, {}",
            count(standbys, "one stands by", "others stand by")
        )),
        Role::Standby { master } => Measured::pass(format!(
            "{} at LID {} is master, this manager stands by",
            master.name, master.lid
        )),
        Role::Discovering => Measured::not_known("the first sweep is under way".to_owned()),
        Role::NotActive => Measured {
            verdict: v1::Verdict::Fail,
            summary: published.reason.clone(),
            worst: Vec::new(),
        },
    }
}

fn gpu_rails(sources: &Sources) -> Measured {
    let status = &sources.gpus;
    let known = status.own + status.machine_type;
    let findings = sources.published.snapshot.findings.iter();
    let faults = findings.filter(|one| matches!(one.kind, FindingKind::Gpu(_)));
    match (known, status.without) {
        (0, 0) => Measured::not_known(
            "no GPU host is known: rsm-agent on the hosts sends their inventories".to_owned(),
        ),
        (0, without) => Measured::not_known(format!(
            "{} cabled like GPU hosts, without an inventory: rsm-agent on them sends it",
            count(without, "host is", "hosts are")
        )),
        (known, _) => Measured::pass(format!(
            "{} known, {}",
            count(known, "GPU host", "GPU hosts"),
            count(faults.count(), "finding", "findings")
        )),
    }
}
