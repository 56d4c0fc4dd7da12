//! Checks of the performance counters of ports: errors, losses of links, waits.

use std::collections::BTreeSet;

use rsm_api::together::{
    LINK_DOWNED, Offender, RELAY_ERRORS, has_only_discards, losses, offenders,
};
use rsm_api::v1;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_model::findings::{FindingKind, Subject};
use rsm_model::text::count;

use super::checks::Sources;
use super::topic::Measured;

/// Minimum number of errors per hour that makes a link doubtful: a healthy link has a few per day.
const ERRORS_PER_HOUR: f64 = 10.0;

/// Minimum share of time in which data waits at a port that makes the check of congestion warn:
/// short queues of a busy fabric stay below it.
const CONGESTED: f64 = 0.1;

/// Minimum number of losses of a link that makes it a flapping link: a link that is unplugged once
/// does not flap.
const FLAPS: f64 = 2.0;

/// Why a check of counters is not known while rsm does not read them.
const NO_COUNTERS: &str = "rsm reads no counters: `counters.enabled = true` turns them on";

/// Ports with errors, or the reason why they are unknown.
fn with_errors(sources: &Sources) -> Result<&[v1::PortCounters], Measured> {
    if !sources.counters.is_collecting {
        return Err(Measured::not_known(NO_COUNTERS.to_owned()));
    }
    match &sources.errors {
        Ok(ports) => Ok(ports),
        Err(reason) => Err(Measured::not_known(reason.clone())),
    }
}

/// The ports that count errors at a doubtful rate. Ports that count nothing but losses of their
/// link belong to the check of flaps.
fn doubtful(ports: &[v1::PortCounters]) -> Vec<&v1::PortCounters> {
    let bad = ports.iter();
    let bad = bad.filter(|port| port.errors_per_hour >= ERRORS_PER_HOUR);
    bad.filter(|port| losses(port).is_none()).collect()
}

/// The ports that a finding about errors reports.
fn reported(sources: &Sources) -> BTreeSet<Subject> {
    let findings = sources.published.snapshot.findings.iter();
    let findings = findings.filter(|one| one.kind == FindingKind::LinkErrors);
    findings.map(|one| one.subject).collect()
}

fn subject(port: &v1::PortCounters) -> Option<Subject> {
    let key = port.port.as_ref()?;
    let node: Guid = key.node_guid.parse().ok()?;
    let number = PortNum(u8::try_from(key.number).ok()?);
    Some(Subject::Port(PortKey::new(node, number)))
}

/// Whether findings report errors, and no port counts errors now, because rsm has restarted since
/// or the errors have ended.
pub(super) fn has_only_earlier_errors(sources: &Sources) -> bool {
    let now = with_errors(sources).map_or(0, |ports| doubtful(ports).len());
    now == 0 && !reported(sources).is_empty()
}

pub(super) fn link_errors(sources: &Sources) -> Measured {
    let ports = match with_errors(sources) {
        Ok(ports) => doubtful(ports),
        Err(measured) => return measured,
    };
    let reported = reported(sources);
    let mut summary = errors_summary(sources.counters.ports, &ports, &reported);
    let all = sources.errors.as_deref().unwrap_or_default();
    summary += &relay_summary(all);
    match ports.is_empty() {
        true => Measured::pass(summary),
        false => Measured {
            worst: rates(&ports, &reported),
            ..Measured::warn(summary)
        },
    }
}

/// The numbers of ports that count errors now, and of others that a finding still reports.
fn errors_summary(read: u64, ports: &[&v1::PortCounters], reported: &BTreeSet<Subject>) -> String {
    let now: BTreeSet<Subject> = ports.iter().filter_map(|port| subject(port)).collect();
    let earlier = reported.difference(&now).count();
    let mut summary = format!(
        "{} read, {} {ERRORS_PER_HOUR} errors of all kinds an hour or more",
        count(read, "port", "ports"),
        match ports.len() {
            0 => "none counts".to_owned(),
            1 => "1 counts".to_owned(),
            many => format!("{many} count"),
        }
    );
    if earlier > 0 {
        summary += &format!(
            " now; {} errors earlier",
            count(earlier, "other counted", "others counted")
        );
    }
    summary + "; rsm reads no bit error rates"
}

