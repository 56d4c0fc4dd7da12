use std::collections::BTreeSet;

use clap::Args;
use rsm_api::together::DISCARDS;
use rsm_proto::{thousands, v1};
use serde::Serialize;

use super::sa;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{count, nanoseconds, port_of, rate, timestamp};

/// The share of time above which waiting data is listed: data waits at times even on a merely full
/// link.
const MIN_WAIT_SHARE: f64 = 0.01;

/// The maximum number of ports that are listed for waiting data.
const MAX_WAITING: usize = 10;

/// The number of discarded packets an hour from which a port is listed: fewer slow no job.
const MIN_DISCARDS: f64 = 60.0;

/// The maximum number of ports that the server ranks in an answer.
const MAX_PORTS: u32 = 1000;

/// The number of latest convergences among which the slowest is searched.
const CONVERGENCES: u32 = 100;

/// What is slow: links, ports where data waits, the stage of a convergence, the SA
#[derive(Debug, Args)]
#[command(
    after_help = "A link is slow, as in the finding link-slow, below the width or speed that both its ends have and\nhave enabled, or below the rate of most of its siblings: of the cables between the same switches,\nof adapters of one type. Data that waits comes from performance counters, as do `rsmctl counters`.\n\nExample: rsmctl slow"
)]
pub(crate) struct SlowArguments {}

/// A slow item, or the statement that nothing of its kind is slow.
#[derive(Debug, Serialize, PartialEq)]
struct Slow {
    /// The kind: `link`, `wait`, `discards`, `stage` or `sa`.
    kind: &'static str,
    /// The location; empty if nothing of the kind is slow.
    place: String,
    text: String,
}

pub(crate) async fn run(_: SlowArguments, session: &mut Session) -> Result<(), Failure> {
    let slow = v1::ListLinksRequest {
        slow: true,
        ..v1::ListLinksRequest::default()
    };
    let links = all_pages(slow, async |request| {
        session.fabric().list_links(request).await
    })
    .await?;
    let answer = session.fabric().get_status(v1::GetStatusRequest {}).await?;
    let status = answer.into_inner().status.unwrap_or_default();
    let mut found = slow_links(&links, status.links);
    found.extend(waiting_ports(session).await?);
    found.extend(discarding_ports(session).await?);
    let newest = v1::ListConvergencesRequest {
        newest: CONVERGENCES,
        ..v1::ListConvergencesRequest::default()
    };
    let convergences = all_pages(newest, async |request| {
        session.convergence().list_convergences(request).await
    })
    .await?;
    found.push(slowest_stage(&convergences));
    found.push(slowest_answers(session).await?);
    session
        .output
        .list(found, ["KIND", "WHERE", "WHAT"], |slow| {
            [slow.kind.to_owned(), slow.place, slow.text]
        })
}

/// The links that carry less than they should, or the statement that no link is slow; `all` is the
/// number of links in the fabric.
fn slow_links(slow: &[v1::Link], all: u64) -> Vec<Slow> {
    let end = |end: &Option<v1::LinkEnd>| {
        let end = end.clone().unwrap_or_default();
        port_of(&end.description, end.port.as_ref())
    };
    let one = |link: &v1::Link| Slow {
        kind: "link",
        place: format!("{} - {}", end(&link.a), end(&link.b)),
        text: format!(
            "{}, while {}: cable, optics or port settings",
            rate(link.width, link.speed),
            better_rates(&link.slow.unwrap_or_default())
        ),
    };
    match all {
        _ if !slow.is_empty() => slow.iter().map(one).collect(),
        0 => vec![statement("link", "there is no link".to_owned())],
        all => {
            let links = count(all, "link", "links");
            let text = format!(
                "none of {links} is below the best rate of its ends, or below most of its siblings"
            );
            vec![statement("link", text)]
        }
    }
}

/// The better rates in words: the rate of most siblings, and the best rate of both ends.
fn better_rates(slow: &v1::SlowLink) -> String {
    let siblings = (slow.siblings_mbps > 0).then(|| {
        let gbps = f64::from(slow.siblings_mbps) / 1000.0;
        format!("most of its siblings carry {gbps} Gb/s")
    });
    let has_ends = slow.speed() != v1::LinkSpeed::Unspecified;
    let ends = has_ends.then(|| format!("both ends could have {}", rate(slow.width, slow.speed)));
    let wanted: Vec<String> = siblings.into_iter().chain(ends).collect();
    wanted.join(" and ")
}

