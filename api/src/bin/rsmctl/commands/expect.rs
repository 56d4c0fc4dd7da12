use std::cmp::Reverse;
use std::collections::HashMap;

use clap::Args;
use rsm_proto::v1;

use super::confirm;
use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{NONE, count, host_name, label, or_none};
use crate::time::minute;

/// Lists nodes and cables that the subnet manager misses, or accepts that they are gone for good
#[derive(Debug, Args)]
#[command(
    after_help = "The first line counts what is missing. A switch stands for its cables and the hosts behind it, and\na host for its adapters; --all lists each by itself.\n\n--accept-all and --accept-exchanged list what they would accept, and ask. Exchanged cables are reported until they are\nback: accept them only if they are to stay where they are, for then rsm takes the cabling of today for the right one.\n\nExamples:\n  rsmctl expect\n  rsmctl expect --all | grep su-04-leaf-02\n  rsmctl expect --accept leaf-03:7\n  rsmctl expect --accept-all"
)]
pub(crate) struct ExpectArguments {
    /// Accept that this node, or the cable at this port, is gone for good; a port of an exchanged
    /// cable accepts the exchange
    #[arg(add = of_nodes(), long, value_name = "NODE|NODE:PORT")]
    accept: Option<String>,
    /// Accept that all missing nodes and cables are gone for good; not the exchanged cables
    #[arg(long, conflicts_with = "accept")]
    accept_all: bool,
    /// Accept all exchanged cables where they are now
    #[arg(long, conflicts_with_all = ["accept", "accept_all"])]
    accept_exchanged: bool,
    /// Accept all without a question
    #[arg(long)]
    yes: bool,
    /// Each missing node and cable by itself
    #[arg(long, conflicts_with_all = ["accept", "accept_all", "accept_exchanged"])]
    all: bool,
}

impl ExpectArguments {
    /// Whether the command changes something.
    pub(super) fn acts(&self) -> bool {
        self.accept_all || self.accept_exchanged || self.accept.is_some()
    }
}

pub(crate) async fn run(arguments: ExpectArguments, session: &mut Session) -> Result<(), Failure> {
    if arguments.acts() {
        return accept(arguments, session).await;
    }
    let missing = missing(arguments.all, session).await?;
    if session.output.is_json() {
        return session.output.json_list(missing);
    }
    let counts = counts(session).await?;
    let rows = match arguments.all {
        true => missing.into_iter().map(|one| vec![one]).collect(),
        false => folded(missing),
    };
    session.output.line(&match counts.summary {
        none if none.is_empty() && rows.is_empty() => "nothing is missing".to_owned(),
        none if none.is_empty() => "missing:".to_owned(),
        counts if arguments.all => counts,
        counts => format!("{counts}; --all lists each by itself"),
    })?;
    if rows.is_empty() {
        // There is nothing to sort or to limit.
        session.output.takes_limit();
        return Ok(());
    }
    session.output.only_table(table(&rows))
}

async fn missing(each: bool, session: &Session) -> Result<Vec<v1::Missing>, Failure> {
    let request = v1::ListMissingRequest {
        each,
        ..v1::ListMissingRequest::default()
    };
    let pages = all_pages(request, async |request| {
        session.fabric().list_missing(request).await
    });
    pages.await
}

async fn counts(session: &Session) -> Result<v1::MissingParts, Failure> {
    let request = v1::GetStatusRequest {};
    let answer = session.fabric().get_status(request).await?;
    let status = answer.into_inner().status.unwrap_or_default();
    Ok(status.missing.unwrap_or_default())
}

async fn accept(arguments: ExpectArguments, session: &mut Session) -> Result<(), Failure> {
    if arguments.accept.is_none() && !arguments.yes {
        ask(arguments.accept_exchanged, session).await?;
    }
    let request = v1::AcceptMissingRequest {
        name: arguments.accept.unwrap_or_default(),
        all: arguments.accept_all,
        exchanged: arguments.accept_exchanged,
    };
    let answer = session.convergence().accept_missing(request).await?;
    let answer = answer.into_inner();
    if session.output.is_json() {
        return session.output.json(&answer);
    }
    let parts = answer.parts.map(|parts| parts.listed());
    let parts = parts.unwrap_or_else(|| count(answer.accepted, "part", "parts"));
    session.output.line(&format!("accepted: {parts}"))
}

/// Lists the parts that would be accepted, and asks the operator.
///
/// # Errors
/// There is nothing to accept, no terminal to ask at, or the operator declines.
async fn ask(is_exchanged: bool, session: &mut Session) -> Result<(), Failure> {
    let counts = counts(session).await?;
    let (parts, effect) = match is_exchanged {
        true => (
            counts.exchanged(),
            "would be expected where they are now, and be right from now on",
        ),
        false => (
            counts.gone(),
            "would be given up: no finding is left about them",
        ),
    };
    let mut missing = missing(false, session).await?;
    missing.retain(|one| (one.kind() == v1::MissingKind::Exchanged) == is_exchanged);
    if missing.is_empty() {
        return Err(Failure::Refused("nothing is there to accept".to_owned()));
    }
    if !session.output.is_json() {
        session.output.only_table(table(&folded(missing)))?;
        session.output.flush()?;
    }
    confirm::by_operator(&format!("{} {effect}", parts.listed()))
}

