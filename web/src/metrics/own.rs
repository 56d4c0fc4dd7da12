//! Metrics that only a subnet manager has.

use std::collections::BTreeMap;

use rsm_api::model::{FindingFilter, Severity};
use rsm_api::{Label as _, Subnet, v1};

use super::text::Text;

/// The exponents of the bounds of SA latencies: from 2^10 ns, a microsecond, to 2^32 ns, four
/// seconds. The SA's histogram has a bound at each of these powers of two.
const LATENCIES: std::ops::RangeInclusive<u32> = 10..=32;

/// Writes role, proof, counts of nodes and of MADs, and findings.
pub(super) fn write(text: &mut Text, subnet: &dyn Subnet) {
    let status = subnet.status();
    state(text, &status);
    shared_store(text, &status);
    event_receivers(text, &status);
    fabric(text, &status);
    proof(text, &status);
    mads(text, &status);
    findings(text, subnet);
    avoided(text, &status.avoided.unwrap_or_default());
}

fn state(text: &mut Text, status: &v1::SubnetStatus) {
    text.gauge(
        "rsm_info",
        "The version of rsm, and the engine whose routes are in force.",
    )
    .sample(
        &[
            ("version", &status.version),
            ("fabric", &status.fabric),
            (
                "engine",
                status.engine.as_ref().map_or("", |engine| &engine.name),
            ),
        ],
        1,
    );
    let mut family = text.gauge(
        "rsm_state",
        "The state of the subnet manager: 1 for the present one.",
    );
    for &(number, label) in v1::SubnetState::LABELS {
        family.sample(&[("state", label)], u8::from(number == status.state));
    }
    text.gauge("rsm_master", "Whether this subnet manager is master.")
        .sample(
            &[],
            u8::from(matches!(
                status.state(),
                v1::SubnetState::Converging | v1::SubnetState::Up | v1::SubnetState::Degraded
            )),
        );
    text.gauge("rsm_priority", "The priority of this subnet manager.")
        .sample(&[], status.priority);
    text.gauge("rsm_other_managers", "Other subnet managers on the subnet.")
        .sample(&[], status.other_managers.len());
    text.gauge("rsm_generation", "The generation of the snapshot in force.")
        .sample(&[], status.generation);
    text.gauge("rsm_uptime_seconds", "Time since rsm started.")
        .sample(&[], status.uptime_ms as f64 / 1e3);
    text.counter(
        "rsm_log_lines_dropped_total",
        "Lines missing in the log, because they were not taken in time or could not be written.",
    )
    .sample(&[], status.dropped_log_lines);
}

fn shared_store(text: &mut Text, status: &v1::SubnetStatus) {
    let Some(store) = &status.shared_store else {
        return;
    };
    text.gauge(
        "rsm_shared_store_ok",
        "Whether the store that several managers share answers and is not behind.",
    )
    .sample(&[], u8::from(store.failing_since_unix_ms.is_none()));
    text.gauge(
        "rsm_shared_store_epoch",
        "The number of the last epoch of the shared store.",
    )
    .sample(&[], store.epoch);
    text.gauge(
        "rsm_shared_store_held",
        "Whether this manager holds the epoch of the shared store.",
    )
    .sample(&[], u8::from(store.held));
    text.gauge(
        "rsm_shared_store_waiting_rows",
        "Changed rows that are not in the shared store yet.",
    )
    .sample(&[], store.waiting_rows);
    text.gauge(
        "rsm_shared_store_lag_seconds",
        "For how long the first of the changes has waited that are not in the shared store yet.",
    )
    .sample(&[], store.lag_ms as f64 / 1e3);
    if let Some(plan) = store.master_plan {
        text.gauge(
            "rsm_standby_ready",
            "Whether this standby has read the subnet as of the master's last plan.",
        )
        .sample(&[], u8::from(store.read_plan == Some(plan)));
    }
}