/// A statement about a kind, without a location.
fn statement(kind: &'static str, text: String) -> Slow {
    Slow {
        kind,
        place: String::new(),
        text,
    }
}

/// The ports where data waits longest.
async fn waiting_ports(session: &Session) -> Result<Vec<Slow>, Failure> {
    let request = v1::GetTopPortsRequest {
        order: v1::PortOrder::Wait.into(),
        limit: MAX_PORTS,
        part: String::new(),
    };
    let top = session.counters().get_top_ports(request).await;
    let top = match top.map_err(Failure::from) {
        Ok(top) => top.into_inner(),
        // No counters have been read yet, or the operator has disabled reading them.
        Err(Failure::Refused(reason)) => return Ok(vec![statement("wait", reason)]),
        Err(failure) => return Err(failure),
    };
    let waiting: Vec<(f64, &v1::PortCounters)> = top
        .ports
        .iter()
        .filter_map(|port| {
            Some((
                port.wait_share.filter(|&share| share >= MIN_WAIT_SHARE)?,
                port,
            ))
        })
        .collect();
    let more = waiting.len().saturating_sub(MAX_WAITING);
    // Ports beyond the answer have less waiting data, so their number is unknown.
    let at_least = if waiting.len() == MAX_PORTS as usize {
        "at least "
    } else {
        ""
    };
    let mut found = waits(&waiting);
    found.truncate(MAX_WAITING);
    if more > 0 {
        found.push(statement(
            "wait",
            format!("and {at_least}{more} more ports: `rsmctl top --by wait`"),
        ));
    }
    if found.is_empty() {
        found.push(no_wait(top.total));
    }
    Ok(found)
}

