use std::time::Duration;

use clap::Args;
use rsm_api::together::{
    DISCARDS, Offender, RELAY_ERRORS, has_only_discards, has_only_relay_errors, offenders,
};
use rsm_proto::{thousands, v1};

use super::counters::errors;
use super::series;
use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, next_message};
use crate::table::Rows;
use crate::text::{NONE, count, label_parser, per_second, port_of};
use crate::time::{self, timestamp};

/// The number of ports in a table without `--limit`: a screenful.
const DEFAULT_ROWS: u32 = 20;

/// The busiest ports now, or those with the most errors
#[derive(Debug, Args)]
#[command(
    after_help = "USE is the busier direction as a share of the rate of the link; WAIT the share of the time in which\ndata waited without being sent: congestion.\n\nOf --errors, ports whose links went down with one node, and that count nothing else, are one row:\n--all shows each of them. Discarded packets (PortXmitDiscards: congestion, or a slow receiver) are\nno error of a cable: ports that count errors now come first, then those that discard now, then those\nwhose errors have ended (0 an hour). Packets with no way on from a switch (PortRcvSwitchRelayErrors),\nno error of a cable either, are the last row. CLASS is `host` or `switches`, the ends of the link.\n\nWith --since, the ports that counted the most errors in a span of the past that rsm keeps on its\ndisk; with --by traffic or --by wait the most of that.\n\nExamples:\n  rsmctl top\n  rsmctl top --errors --limit 50\n  rsmctl top --since yesterday\n  rsmctl top leaf-03 --by wait --follow 2"
)]
pub(crate) struct TopArguments {
    /// Only the ports of this node, or only this port
    #[arg(add = of_nodes(), value_name = "NODE|NODE:PORT")]
    part: Option<String>,
    /// Ports with errors, those with the most errors in an hour first
    #[arg(long, conflicts_with = "by")]
    errors: bool,
    /// With --errors each port by itself, also where its link went down with a node
    #[arg(long, requires = "errors", conflicts_with = "since")]
    all: bool,
    /// The order
    #[arg(long, value_name = "ORDER", value_parser = label_parser::<v1::PortOrder>())]
    by: Option<i32>,
    /// Again every so many seconds, in place on a terminal, until interrupted; with --format json an object a line
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    follow: Option<Duration>,
    /// Over the past since this time: 22:00, yesterday, 2h, 2026-11-24, '2026-11-24 22:00', RFC 3339
    #[arg(long, value_name = "TIME", conflicts_with = "follow")]
    since: Option<String>,
    /// Over the past before this time
    #[arg(long, value_name = "TIME", requires = "since")]
    until: Option<String>,
}

/// Parses the interval between two tables.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.2..=3600.0).contains(seconds));
    let seconds = seconds.ok_or("expected a number of seconds from 0.2 to 3600")?;
    Ok(Duration::from_secs_f64(seconds))
}

pub(crate) async fn run(arguments: TopArguments, session: &mut Session) -> Result<(), Failure> {
    let order = match arguments.errors {
        true => Some(v1::PortOrder::Errors.into()),
        false => arguments.by,
    };
    let limit = session.output.limit().map_or(DEFAULT_ROWS, |limit| {
        // The server has a limit of its own, far below this limit.
        u32::try_from(limit).unwrap_or(u32::MAX).max(1)
    });
    if let Some(since) = &arguments.since {
        let request = v1::GetTopPortsSinceRequest {
            order: order.unwrap_or(v1::PortOrder::Errors.into()),
            limit,
            part: arguments.part.unwrap_or_default(),
            since_unix_ms: time::parse(since).map_err(Failure::Usage)?,
            until_unix_ms: time::parse_optional(arguments.until.as_deref())?,
        };
        return series::top(request, session).await;
    }
    let order = order.unwrap_or(v1::PortOrder::Use.into());
    let folds = arguments.errors && !arguments.all && !session.output.is_json();
    let question = v1::GetTopPortsRequest {
        order,
        // A row may stand for many ports, so as many ports are requested as the server gives.
        limit: if folds { u32::MAX } else { limit },
        part: arguments.part.unwrap_or_default(),
    };
    let options = TableOptions {
        is_of_errors: order == i32::from(v1::PortOrder::Errors),
        folds,
        rows: usize::try_from(limit).unwrap_or(usize::MAX),
    };
    match arguments.follow {
        None => {
            let answer = session.counters().get_top_ports(question).await?;
            show(session, answer.into_inner(), options)
        }
        Some(every) => follow(session, question, every, options).await,
    }
}

/// The shape of the table.
#[derive(Clone, Copy)]
struct TableOptions {
    /// Whether the columns of errors come before the columns of traffic.
    is_of_errors: bool,
    /// Whether ports whose links went down with one node are one row.
    folds: bool,
    /// The maximum number of rows.
    rows: usize,
}