/// The number of ports that count packets which a switch could not relay, and what that means;
/// empty if there are none.
fn relay_summary(ports: &[v1::PortCounters]) -> String {
    let is_relay = |error: &v1::ErrorCounter| error.name == RELAY_ERRORS && error.per_hour > 0.0;
    let relay = ports.iter().filter(|port| port.errors.iter().any(is_relay));
    match relay.count() {
        0 => String::new(),
        number => format!(
            "; no cable error: packets with no way on from a switch at {} ({RELAY_ERRORS})",
            count(number, "port", "ports")
        ),
    }
}

/// A sentence on the error rate of each port, except for ports that a finding reports already: the
/// finding states the rate of one kind of error, over another time span.
fn rates(ports: &[&v1::PortCounters], reported: &BTreeSet<Subject>) -> Vec<String> {
    let rates = ports.iter().filter_map(|port| {
        let own = subject(port)?;
        let number = port.port.as_ref()?.number;
        let (name, rate) = (&port.description, port.error_rate(port.errors_per_hour));
        (!reported.contains(&own)).then(|| match has_only_discards(port) {
            false => format!("{name}:{number} counts errors of all kinds: {rate}"),
            true => format!(
                "{name}:{number} discards packets: {rate}, congestion or a slow receiver, no \
                 error of a cable"
            ),
        })
    });
    rates.collect()
}

/// The links that went down in the last day, by the counters of their ports; in the last minutes if
/// no past of the counters is kept.
pub(super) fn link_flaps(sources: &Sources) -> Measured {
    let ports = match with_errors(sources) {
        Ok(ports) => ports,
        Err(measured) => return measured,
    };
    match &sources.day {
        Ok(day) => {
            let mut all: Vec<v1::PortCounters> = day.iter().map(of_day).collect();
            // A loss of this minute may not be in the past yet.
            all.extend(ports.iter().filter(|port| !has_losses(day, port)).cloned());
            flaps(&all, "in the last day")
        }
        Err(_) => flaps(ports, "in the last minutes"),
    }
}

/// Whether a port counted losses of its link in the day.
fn has_losses(day: &[v1::CountedPort], port: &v1::PortCounters) -> bool {
    let mut same = day.iter().filter(|one| one.port == port.port);
    same.any(|one| one.errors.iter().any(|error| error.name == LINK_DOWNED))
}

/// The counts of a port in the last day as rates over that day.
fn of_day(port: &v1::CountedPort) -> v1::PortCounters {
    let errors = port.errors.iter().map(|error| v1::ErrorCounter {
        name: error.name.clone(),
        total: error.count,
        per_hour: error.count as f64 / 24.0,
        ..v1::ErrorCounter::default()
    });
    v1::PortCounters {
        port: port.port.clone(),
        description: port.description.clone(),
        peer: port.peer.clone(),
        peer_description: port.peer_description.clone(),
        errors: errors.collect(),
        errors_observed_s: 24.0 * 3600.0,
        ..v1::PortCounters::default()
    }
}

