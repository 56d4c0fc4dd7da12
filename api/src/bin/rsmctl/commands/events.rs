use clap::Args;
use rsm_proto::v1::event::Change;
use rsm_proto::{Label as _, v1};

use super::watch;
use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::output::Output;
use crate::session::{Session, all_pages};
use crate::text::{
    count, label, label_parser, lid, milliseconds, or_none, plain_names, port_of, printable, rate,
    timestamp,
};
use crate::time;

/// The latest events
#[derive(Debug, Args)]
#[command(
    after_help = "With --format json, one object a line.\n\nExamples:\n  rsmctl events --since 22:00 --kind finding\n  rsmctl events --newest 20\n  rsmctl events --follow"
)]
pub(crate) struct EventsArguments {
    /// Only the newest N; all kept events if not given
    #[arg(short, long, value_name = "N")]
    newest: Option<usize>,
    /// Only events after the event with this sequence number
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    after: u64,
    /// Continue with new events, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Only events since this time: 22:00, yesterday, 2h, 2026-11-24, '2026-11-24 22:00', RFC 3339;
    /// as with --until, --node, --cause and --kind, from the history on the disk
    #[arg(long, value_name = "TIME", conflicts_with_all = ["after", "follow"])]
    since: Option<String>,
    /// Only events before this time
    #[arg(long, value_name = "TIME", conflicts_with_all = ["after", "follow"])]
    until: Option<String>,
    /// Only events about nodes with this text in their description, or this GUID; with a port's
    /// number behind a colon, of that port
    #[arg(long, add = of_nodes(), value_name = "NODE|NODE:PORT", conflicts_with_all = ["after", "follow"])]
    node: Option<String>,
    /// Only events with this text in their cause, reason, message or kind of finding
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["after", "follow"])]
    cause: Option<String>,
    /// Only events of this kind
    #[arg(long, value_parser = label_parser::<v1::EventKind>(), conflicts_with_all = ["after", "follow"])]
    kind: Option<i32>,
}

pub(crate) async fn run(arguments: EventsArguments, session: &mut Session) -> Result<(), Failure> {
    let mut events = all_pages(
        v1::ListEventsRequest {
            after_sequence: arguments.after,
            since_unix_ms: time::parse_optional(arguments.since.as_deref())?,
            until_unix_ms: time::parse_optional(arguments.until.as_deref())?,
            node: arguments.node.unwrap_or_default(),
            cause: arguments.cause.unwrap_or_default(),
            kind: arguments.kind.unwrap_or_default(),
            ..Default::default()
        },
        async |request| session.watch().list_events(request).await,
    )
    .await?;
    let last = events
        .last()
        .map_or(arguments.after, |event| event.sequence);
    if let Some(newest) = arguments.newest {
        events.drain(..events.len().saturating_sub(newest));
    }
    if arguments.follow {
        session.output.stream()?;
    }
    for event in &events {
        print(&mut session.output, event)?;
    }
    if events.is_empty() && !arguments.follow && !session.output.is_json() {
        session.output.note("no such events")?;
    }
    if arguments.follow {
        session.output.flush()?;
        return watch::stream(session, Some(last)).await;
    }
    Ok(())
}

/// Prints one event on one line.
pub(super) fn print(output: &mut Output, event: &v1::Event) -> Result<(), Failure> {
    if output.is_json() {
        return output.json_line(event);
    }
    let (name, what) = describe(event.change.as_ref());
    let manager = match event.manager.as_str() {
        "" => String::new(),
        other => format!(" (manager {})", printable(other)),
    };
    let line = format!(
        "{}  gen {}  {name:<20}  {}{manager}",
        timestamp(event.at_unix_ms),
        event.generation,
        plain_names(&printable(&what))
    );
    output.line(line.trim_end())
}

/// The name of a change, and its details.
fn describe(change: Option<&Change>) -> (&'static str, String) {
    match change {
        Some(Change::StateChanged(to)) => {
            let state = label::<v1::SubnetState>(to.state);
            ("state changed", format!("{state}: {}", or_none(&to.reason)))
        }
        Some(Change::NodeAppeared(it)) => ("node appeared", node(it)),
        Some(Change::NodeVanished(it)) => ("node vanished", node(it)),
        Some(Change::NodeChanged(it)) => ("node changed", node(it)),
        Some(Change::PortAppeared(it)) => ("port appeared", port(it)),
        Some(Change::PortVanished(it)) => ("port vanished", port(it)),
        Some(Change::PortChanged(it)) => ("port changed", port(it)),
        Some(Change::LinkAppeared(it)) => ("link appeared", link(it)),
        Some(Change::LinkVanished(it)) => ("link vanished", link(it)),
        Some(Change::LinkChanged(it)) => ("link changed", link(it)),
        Some(Change::RoutesChanged(it)) => (
            "routes changed",
            format!(
                "{} in {} of {}",
                count(it.entries, "entry", "entries"),
                count(it.blocks.into(), "block", "blocks"),
                count(it.switches.into(), "switch", "switches")
            ),
        ),
        Some(Change::FindingRaised(it)) => ("finding raised", finding(it)),
        Some(Change::FindingCleared(it)) => ("finding cleared", finding(it)),
        Some(Change::ConvergenceFinished(it)) => ("convergence finished", convergence(it)),
        Some(Change::ManagerStarted(it)) => (
            "manager started",
            format!("rsm {} on {}", it.version, it.fabric),
        ),
        Some(Change::OperatorActed(it)) => ("operator", it.sentence()),
        Some(Change::EventsUnrecorded(it)) => (
            "events lost",
            match it.count {
                0 => it.reason.clone(),
                lost => format!("{}: {}", count(lost, "event", "events"), it.reason),
            },
        ),
        None => (
            "unknown",
            "an event that this rsmctl does not know".to_owned(),
        ),
    }
}

fn node(node: &v1::Node) -> String {
    let kind = label::<v1::NodeKind>(node.kind);
    let avoidance = avoidance(node.avoidance);
    format!("{kind} {} {}{avoidance}", node.guid, node.description)
}

fn port(port: &v1::Port) -> String {
    format!(
        "{} {}, LID {}",
        port_of(&port.node_description, port.key.as_ref()),
        label::<v1::PortState>(port.state),
        lid(port.lid)
    )
}

fn link(link: &v1::Link) -> String {
    let end = |end: Option<&v1::LinkEnd>| {
        end.map_or_else(String::new, |end| {
            port_of(&end.description, end.port.as_ref())
        })
    };
    format!(
        "{} - {} {}, {}",
        end(link.a.as_ref()),
        end(link.b.as_ref()),
        label::<v1::PortState>(link.state),
        rate(link.width, link.speed)
    ) + &avoidance(link.avoidance)
}

/// The remark `, drained` about a part; empty if routes use the part.
fn avoidance(avoidance: i32) -> String {
    let label = v1::Avoidance::label(avoidance);
    label.map_or_else(String::new, |label| format!(", {label}"))
}

fn finding(finding: &v1::Finding) -> String {
    let severity = label::<v1::Severity>(finding.severity);
    format!("{severity} {}: {}", finding.kind, finding.message)
}

fn convergence(convergence: &v1::Convergence) -> String {
    let smps = convergence.smps.unwrap_or_default();
    format!(
        "{}: {} ms, {}, {}, {}",
        convergence.cause,
        milliseconds(convergence.timing_ms.unwrap_or_default().total),
        count(smps.get, "Get", "Gets"),
        count(smps.set, "Set", "Sets"),
        count(convergence.lft_blocks, "LFT block", "LFT blocks")
    )
}
