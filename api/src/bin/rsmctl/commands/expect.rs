use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use clap::Args;
use rsm_proto::v1;

use super::confirm;
use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{NONE, count, host_name, label, or_none, plain_names, printable, wrapped};
use crate::time::minute;

/// The maximum number of plugs in wrong ports that are listed; `rsmctl design` has all.
const MAX_ELSEWHERE: usize = 8;

/// Lists nodes and cables that the subnet manager misses, or accepts that they are gone for good
#[derive(Debug, Args)]
#[command(
    after_help = "The first line counts what is missing. A switch stands for its cables and the hosts behind it, and\na host for its adapters; --all lists each by itself. Before the subnet is up, what is missing is not\nknown: the exit code is 1.\n\n--accept-all and --accept-exchanged list what they would accept, and ask. Exchanged cables are reported until they are\nback: accept them only if they are to stay where they are, for then rsm takes the cabling of today for the right one.\n\nExamples:\n  rsmctl expect\n  rsmctl expect --all | grep su-04-leaf-02\n  rsmctl expect --accept leaf-03:7\n  rsmctl expect --accept-all"
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
    pub(super) fn makes_changes(&self) -> bool {
        self.accept_all || self.accept_exchanged || self.accept.is_some()
    }
}

pub(crate) async fn run(arguments: ExpectArguments, session: &mut Session) -> Result<(), Failure> {
    if arguments.makes_changes() {
        return accept(arguments, session).await;
    }
    let missing = missing(arguments.all, session).await?;
    let status = status(session).await?;
    let state = status.state();
    let known = check_known(state, missing.is_empty());
    if session.output.is_json() {
        session.output.json_list(missing)?;
        return known;
    }
    let hosts = match missing.iter().any(|one| one.hosts_behind > 0) {
        true => hosts_at(&self::missing(true, session).await?),
        false => HashMap::new(),
    };
    let rows: Vec<Vec<v1::Missing>> = match arguments.all {
        true => missing.into_iter().map(|one| vec![one]).collect(),
        false => folded(missing),
    };
    let summary = status.missing.unwrap_or_default().summary;
    if known.is_ok() || !rows.is_empty() {
        session.output.line(&match summary {
            none if none.is_empty() && rows.is_empty() => "nothing is missing".to_owned(),
            none if none.is_empty() => "missing:".to_owned(),
            counts if arguments.all => counts,
            counts => format!("{counts}; --all lists each by itself"),
        })?;
    }
    match rows.is_empty() {
        // There is nothing to sort or to limit.
        true => session.output.limited_by_server(),
        false => session.output.only_table(table(&rows, &hosts))?,
    }
    if known.is_ok() && status.design.is_some_and(|design| design.moves > 0) {
        for line in against_design(session).await? {
            session.output.line(&line)?;
        }
    }
    if known.is_ok() && state == v1::SubnetState::Converging {
        session
            .output
            .line("rsm is converging: more may be missing")?;
    }
    known
}

/// The lines about cables that are plugged elsewhere than the design has them, which are compared
/// with the design rather than with before.
async fn against_design(session: &Session) -> Result<Vec<String>, Failure> {
    let moves = all_pages(v1::ListDesignMovesRequest::default(), async |request| {
        session.fabric().list_design_moves(request).await
    })
    .await?;
    Ok(elsewhere(&moves, session.output.width()))
}

/// A line for each of the first moves of plugs, and the number of the others.
fn elsewhere(moves: &[v1::DesignMove], width: usize) -> Vec<String> {
    let texts = moves.iter().filter_map(|one| {
        let (first, second) = (&one.first, &one.second);
        match one.kind() {
            v1::DesignMoveKind::Swap => Some(format!(
                "exchanged: the plugs in {first} and {second}; swap them (`rsmctl design`)"
            )),
            v1::DesignMoveKind::Shift => Some(format!(
                "plugged elsewhere: the plug in {first} belongs in {second} (`rsmctl design`)"
            )),
            _ => None,
        }
    });
    let mut texts: Vec<String> = texts.collect();
    let more = texts.len().saturating_sub(MAX_ELSEWHERE) as u64;
    texts.truncate(MAX_ELSEWHERE);
    if more > 0 {
        let plugs = count(more, "plug", "plugs");
        texts.push(format!("and {plugs} more: `rsmctl design`"));
    }
    let texts = texts.iter();
    texts
        .flat_map(|text| wrapped(&plain_names(&printable(text)), width, 2))
        .collect()
}

