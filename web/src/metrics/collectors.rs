//! Metrics about readings, under the names and labels of `infiniband_exporter`. The collectors of
//! that exporter are the discovery of the fabric (`ibnetdiscover`), and the counters of switches
//! and of HCAs.
//!
//! rsm reads continuously and not for a scrape: the durations are taken from the last readings.

use std::collections::HashMap;
use std::time::Duration;

use rsm_api::model::{AgentState, Answering, NodeFilter};
use rsm_api::{CountersQueries, Subnet};
use rsm_ids::Guid;

use super::Shard;
use super::text::Text;

/// The collectors of counters, by kind of node, with their families.
const OF_DEVICES: [Collector; 2] = [
    Collector {
        name: "switch",
        duration: "infiniband_switch_collect_duration_seconds",
        error: "infiniband_switch_collect_error",
        timeout: "infiniband_switch_collect_timeout",
        up: "infiniband_switch_up",
    },
    Collector {
        name: "hca",
        duration: "infiniband_hca_collect_duration_seconds",
        error: "infiniband_hca_collect_error",
        timeout: "infiniband_hca_collect_timeout",
        up: "infiniband_hca_up",
    },
];

struct Collector {
    name: &'static str,
    duration: &'static str,
    error: &'static str,
    timeout: &'static str,
    /// The family of SckyzO's fork that says whether the last reading succeeded.
    up: &'static str,
}

/// Writes the collectors' own families: duration, errors and timeouts.
pub(super) fn collectors(
    text: &mut Text,
    subnet: &dyn Subnet,
    counters: Option<&dyn CountersQueries>,
) {
    let mut rows = vec![discovery(subnet)];
    if let Some(counters) = counters {
        rows.extend(agent_rows(counters));
    }
    let mut family = text.gauge(
        "infiniband_exporter_collector_duration_seconds",
        "Collector time duration.",
    );
    for row in &rows {
        if let Some(took) = row.took {
            family.sample(&[("collector", row.name)], took.as_secs_f64());
        }
    }
    let mut family = text.gauge(
        "infiniband_exporter_collect_errors",
        "Number of errors that occurred during collection",
    );
    for row in &rows {
        family.sample(&[("collector", row.name)], row.errors);
    }
    let mut family = text.gauge(
        "infiniband_exporter_collect_timeouts",
        "Number of timeouts that occurred during collection",
    );
    for row in &rows {
        family.sample(&[("collector", row.name)], row.timeouts);
    }
}

/// The metrics of one collector.
struct Row {
    name: &'static str,
    took: Option<Duration>,
    errors: u64,
    timeouts: u64,
}

/// The metrics of the sweep in the last convergence.
fn discovery(subnet: &dyn Subnet) -> Row {
    let last = subnet.convergences(1).items.pop();
    let took = last.as_ref().and_then(|last| last.timing_ms.as_ref());
    Row {
        name: "ibnetdiscover",
        took: took.map(|timing| Duration::from_secs_f64((timing.discover / 1e3).max(0.0))),
        // No sweep has ended yet.
        errors: u64::from(last.is_none()),
        timeouts: last
            .and_then(|last| last.smps)
            .map_or(0, |smps| smps.timeouts),
    }
}

/// The metrics of the agents of each kind: the longest of the last readings, and the number of
/// agents that cannot be read or do not answer at present.
fn agent_rows(counters: &dyn CountersQueries) -> [Row; 2] {
    let mut rows = OF_DEVICES.map(|collector| Row {
        name: collector.name,
        took: None,
        errors: 0,
        timeouts: 0,
    });
    counters.each_agent(&mut |agent| {
        let row = &mut rows[kind(&agent)];
        row.took = row.took.max(agent.took);
        row.errors += u64::from(agent.answering == Answering::Unreadable);
        row.timeouts += u64::from(agent.answering == Answering::Silent);
    });
    rows
}

/// The index of an agent's collector.
fn kind(agent: &AgentState) -> usize {
    usize::from(!agent.is_switch)
}

/// Writes the metrics of the agents in a shard of the nodes.
pub(super) fn devices(
    text: &mut Text,
    subnet: &dyn Subnet,
    counters: &dyn CountersQueries,
    shard: Shard,
) {
    let nodes = subnet.nodes(None, usize::MAX, &NodeFilter::default()).items;
    let nodes = nodes.into_iter().filter(|node| shard.has(node.key));
    let names: HashMap<Guid, String> = nodes
        .map(|node| (node.key, node.message.description))
        .collect();
    let mut agents: [Vec<AgentState>; 2] = Default::default();
    counters.each_agent(&mut |agent| {
        if shard.has(agent.node) && agent.answering != Answering::New {
            agents[kind(&agent)].push(agent);
        }
    });
    for (collector, agents) in OF_DEVICES.iter().zip(agents) {
        let families: [(&'static str, &str, Value); 3] = [
            (collector.duration, "Duration of collection", |agent| {
                Some(agent.took?.as_secs_f64())
            }),
            (collector.error, "Indicates if collect error", |agent| {
                Some(f64::from(agent.answering == Answering::Unreadable))
            }),
            (collector.timeout, "Indicates if collect timeout", |agent| {
                Some(f64::from(agent.answering == Answering::Silent))
            }),
        ];
        for (name, help, value) in families {
            let mut family = text.gauge(name, help);
            for agent in &agents {
                let guid = agent.guid.to_string();
                let labels = [("guid", guid.as_str()), ("collector", collector.name)];
                if let Some(value) = value(agent) {
                    family.sample(&labels, value);
                }
            }
        }
        let help = "Whether the last reading of the counters succeeded";
        let mut family = text.gauge(collector.up, help);
        for agent in &agents {
            // A node that has just left has no name.
            if let Some(name) = names.get(&agent.node) {
                let guid = agent.guid.to_string();
                let labels = [("guid", guid.as_str()), (collector.name, name)];
                let is_up = agent.answering == Answering::Answers;
                family.sample(&labels, u64::from(is_up));
            }
        }
    }
}

/// A function for the value of a family for an agent; `None` if the agent has none.
type Value = fn(&AgentState) -> Option<f64>;