/// Missing parts as rows, in the order of an operator's interest: switches, exchanged cables,
/// cables, then hosts; within a kind, the part that disappeared last comes first. Adapters of one
/// host that disappeared within a minute are one row.
fn folded(missing: Vec<v1::Missing>) -> Vec<Vec<v1::Missing>> {
    let mut rows: Vec<Vec<v1::Missing>> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for one in missing {
        if one.kind() != v1::MissingKind::Host {
            rows.push(vec![one]);
            continue;
        }
        let host = host_name(&one.name).to_owned();
        match known.get(&host) {
            Some(&at) if lost_together(&rows[at][0], &one) => rows[at].push(one),
            _ => {
                known.insert(host, rows.len());
                rows.push(vec![one]);
            }
        }
    }
    rows.sort_by_key(|row| (rank(row[0].kind()), Reverse(row[0].lost_unix_ms)));
    rows
}

/// Whether two adapters disappeared within a minute, or both at times that are not known.
fn lost_together(one: &v1::Missing, other: &v1::Missing) -> bool {
    match (one.lost_unix_ms, other.lost_unix_ms) {
        (Some(one), Some(other)) => one.abs_diff(other) < 60_000,
        (one, other) => one == other,
    }
}

fn rank(kind: v1::MissingKind) -> u8 {
    match kind {
        v1::MissingKind::Switch => 0,
        v1::MissingKind::Exchanged => 1,
        v1::MissingKind::Cable => 2,
        v1::MissingKind::HostCable => 3,
        v1::MissingKind::Host | v1::MissingKind::Unspecified => 4,
    }
}

fn since(missing: &v1::Missing) -> String {
    missing.lost_unix_ms.map_or_else(|| NONE.to_owned(), minute)
}

/// The table with a row for each element of `rows`; no element is empty.
fn table(rows: &[Vec<v1::Missing>]) -> Rows {
    let mut table = Rows::new(&[
        "SINCE", "KIND", "NAME", "WAS AT", "SEEN NOW", "+>CABLES", "+>HOSTS", "+LEFT", "+>MOVED",
        "+STATE", "+AT",
    ]);
    for row in rows {
        let first = &row[0];
        let at = match first.port {
            Some(port) => format!("{}:{port}", first.node_guid),
            None => first.node_guid.clone(),
        };
        let more = match row.len() - 1 {
            0 => String::new(),
            more => format!(" +{more}"),
        };
        let name = match row.len() {
            1 => first.name.clone(),
            adapters => format!("{} ({adapters} adapters)", host_name(&first.name)),
        };
        // The observations about the adapters of a host, each once.
        let mut seen: Vec<&str> = Vec::new();
        for one in row.iter().filter(|one| !one.seen.is_empty()) {
            if !seen.contains(&one.seen.as_str()) {
                seen.push(&one.seen);
            }
        }
        let sum = |number: fn(&v1::Missing) -> u64| row.iter().map(number).sum::<u64>();
        let moved = row.iter().filter_map(|one| one.moved_routes).max();
        table.add([
            since(first),
            label::<v1::MissingKind>(first.kind),
            name,
            short(&first.place) + &more,
            or_none(&seen.join("; ")),
            sum(|one| one.cables).to_string(),
            sum(|one| one.hosts_behind).to_string(),
            or_none(&first.left),
            moved.map_or_else(|| NONE.to_owned(), |moved| moved.to_string()),
            label::<v1::PortState>(first.last_state),
            at,
        ]);
    }
    table
}

/// Shortens a place: `spine-01:51 +31` for `spine-01:51 and 31 more`.
fn short(place: &str) -> String {
    let parts = place
        .strip_suffix(" more")
        .and_then(|place| place.rsplit_once(" and "));
    match parts {
        Some((first, more)) => format!("{first} +{more}"),
        None => place.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(kind: v1::MissingKind, name: &str, minute: u64) -> v1::Missing {
        v1::Missing {
            kind: kind.into(),
            name: name.to_owned(),
            place: "MF0;su-03-leaf-01:MQM9700/U1:13".to_owned(),
            lost_unix_ms: Some(minute * 60_000),
            seen: "no signal: no power, or cable out".to_owned(),
            left: "of its neighbours su-01-leaf-01 has the fewest links left, 29 of 32".to_owned(),
            ..v1::Missing::default()
        }
    }

    #[test]
    fn adapters_lost_within_a_minute_are_one_row_and_switches_come_first() {
        use v1::MissingKind as Kind;
        let rows = folded(vec![
            missing(Kind::Host, "host-001 mlx5_0", 1),
            missing(Kind::Host, "host-001 mlx5_1", 1),
            missing(Kind::Host, "host-001 mlx5_2", 2),
            missing(Kind::Cable, "leaf-1", 1),
            missing(Kind::Switch, "spine-1", 1),
            missing(Kind::Switch, "spine-2", 2),
        ]);
        let names = rows.iter().map(|row| (row[0].name.as_str(), row.len()));
        let expected = [
            ("spine-2", 1),
            ("spine-1", 1),
            ("leaf-1", 1),
            ("host-001 mlx5_2", 1),
            ("host-001 mlx5_0", 2),
        ];
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_table_of_80_columns_shows_what_is_seen_now() {
        let row = vec![missing(v1::MissingKind::Host, "host-077 mlx5_0", 1); 8];
        let laid_out = table(&[row]).laid_out(80);
        let text = laid_out.lines.join("\n");
        assert!(laid_out.lines.iter().all(|line| line.len() <= 80), "{text}");
        for part in ["SEEN NOW", "no signal:", "(8 adapters)", ":13 +7"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(laid_out.left_out.iter().any(|heading| heading == "LEFT"));
        assert_eq!(short("spine-01:51 and 31 more"), "spine-01:51 +31");
    }
}