/// The ports that discard packets now, the most first.
async fn discarding_ports(session: &Session) -> Result<Vec<Slow>, Failure> {
    let request = v1::GetTopPortsRequest {
        order: v1::PortOrder::Errors.into(),
        limit: MAX_PORTS,
        part: String::new(),
    };
    let top = session.counters().get_top_ports(request).await;
    match top.map_err(Failure::from) {
        Ok(top) => Ok(discards(&top.into_inner().ports)),
        // The row about waits says that no counters are read.
        Err(Failure::Refused(_)) => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}

/// A row for each port that discards at least [`MIN_DISCARDS`] packets an hour, the most first.
fn discards(ports: &[v1::PortCounters]) -> Vec<Slow> {
    let rates = ports.iter().filter_map(|port| {
        let mut errors = port.errors.iter();
        let own = errors.find(|error| error.name == DISCARDS)?;
        (own.per_hour >= MIN_DISCARDS).then_some((own.per_hour, port))
    });
    let mut rates: Vec<(f64, &v1::PortCounters)> = rates.collect();
    rates.sort_by(|one, other| other.0.total_cmp(&one.0));
    let more = rates.len().saturating_sub(MAX_WAITING);
    let rows = rates.iter().take(MAX_WAITING).map(|&(rate, port)| Slow {
        kind: "discards",
        place: port_of(&port.description, port.port.as_ref()),
        text: format!(
            "{} packets an hour for {} are discarded: it takes less than it is sent, or its link is \
             full",
            thousands(rate.round() as u64),
            match &port.peer {
                Some(peer) => port_of(&port.peer_description, Some(peer)),
                None => "the other end".to_owned(),
            }
        ),
    });
    let mut rows: Vec<Slow> = rows.collect();
    if more > 0 {
        let text = format!("and {more} more ports: `rsmctl top --errors`");
        rows.push(statement("discards", text));
    }
    rows
}

/// A row for each port where data waits that share of the time. A port waits because of its peer if
/// ports of the peer wait as well; the peer of any other port is where waiting begins.
fn waits(waiting: &[(f64, &v1::PortCounters)]) -> Vec<Slow> {
    let nodes = waiting.iter().filter_map(|(_, port)| port.port.as_ref());
    let nodes: BTreeSet<&str> = nodes.map(|port| port.node_guid.as_str()).collect();
    let row = |&(share, port): &(f64, &v1::PortCounters)| {
        let percent = share * 100.0;
        let peer = port_of(&port.peer_description, port.peer.as_ref());
        let text = match &port.peer {
            None => format!("data waits {percent:.0} % of the time"),
            Some(key) if nodes.contains(key.node_guid.as_str()) => {
                format!(
                    "data waits {percent:.0} % of the time for {peer}, whose own data waits: see its rows"
                )
            }
            Some(_) => format!(
                "data waits {percent:.0} % of the time for {peer}: begin there, it takes less than it is \
                 sent, or its link is full"
            ),
        };
        Slow {
            kind: "wait",
            place: port_of(&port.description, port.port.as_ref()),
            text,
        }
    };
    waiting.iter().map(row).collect()
}

/// The statement that data waits long at no port; `ports` is the number of ports that count waits.
fn no_wait(ports: u64) -> Slow {
    statement(
        "wait",
        match ports {
            0 => "not known: no port has counted yet how long data waits".to_owned(),
            ports => format!(
                "data waits less than {:.0} % of the time at each of {}",
                MIN_WAIT_SHARE * 100.0,
                count(ports, "port that counts it", "ports that count it")
            ),
        },
    )
}

/// The longest stage of the slowest of the latest convergences.
fn slowest_stage(convergences: &[v1::Convergence]) -> Slow {
    let total = |one: &&v1::Convergence| one.timing_ms.unwrap_or_default().total;
    let slowest = convergences
        .iter()
        .max_by(|one, other| total(one).total_cmp(&total(other)));
    let Some(slowest) = slowest else {
        return statement("stage", "no convergence has finished yet".to_owned());
    };
    let timing = slowest.timing_ms.unwrap_or_default();
    let stages = [
        ("discover", "reading the hardware", timing.discover),
        ("plan", "computing and proving tables", timing.plan),
        ("push", "writing the differences", timing.push),
    ];
    let longest = stages
        .into_iter()
        .max_by(|one, other| one.2.total_cmp(&other.2))
        .unwrap_or(stages[0]);
    let smps = slowest.smps.unwrap_or_default();
    Slow {
        kind: "stage",
        place: longest.0.to_owned(),
        text: format!(
            "{}: {:.1} ms of {:.1} ms in the slowest of the latest {} ({}, {}, {} timed out)",
            longest.1,
            longest.2,
            timing.total,
            count(convergences.len() as u64, "convergence", "convergences"),
            slowest.cause,
            timestamp(slowest.finished_unix_ms),
            count(smps.timeouts, "packet", "packets")
        ),
    }
}

/// The latency of answers to hosts.
async fn slowest_answers(session: &Session) -> Result<Slow, Failure> {
    let mut client = session.sa();
    let answer = client.get_sa_counters(v1::GetSaCountersRequest {}).await?;
    let counters = answer.into_inner().counters.unwrap_or_default();
    let latencies = counters.latencies.unwrap_or_default();
    let text = match sa::quantile(&latencies, 0.99) {
        _ if latencies.count == 0 => "no host has asked yet".to_owned(),
        Some(bound) => format!(
            "99 % of {} within {}; {} told BUSY",
            count(latencies.count, "answer", "answers"),
            nanoseconds(bound),
            counters.busy
        ),
        None => "more than 1 % of the answers took longer than is told apart".to_owned(),
    };
    Ok(statement("sa", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(leaf: &str, spine: &str, speed: v1::LinkSpeed) -> v1::Link {
        let end = |node: &str| {
            Some(v1::LinkEnd {
                port: Some(v1::PortKey {
                    node_guid: node.to_owned(),
                    number: 1,
                }),
                description: node.to_owned(),
                ..v1::LinkEnd::default()
            })
        };
        v1::Link {
            a: end(leaf),
            b: end(spine),
            state: v1::PortState::Active.into(),
            width: v1::LinkWidth::LinkWidth4x.into(),
            speed: speed.into(),
            ..v1::Link::default()
        }
    }

    #[test]
    fn a_slow_link_is_shown_with_the_better_rates_of_its_siblings_and_ends() {
        let (speed, ndr) = (v1::LinkSpeed::Hdr, v1::LinkSpeed::Ndr.into());
        let below = |leaf, spine, slow| v1::Link {
            slow: Some(slow),
            ..link(leaf, spine, speed)
        };
        let ends = v1::SlowLink {
            width: v1::LinkWidth::LinkWidth4x.into(),
            speed: ndr,
            siblings_mbps: 0,
        };
        let siblings = v1::SlowLink {
            siblings_mbps: 400_000,
            ..v1::SlowLink::default()
        };
        let both = v1::SlowLink {
            siblings_mbps: 400_000,
            ..ends
        };
        let links = [
            below("host", "leaf", ends),
            below("leaf", "spine", siblings),
            below("leaf", "spine", both),
        ];
        let texts = slow_links(&links, 9);
        let texts = texts
            .iter()
            .map(|slow| format!("{}: {}", slow.place, slow.text));
        let siblings = "most of its siblings carry 400 Gb/s";
        let ends = "both ends could have 4x ndr";
        let advice = "cable, optics or port settings";
        let expected = [
            format!("host:1 - leaf:1: 4x hdr, while {ends}: {advice}"),
            format!("leaf:1 - spine:1: 4x hdr, while {siblings}: {advice}"),
            format!("leaf:1 - spine:1: 4x hdr, while {siblings} and {ends}: {advice}"),
        ];
        assert_eq!(texts.collect::<Vec<_>>(), expected);
        assert!(slow_links(&[], 9)[0].text.starts_with("none of 9 links"));
        assert_eq!(slow_links(&[], 0)[0].text, "there is no link");
    }

    #[test]
    fn waits_are_not_known_if_no_port_counts_them() {
        assert!(no_wait(0).text.starts_with("not known"));
        let text = no_wait(2).text;
        assert!(text.ends_with("at each of 2 ports that count it"), "{text}");
    }

    #[test]
    fn ports_that_discard_now_are_named_with_their_receivers() {
        let port = |host: &str, per_hour| v1::PortCounters {
            port: Some(v1::PortKey {
                node_guid: "leaf".to_owned(),
                number: 3,
            }),
            description: "leaf-161".to_owned(),
            peer: Some(v1::PortKey {
                node_guid: host.to_owned(),
                number: 1,
            }),
            peer_description: host.to_owned(),
            errors: vec![v1::ErrorCounter {
                name: DISCARDS.to_owned(),
                per_hour,
                ..v1::ErrorCounter::default()
            }],
            ..v1::PortCounters::default()
        };
        let found = discards(&[
            port("host-1", 0.0),
            port("host-2", 90.0),
            port("host-3", 7200.0),
        ]);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].kind, &*found[0].place),
            ("discards", "leaf-161:3")
        );
        assert!(
            found[0]
                .text
                .starts_with("7,200 packets an hour for host-3:1"),
            "{found:?}"
        );
    }

    #[test]
    fn the_longest_stage_of_the_slowest_convergence_is_named() {
        let convergence = |plan, push, total| v1::Convergence {
            timing_ms: Some(v1::Timing {
                discover: 1.0,
                plan,
                push,
                total,
            }),
            cause: "start".to_owned(),
            ..v1::Convergence::default()
        };
        let slow = slowest_stage(&[convergence(9.0, 1.0, 11.0), convergence(2.0, 30.0, 33.0)]);
        assert_eq!(slow.place, "push");
        assert!(slow.text.contains("30.0 ms of 33.0 ms"), "{slow:?}");
        assert_eq!(slowest_stage(&[]).place, "");
    }

    #[test]
    fn waits_name_the_receiver_where_they_begin_and_the_ports_that_wait_because_of_it() {
        let key = |node: &str, number| v1::PortKey {
            node_guid: node.to_owned(),
            number,
        };
        let port = |name: &str, number: u32, peer: &str, peer_port: u32| v1::PortCounters {
            port: Some(key(name, number)),
            description: name.to_owned(),
            peer: Some(key(peer, peer_port)),
            peer_description: peer.to_owned(),
            ..v1::PortCounters::default()
        };
        let leaf = port("leaf-1", 2, "host-7", 1);
        let spine = port("spine-1", 5, "leaf-1", 33);
        let rows = waits(&[(0.95, &leaf), (0.6, &spine)]);
        assert!(
            rows[0]
                .text
                .contains("95 % of the time for host-7:1: begin there"),
            "{rows:?}"
        );
        assert!(
            rows[1].text.contains("for leaf-1:33, whose own data waits"),
            "{rows:?}"
        );
    }
}