/// Prints answers until the server ends the stream or the operator interrupts.
async fn follow(
    session: &mut Session,
    question: v1::GetTopPortsRequest,
    every: Duration,
    options: TableOptions,
) -> Result<(), Failure> {
    let request = v1::WatchTopPortsRequest {
        top: Some(question),
        // The interval is at most an hour.
        interval_ms: every.as_millis() as u32,
    };
    let mut stream = session
        .counters()
        .watch_top_ports(request)
        .await?
        .into_inner();
    while let Some(message) = next_message(&mut stream).await? {
        let top = message.top.unwrap_or_default();
        if session.output.is_json() {
            session.output.limited_by_server();
            session.output.json_line(&top)?;
        } else {
            session.output.picture()?;
            show(session, top, options)?;
            session.output.line("")?;
            session.output.flush()?;
        }
    }
    Ok(())
}

fn show(
    session: &mut Session,
    top: v1::GetTopPortsResponse,
    options: TableOptions,
) -> Result<(), Failure> {
    if session.output.is_json() {
        session.output.limited_by_server();
        return session.output.json(&top);
    }
    let is_folded = |port: &v1::PortCounters| options.folds && has_only_relay_errors(port);
    let (mut relay, own): (Vec<_>, Vec<_>) = top.ports.into_iter().partition(is_folded);
    let mut ports: Vec<Offender> = match options.folds {
        true => offenders(own),
        false => own.into_iter().map(Offender::single).collect(),
    };
    if options.is_of_errors {
        ports.sort_by_key(|one| one.ports.iter().map(urgency).min());
    }
    let ports_before = ports.len() + usize::from(!relay.is_empty());
    if ports.len() >= options.rows {
        relay.clear();
    }
    ports.truncate(options.rows);
    let shown: usize = ports.iter().map(|one| one.ports.len()).sum();
    let shown = shown + relay.len();
    let is_cut = ports_before > ports.len() + usize::from(!relay.is_empty());
    session.output.only_table(match options.is_of_errors {
        true => errors_table(&ports, &relay),
        false => traffic_table(&ports),
    })?;
    let mut note = format!(
        "{}: {shown} of {}{}",
        timestamp(top.at_unix_ms),
        count(top.total, "port", "ports"),
        if options.is_of_errors {
            " with errors"
        } else {
            ""
        }
    );
    if is_cut || (!options.folds && shown < top.total as usize) {
        note += "; `--limit` shows more";
    }
    if top.stale > 0 {
        note += &format!(
            "; {} left out, not read for long: a link is down, or an agent silent",
            top.stale
        );
    }
    session.output.line(&note)
}

/// The place of a port in the table of errors: ports that count errors of a cable now, ports that
/// discard packets now, ports whose errors have ended, and ports whose discards have ended.
fn urgency(port: &v1::PortCounters) -> u8 {
    let is_of_cable = |error: &v1::ErrorCounter| ![DISCARDS, RELAY_ERRORS].contains(&&*error.name);
    let mut now = port.errors.iter().filter(|error| error.per_hour > 0.0);
    match (
        now.clone().any(is_of_cable),
        now.any(|error| error.name == DISCARDS),
    ) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2 + u8::from(has_only_discards(port)),
    }
}

/// The table of errors. `relay` are ports that only count packets which a switch could not relay;
/// they are the last row.
fn errors_table(ports: &[Offender], relay: &[v1::PortCounters]) -> Rows {
    let mut rows = Rows::new(&[
        "PORT",
        "PEER",
        "CLASS",
        ">ERRORS/H",
        "ERRORS",
        "+>SENT_B/S",
        "+>RCVD_B/S",
        "+>USE",
        "+>WAIT",
    ]);
    for Offender { with, ports } in ports {
        let Some(first) = ports.first() else { continue };
        let [name, peer, note] = match with {
            None => {
                let note = match has_only_discards(first) || urgency(first) == 1 {
                    true => ": congestion or a slow receiver, no cable error",
                    false => "",
                };
                [port_name(first), peer_name(first), note.to_owned()]
            }
            Some(node) => [
                node.clone(),
                format!("{} links", ports.len()),
                " at each: they went with it".to_owned(),
            ],
        };
        rows.add([
            name,
            peer,
            class(first),
            thousands(first.errors_per_hour.round() as u64),
            errors(first) + &note,
            per_second(first.xmit_bytes_per_s),
            per_second(first.rcv_bytes_per_s),
            share(first.use_share),
            share(first.wait_share),
        ]);
    }
    if let Some(first) = relay.first() {
        let packets = relay.iter().flat_map(|port| &port.errors);
        let packets: u64 = packets.map(|error| error.total).sum();
        let none = || NONE.to_owned();
        let (name, peer) = match relay {
            [_] => (port_name(first), peer_name(first)),
            many => (format!("{} ports", many.len()), none()),
        };
        let errors = format!(
            "{RELAY_ERRORS}={packets}: packets with no way on from a switch, as while routes \
             change; no cable error"
        );
        let class = match relay {
            [one] => class(one),
            _ => none(),
        };
        let row = [
            name,
            peer,
            class,
            none(),
            errors,
            none(),
            none(),
            none(),
            none(),
        ];
        rows.add(row);
    }
    rows
}