/// The links that went down in a span of time, such as `in the last day`.
fn flaps(ports: &[v1::PortCounters], span: &str) -> Measured {
    let moving = ports.iter().filter(|port| downs(port) > 0.0);
    let (single, with_nodes): (Vec<Offender>, Vec<Offender>) = offenders(moving.cloned().collect())
        .into_iter()
        .partition(|one| one.with.is_none());
    // The ports at both ends of a link may count its loss.
    let mut seen = BTreeSet::new();
    let mut links: Vec<&v1::PortCounters> = Vec::new();
    for port in single.iter().flat_map(|one| &one.ports) {
        let mut ends = [&port.port, &port.peer].map(|end| {
            let end = end.clone().unwrap_or_default();
            (end.node_guid, end.number)
        });
        ends.sort();
        if seen.insert(ends) {
            links.push(port);
        }
    }
    links.sort_by(|one, other| downs(other).total_cmp(&downs(one)));
    let flapping = links.iter().filter(|port| downs(port) >= FLAPS);
    let worst: Vec<String> = flapping
        .map(|port| {
            let ends = [
                (&port.description, &port.port),
                (&port.peer_description, &port.peer),
            ];
            let ends = ends
                .into_iter()
                .filter_map(|(name, end)| Some(format!("{name}:{}", end.as_ref()?.number)));
            let ends: Vec<String> = ends.collect();
            format!(
                "{} went down {:.0} times {span}",
                ends.join(" - "),
                downs(port)
            )
        })
        .collect();
    let mut summary = match links.len() {
        0 => format!("no link of its own went down {span}"),
        lost => format!(
            "{} went down {span}, {} more than once{}",
            count(lost, "link", "links"),
            worst.len(),
            match links.first() {
                Some(port) if !worst.is_empty() => format!(", at most {:.0} times", downs(port)),
                _ => String::new(),
            }
        ),
    };
    for Offender { with, ports } in &with_nodes {
        let node = with.as_deref().unwrap_or_default();
        summary += &format!(", {} down with {node}", count(ports.len(), "link", "links"));
    }
    Measured::unless(worst, v1::Verdict::Warn, summary)
}

/// The number of losses of a port's link in the time of its rate.
fn downs(port: &v1::PortCounters) -> f64 {
    let mut errors = port.errors.iter();
    let downed = errors.find(|error| error.name == LINK_DOWNED);
    let per_hour = downed.map_or(0.0, |error| error.per_hour);
    (per_hour * port.errors_observed_s / 3600.0).round()
}

/// The ports at which data waits for a large share of the time.
pub(super) fn congestion(sources: &Sources) -> Measured {
    match &sources.waits {
        _ if !sources.counters.is_collecting => Measured::not_known(NO_COUNTERS.to_owned()),
        Err(reason) => Measured::not_known(reason.clone()),
        Ok((_, 0)) => Measured::not_known("no port has counted yet how long data waits".to_owned()),
        Ok((ports, total)) => waiting(ports, *total),
    }
}