fn event_receivers(text: &mut Text, status: &v1::SubnetStatus) {
    type Value = fn(&v1::EventReceiver) -> u64;
    let families: [(&str, &str, bool, Value); 4] = [
        (
            "rsm_notify_sent_total",
            "Events that a receiver outside the fabric has taken.",
            true,
            |receiver| receiver.sent,
        ),
        (
            "rsm_notify_lost_total",
            "Events that a receiver outside the fabric does not get.",
            true,
            |receiver| receiver.lost,
        ),
        (
            "rsm_notify_waiting",
            "Events that wait for a receiver outside the fabric.",
            false,
            |receiver| receiver.waiting,
        ),
        (
            "rsm_notify_failing",
            "Whether a receiver outside the fabric takes no events.",
            false,
            |receiver| u64::from(receiver.failing_since_unix_ms.is_some()),
        ),
    ];
    for (name, help, is_counter, value) in families {
        if status.event_receivers.is_empty() {
            return;
        }
        let mut family = match is_counter {
            true => text.counter(name, help),
            false => text.gauge(name, help),
        };
        for receiver in &status.event_receivers {
            family.sample(&[("receiver", &receiver.kind)], value(receiver));
        }
    }
}

fn fabric(text: &mut Text, status: &v1::SubnetStatus) {
    let mut family = text.gauge("rsm_nodes", "Nodes of the fabric by kind.");
    for (kind, count) in [
        ("switch", status.switches),
        ("ca", status.cas),
        ("router", status.routers),
    ] {
        family.sample(&[("kind", kind)], count);
    }
    text.gauge("rsm_lids", "Unicast LIDs in use.")
        .sample(&[], status.lids);
    let mut family = text.gauge("rsm_ports", "Connected ports by whether they are active.");
    family.sample(&[("state", "active")], status.ports_active);
    family.sample(&[("state", "not-active")], status.ports_not_active);
}

fn proof(text: &mut Text, status: &v1::SubnetStatus) {
    let Some(proof) = &status.verify else { return };
    let mut family = text.gauge(
        "rsm_pairs",
        "Pairs of a switch and a LID by whether the tables in force lead from one to the other.",
    );
    family.sample(&[("reachable", "yes")], proof.reachable_pairs);
    family.sample(&[("reachable", "no")], proof.unreachable_pairs);
    let mut family = text.gauge(
        "rsm_proof_ok",
        "Whether the proof of the routes in force holds, by what it proves.",
    );
    let reachable = proof.unreachable_pairs == 0;
    for (property, holds) in [
        ("reachable", reachable),
        ("loop-free", proof.loop_free),
        ("credit-loop-free", proof.credit_loop_free),
    ] {
        family.sample(&[("property", property)], u8::from(holds));
    }
    text.gauge(
        "rsm_max_hops",
        "Switches on the longest path between two hosts.",
    )
    .sample(&[], proof.max_hops);
}

fn mads(text: &mut Text, status: &v1::SubnetStatus) {
    let smps = status.smps.unwrap_or_default();
    let mut family = text.counter(
        "rsm_smps_total",
        "Requests sent to nodes by method, with those sent again.",
    );
    family.sample(&[("method", "get")], smps.get);
    family.sample(&[("method", "set")], smps.set);
    text.counter(
        "rsm_smp_retries_total",
        "Requests to nodes that were sent again.",
    )
    .sample(&[], smps.retries);
    text.counter(
        "rsm_smp_timeouts_total",
        "Requests sent to nodes that were not answered in time, each time that one was sent.",
    )
    .sample(&[], smps.timeouts);
}

/// Writes the numbers of findings, missing parts and drained parts. Each kind of finding has at
/// most two lines; rsm has about sixty kinds.
fn findings(text: &mut Text, subnet: &dyn Subnet) {
    let findings = subnet.findings(None, usize::MAX, &FindingFilter::default());
    let mut counts: BTreeMap<(String, &str), u64> = BTreeMap::new();
    for finding in findings.items {
        let severity = Severity::label(finding.severity).unwrap_or("unknown");
        *counts.entry((finding.kind, severity)).or_default() += 1;
    }
    let mut family = text.gauge("rsm_findings", "Findings that hold now.");
    for ((kind, severity), count) in &counts {
        family.sample(&[("kind", kind), ("severity", severity)], count);
    }
    let missing = subnet.missing(None, usize::MAX).items;
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for missing in &missing {
        let kind = v1::MissingKind::label(missing.message.kind).unwrap_or("unknown");
        *counts.entry(kind).or_default() += 1;
    }
    let mut family = text.gauge(
        "rsm_missing",
        "Nodes and cables that are expected and not there.",
    );
    for &(_, kind) in v1::MissingKind::LABELS {
        family.sample(&[("kind", kind)], counts.get(kind).copied().unwrap_or(0));
    }
    let drained = subnet.drained(None, usize::MAX).items.len();
    text.gauge("rsm_drained", "Drained nodes and ports.")
        .sample(&[], drained);
}