/// The class of a port's link: `host`, or `switches` between two of them.
fn class(port: &v1::PortCounters) -> String {
    use v1::NodeKind::{Switch, Unspecified};
    let class = match (port.kind(), port.peer_kind()) {
        (Unspecified, _) | (Switch, Unspecified) => NONE,
        (Switch, Switch) => "switches",
        _ => "host",
    };
    class.to_owned()
}

fn traffic_table(ports: &[Offender]) -> Rows {
    let mut rows = Rows::new(&[
        "PORT",
        "PEER",
        ">SENT_B/S",
        ">RCVD_B/S",
        ">USE",
        ">WAIT",
        "+>ERRORS/H",
        "+ERRORS",
    ]);
    for port in ports.iter().flat_map(|one| &one.ports) {
        rows.add([
            port_name(port),
            peer_name(port),
            per_second(port.xmit_bytes_per_s),
            per_second(port.rcv_bytes_per_s),
            share(port.use_share),
            share(port.wait_share),
            thousands(port.errors_per_hour.round() as u64),
            errors(port),
        ]);
    }
    rows
}

fn port_name(port: &v1::PortCounters) -> String {
    port_of(&port.description, port.port.as_ref())
}

fn peer_name(port: &v1::PortCounters) -> String {
    port_of(&port.peer_description, port.peer.as_ref())
}

/// A share as a percentage.
fn share(share: Option<f64>) -> String {
    share.map_or_else(|| NONE.to_owned(), |share| format!("{:.1}%", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_out_of_range_are_refused() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0", "-1", "nan", "3601", "x", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn errors_and_discards_of_now_come_before_errors_that_have_ended() {
        let port = |errors: &[(&str, f64)]| {
            let errors = errors.iter().map(|&(name, per_hour)| v1::ErrorCounter {
                name: name.to_owned(),
                total: 9,
                per_hour,
                ..v1::ErrorCounter::default()
            });
            v1::PortCounters {
                errors: errors.collect(),
                ..v1::PortCounters::default()
            }
        };
        let discards_now = port(&[("LinkDownedCounter", 0.0), (DISCARDS, 7200.0)]);
        let ports = [
            port(&[("SymbolErrorCounter", 70.0), (DISCARDS, 1.0)]),
            discards_now,
            port(&[("LinkDownedCounter", 0.0)]),
            port(&[(DISCARDS, 0.0)]),
        ];
        assert_eq!(ports.each_ref().map(urgency), [0, 1, 2, 3]);
    }

    #[test]
    fn ports_whose_links_went_down_with_a_switch_are_one_row_and_relay_errors_the_last() {
        let port = |node: &str, number: u32, error: &str, total: u64| v1::PortCounters {
            port: Some(v1::PortKey {
                node_guid: node.to_owned(),
                number,
            }),
            description: format!("MF0;{node}:MQM9700/U1"),
            peer: Some(v1::PortKey {
                node_guid: "spine-9".to_owned(),
                number,
            }),
            peer_description: "MF0;spine-9:MQM9700/U1".to_owned(),
            errors: vec![v1::ErrorCounter {
                name: error.to_owned(),
                total,
                ..v1::ErrorCounter::default()
            }],
            ..v1::PortCounters::default()
        };
        let mut ports = vec![port("leaf-1", 40, "SymbolErrorCounter", 500)];
        ports.extend((1..=64).map(|number| port("leaf-2", number, "LinkDownedCounter", 1)));
        let relay = [1, 2].map(|number| port("spine-1", number, RELAY_ERRORS, 70));
        ports[0].kind = v1::NodeKind::Switch.into();
        ports[0].peer_kind = v1::NodeKind::Switch.into();
        let mut slow = port("leaf-3", 1, "PortXmitDiscards", 9);
        slow.kind = v1::NodeKind::Switch.into();
        slow.peer_kind = v1::NodeKind::Ca.into();
        ports.push(slow);
        let laid_out = errors_table(&offenders(ports), &relay).laid_out(80);
        let text = laid_out.lines.join("\n");
        assert!(
            laid_out.lines.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(laid_out.lines.len() < 18, "{text}");
        let last = laid_out
            .lines
            .iter()
            .rposition(|line| line.starts_with("2 ports"));
        let last = laid_out.lines[last.unwrap()..].join(" ");
        assert!(last.contains("=140:"), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["congestion or", "switches", "CLASS"] {
            assert!(words.contains(part), "{part}: {text}");
        }
        for part in ["PEER", "leaf-1:40", "spine-9:40", "64 links", "leaf-2"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