fn waiting(ports: &[v1::PortCounters], total: u64) -> Measured {
    let shares = ports.iter().filter_map(|port| {
        let share = port.wait_share.filter(|&share| share >= CONGESTED)?;
        let number = port.port.as_ref()?.number;
        let end = match &port.peer {
            Some(peer) => format!("{}:{}", port.peer_description, peer.number),
            None => "the other end".to_owned(),
        };
        let (name, percent) = (&port.description, share * 100.0);
        Some(format!(
            "{name}:{number} waits {percent:.0} % of the time for {end}"
        ))
    });
    let worst: Vec<String> = shares.collect();
    let limit = CONGESTED * 100.0;
    let summary = match worst.len() {
        0 => format!(
            "data waits less than {limit:.0} % of the time at each of {}",
            count(total, "port that counts it", "ports that count it")
        ),
        busy => format!(
            "data waits {limit:.0} % of the time or more at {busy} of {}: congestion, or slow receivers",
            count(total, "port", "ports")
        ),
    };
    Measured::unless(worst, v1::Verdict::Warn, summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(node: u64, number: u32) -> Option<v1::PortKey> {
        Some(v1::PortKey {
            node_guid: Guid(node).to_string(),
            number,
        })
    }

    fn port(node: u64) -> v1::PortCounters {
        v1::PortCounters {
            port: key(node, 7),
            description: format!("leaf-{node}"),
            peer: key(node + 100, 1),
            peer_description: format!("spine-{node}"),
            errors_per_hour: 343.0,
            errors_observed_s: 11.0,
            ..v1::PortCounters::default()
        }
    }

    #[test]
    fn error_rates_omit_ports_that_a_finding_reports() {
        let (reported, other) = (port(1), port(2));
        let findings = BTreeSet::from([Subject::Port(PortKey::new(Guid(1), PortNum(7)))]);
        let expected = "leaf-2:7 counts errors of all kinds: 1 in 11 s";
        assert_eq!(rates(&[&reported, &other], &findings), [expected]);
        let summary = errors_summary(9, &[&other], &findings);
        assert!(
            summary.starts_with(
                "9 ports read, 1 counts 10 errors of all kinds an hour or more now; 1 other \
                 counted errors earlier"
            ),
            "{summary}"
        );
        let summary = errors_summary(9, &[], &BTreeSet::new());
        assert!(
            summary.starts_with("9 ports read, none counts 10"),
            "{summary}"
        );
    }

    #[test]
    fn packets_that_a_switch_could_not_relay_are_no_error_of_a_cable() {
        let relay = |per_hour| {
            let mut port = port(1);
            port.errors = vec![v1::ErrorCounter {
                name: RELAY_ERRORS.to_owned(),
                total: 9,
                per_hour,
                ..v1::ErrorCounter::default()
            }];
            port
        };
        assert_eq!(relay_summary(&[relay(0.0), port(2)]), "");
        assert_eq!(
            relay_summary(&[relay(5.0), relay(7.0)]),
            "; no cable error: packets with no way on from a switch at 2 ports \
             (PortRcvSwitchRelayErrors)"
        );
    }

    #[test]
    fn link_that_went_down_twice_counts_as_flapping_and_not_as_an_error() {
        let lost = |node, times: f64| {
            let mut port = port(node);
            port.errors_observed_s = 900.0;
            port.errors = vec![v1::ErrorCounter {
                name: LINK_DOWNED.to_owned(),
                total: 3,
                per_hour: times * 4.0,
                ..v1::ErrorCounter::default()
            }];
            port
        };
        let mut far = lost(1, 3.0);
        std::mem::swap(&mut far.port, &mut far.peer);
        let ports = [lost(1, 3.0), far, lost(2, 1.0), lost(3, 0.0)];
        let flaps = flaps(&ports, "in the last minutes");
        assert_eq!(flaps.verdict, v1::Verdict::Warn);
        assert_eq!(
            flaps.worst,
            ["leaf-1:7 - spine-1:1 went down 3 times in the last minutes"]
        );
        assert_eq!(
            flaps.summary,
            "2 links went down in the last minutes, 1 more than once, at most 3 times"
        );
        assert!(doubtful(&ports).is_empty());
    }

    #[test]
    fn losses_of_hours_ago_are_flaps_of_the_last_day() {
        let counted = |node: u64, count| v1::CountedPort {
            port: key(node, 7),
            description: format!("leaf-{node}"),
            peer: key(node + 100, 1),
            peer_description: format!("spine-{node}"),
            errors: vec![v1::CountedErrors {
                name: LINK_DOWNED.to_owned(),
                count,
                ..v1::CountedErrors::default()
            }],
            ..v1::CountedPort::default()
        };
        let day = [counted(2, 5), counted(1, 8), counted(3, 1)];
        let ports: Vec<v1::PortCounters> = day.iter().map(of_day).collect();
        let flaps = flaps(&ports, "in the last day");
        assert_eq!(flaps.verdict, v1::Verdict::Warn);
        assert_eq!(
            flaps.worst,
            [
                "leaf-1:7 - spine-1:1 went down 8 times in the last day",
                "leaf-2:7 - spine-2:1 went down 5 times in the last day"
            ]
        );
        assert!(has_losses(&day, &port(1)) && !has_losses(&day, &port(9)));
    }

    #[test]
    fn ports_at_which_data_waits_long_are_named_with_the_end_they_wait_for() {
        let ports = [0.4, 0.2, 0.05].map(|share| v1::PortCounters {
            wait_share: Some(share),
            ..port(4)
        });
        let measured = waiting(&ports, 64);
        assert_eq!(measured.verdict, v1::Verdict::Warn);
        let first = "leaf-4:7 waits 40 % of the time for spine-4:1";
        assert_eq!((measured.worst.len(), &*measured.worst[0]), (2, first));
        assert!(measured.summary.contains("at 2 of 64 ports"));
        assert_eq!(waiting(&ports[2..], 64).verdict, v1::Verdict::Pass);
    }
}