fn avoided(text: &mut Text, avoided: &v1::AvoidedParts) {
    let mut family = text.gauge(
        "rsm_avoided_parts",
        "Nodes and cables that routes go around, by the reason and whether routes do.",
    );
    for (state, count) in [
        ("draining", avoided.draining),
        ("drained", avoided.drained),
        ("isolated", avoided.isolated),
        ("in-use", avoided.in_use),
    ] {
        family.sample(&[("state", state)], count);
    }
}

/// Writes the number of links by state.
pub(crate) fn links(active: u64, not_active: u64) -> String {
    let mut text = Text::new();
    let mut family = text.gauge("rsm_links", "Links by whether they are active.");
    family.sample(&[("state", "active")], active);
    family.sample(&[("state", "not-active")], not_active);
    text.finish()
}

/// Writes the number of hosts' requests, and the latency of answers.
pub(super) fn sa(text: &mut Text, counters: &v1::SaCounters) {
    let mut family = text.counter(
        "rsm_sa_requests_total",
        "Requests of hosts to the SA by attribute and method.",
    );
    for requests in &counters.requests {
        let labels = [
            ("attribute", requests.attribute.as_str()),
            ("method", &requests.method),
        ];
        family.sample(&labels, requests.count);
    }
    let mut family = text.counter("rsm_sa_answers_total", "Answers of the SA by status.");
    for answers in &counters.answers {
        family.sample(&[("status", &answers.status)], answers.count);
    }
    let mut family = text.counter(
        "rsm_sa_refusals_total",
        "Messages to the SA that got no answer, or only BUSY, by the reason.",
    );
    for (reason, count) in [
        ("busy", counters.busy),
        ("dropped", counters.dropped),
        ("failed", counters.failed),
        ("ignored", counters.ignored),
        ("unserved", counters.unserved),
        ("wrong-key", counters.wrong_keys),
    ] {
        family.sample(&[("reason", reason)], count);
    }
    let mut family = text.histogram(
        "rsm_sa_latency_seconds",
        "Time from a request of a host to the answer.",
    );
    let latencies = counters.latencies.clone().unwrap_or_default();
    let (buckets, count) = latency_buckets(&latencies);
    family.buckets(&[], &buckets, latencies.sum_ns as f64 / 1e9, count);
}

/// The cumulative counts up to powers of two, in seconds, and the total count. The counters change
/// while they are read: the total is computed from the buckets, so that they agree.
fn latency_buckets(latencies: &v1::Latencies) -> (Vec<(f64, u64)>, u64) {
    let buckets = LATENCIES
        .map(|exponent| {
            let bound = 1u64 << exponent;
            let below = latencies
                .buckets
                .iter()
                .filter(|bucket| bucket.below_ns != 0 && bucket.below_ns <= bound);
            (bound as f64 / 1e9, below.map(|bucket| bucket.count).sum())
        })
        .collect();
    let count = latencies.buckets.iter().map(|bucket| bucket.count).sum();
    (buckets, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_cumulative_and_the_last_bucket_has_no_bound() {
        let bucket = |below_ns, count| v1::LatencyBucket { below_ns, count };
        let latencies = v1::Latencies {
            count: 99,
            sum_ns: 0,
            buckets: vec![
                bucket(900, 1),
                bucket(1024, 2),
                bucket(1152, 4),
                bucket(0, 8),
            ],
        };
        let (buckets, count) = latency_buckets(&latencies);
        assert_eq!(count, 15);
        assert_eq!(buckets[0], (1.024e-6, 3));
        assert_eq!(buckets[1].1, 7);
        assert_eq!(buckets.last().unwrap().1, 7);
    }
}