/// Whether the manager knows what is missing. Parts that it lists while it converges are missing,
/// but an empty list says nothing then.
///
/// # Errors
/// The manager has not read the subnet yet, or lists nothing while it converges.
fn check_known(state: v1::SubnetState, is_empty: bool) -> Result<(), Failure> {
    let reason = match state {
        v1::SubnetState::Discovering => "rsm reads it for the first time",
        v1::SubnetState::Converging if is_empty => "rsm is converging",
        v1::SubnetState::NotActive => "rsm does not manage it",
        _ => return Ok(()),
    };
    Err(Failure::Refused(format!(
        "what is missing is not known yet: {reason}; `rsmctl status` says when the subnet is up"
    )))
}

/// The names of the hosts that were at each missing or present switch, by the switch's name.
/// `each` lists every missing part by itself.
fn hosts_at(each: &[v1::Missing]) -> HashMap<String, HashSet<String>> {
    let mut hosts: HashMap<String, HashSet<String>> = HashMap::new();
    let adapters = each.iter();
    for adapter in adapters.filter(|one| one.kind() == v1::MissingKind::Host) {
        let first = adapter.place.split(" and ").next().unwrap_or_default();
        if let Some((switch, _)) = first.rsplit_once(':') {
            let own = hosts.entry(switch.to_owned()).or_default();
            own.insert(host_name(&adapter.name).to_owned());
        }
    }
    hosts
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

async fn status(session: &Session) -> Result<v1::SubnetStatus, Failure> {
    let request = v1::GetStatusRequest {};
    let answer = session.fabric().get_status(request).await?;
    Ok(answer.into_inner().status.unwrap_or_default())
}

async fn accept(arguments: ExpectArguments, session: &mut Session) -> Result<(), Failure> {
    if arguments.accept.is_none() && !arguments.yes {
        ask(arguments.accept_exchanged, session).await?;
    }
    let named = arguments.accept.unwrap_or_default();
    let request = v1::AcceptMissingRequest {
        name: named.clone(),
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
    session.output.line(&match named.as_str() {
        "" => format!("accepted: {parts}"),
        name => format!("accepted: {name}, {parts}"),
    })
}

/// Lists the parts that would be accepted, and asks the operator.
///
/// # Errors
/// There is nothing to accept, no terminal to ask at, or the operator declines.
async fn ask(is_exchanged: bool, session: &mut Session) -> Result<(), Failure> {
    let counts = status(session).await?.missing.unwrap_or_default();
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
        let hosts = hosts_at(&self::missing(true, session).await?);
        session.output.only_table(table(&folded(missing), &hosts))?;
        session.output.flush()?;
    }
    confirm::ask_operator(&format!("{} {effect}", parts.listed()))
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

/// Whether two adapters disappeared within a minute, or both at unknown times.
fn lost_together(one: &v1::Missing, other: &v1::Missing) -> bool {
    match (one.lost_unix_ms, other.lost_unix_ms) {
        (Some(one), Some(other)) => one.abs_diff(other) < 60_000,
        (one, other) => one == other,
    }
}

/// The kind of a part: `adapter` for one of a host that has others left.
fn kind(missing: &v1::Missing) -> String {
    match missing.of_present_host {
        true => "adapter".to_owned(),
        false => label::<v1::MissingKind>(missing.kind),
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

/// The table with a row for each element of `rows`; no element is empty. `hosts` are the hosts that
/// were at each switch.
fn table(rows: &[Vec<v1::Missing>], hosts: &HashMap<String, HashSet<String>>) -> Rows {
    let mut table = Rows::new(&[
        "SINCE", "KIND", "NAME", "WAS AT", "SEEN NOW", "+>CABLES", "+LEFT", "+>MOVED", "+STATE",
        "+AT",
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
            1 => match hosts.get(&first.name).map_or(0, HashSet::len) as u64 {
                hosts @ 1.. if first.kind() == v1::MissingKind::Switch => {
                    format!("{} (with {})", first.name, count(hosts, "host", "hosts"))
                }
                // The port of a single cable, as an operator writes it.
                _ => match first.port {
                    Some(port) => format!("{}:{port}", first.name),
                    None => first.name.clone(),
                },
            },
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
            kind(first),
            name,
            short_place(&first.place) + &more,
            or_none(&seen.join("; ")),
            sum(|one| one.cables).to_string(),
            or_none(&first.left),
            moved.map_or_else(|| NONE.to_owned(), |moved| moved.to_string()),
            label::<v1::PortState>(first.last_state),
            at,
        ]);
    }
    table
}

/// Shortens a place: `spine-01:51 +31` for `spine-01:51 and 31 more`.
fn short_place(place: &str) -> String {
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
    fn adapter_of_a_host_with_others_left_is_no_host() {
        let mut one = missing(v1::MissingKind::Host, "host-060 mlx5_4", 1);
        assert_eq!(kind(&one), "host");
        one.of_present_host = true;
        assert_eq!(kind(&one), "adapter");
    }

    #[test]
    fn a_table_of_80_columns_shows_what_is_seen_now() {
        let row = vec![missing(v1::MissingKind::Host, "host-077 mlx5_0", 1); 8];
        let laid_out = table(&[row], &HashMap::new()).laid_out(80);
        let text = laid_out.lines.join("\n");
        assert!(laid_out.lines.iter().all(|line| line.len() <= 80), "{text}");
        for part in ["SEEN NOW", "no signal:", "(8 adapters)", ":13 +7"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(laid_out.left_out.iter().any(|heading| heading == "LEFT"));
        assert_eq!(short_place("spine-01:51 and 31 more"), "spine-01:51 +31");
    }

    #[test]
    fn the_row_of_a_dead_switch_has_the_number_of_its_hosts_in_80_columns() {
        use v1::MissingKind as Kind;
        let at = |name: String, place: &str| v1::Missing {
            place: place.to_owned(),
            ..missing(Kind::Host, &name, 1)
        };
        let mut each: Vec<v1::Missing> = (1..=32)
            .map(|host| at(format!("host-{host:03} mlx5_4"), "MF0;leaf-05:MQM9700/U1:1"))
            .collect();
        // Two adapters of one host, and a host at a switch that is there.
        each.push(at(
            "host-032 mlx5_5".to_owned(),
            "MF0;leaf-05:MQM9700/U1:33",
        ));
        each.push(at(
            "host-040 mlx5_0".to_owned(),
            "MF0;leaf-06:MQM9700/U1:2 and 1 more",
        ));
        let mut switch = missing(Kind::Switch, "MF0;leaf-05:MQM9700/U1", 1);
        switch.hosts_behind = 33;
        let laid_out = table(&[vec![switch]], &hosts_at(&each)).laid_out(80);
        let text = laid_out.lines.join(" ");
        let words: Vec<&str> = text.split_whitespace().collect();
        for word in ["leaf-05", "(with", "32", "hosts)"] {
            assert!(words.contains(&word), "{word}: {text}");
        }
    }

    #[test]
    fn a_lost_cable_has_its_own_port_and_an_exchanged_one_is_listed() {
        let cable = v1::Missing {
            port: Some(23),
            ..missing(v1::MissingKind::Cable, "MF0;leaf-212:MQM8700/U1", 1)
        };
        let text = table(&[vec![cable]], &HashMap::new()).laid_out(200);
        assert!(text.lines[1].contains(" leaf-212:23 "), "{:?}", text.lines);
        let one = |kind: v1::DesignMoveKind| v1::DesignMove {
            kind: kind.into(),
            first: "leaf-1:5".to_owned(),
            second: "MF0;leaf-2:MQM8700/U1:6".to_owned(),
            ..v1::DesignMove::default()
        };
        let kinds = [v1::DesignMoveKind::Swap, v1::DesignMoveKind::Connect];
        assert_eq!(
            elsewhere(&kinds.map(one), 80),
            ["exchanged: the plugs in leaf-1:5 and leaf-2:6; swap them (`rsmctl design`)"]
        );
    }

    #[test]
    fn nothing_is_known_to_be_missing_before_the_subnet_is_up() {
        use v1::SubnetState as State;
        for (state, is_empty) in [
            (State::Discovering, true),
            (State::Discovering, false),
            (State::Converging, true),
            (State::NotActive, true),
        ] {
            let Err(Failure::Refused(text)) = check_known(state, is_empty) else {
                panic!("{state:?} is no failure");
            };
            assert!(text.contains("not known yet"), "{text}");
        }
        for state in [State::Up, State::Degraded, State::Standby] {
            assert!(check_known(state, true).is_ok(), "{state:?}");
        }
        assert!(check_known(State::Converging, false).is_ok());
    }
}
