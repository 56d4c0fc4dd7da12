//! `rsmctl diff`: the differences of the subnet now from an earlier time, as a table of folded
//! rows.

use std::collections::{HashMap, HashSet};

use clap::Args;
use rsm_api::together::by_node;
use rsm_proto::v1::DifferenceKind as Kind;
use rsm_proto::v1::event::Change;
use rsm_proto::{plain_names, v1};

use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{count, host_name, label, or_none, printable};
use crate::time::{self, minute, short};

/// The differences of the subnet now from an earlier time
#[derive(Debug, Args)]
#[command(
    after_help = "Nodes, LIDs, cables, widths and speeds, findings, engine and role, from the history on the\ndisk. CHANGE is the value at that time, `->` and the present one, or one of them; WHEN the last\nchange in between, as rsm saw it, in the zone of the first line; a link that went down and is up again is a row too. Where the history\nbegins later, its first state counts, and the first line says so.\n\nA switch stands for its cables and the hosts that were at it alone, a host for its adapters, and a\nkind of finding is one row: --all shows each difference, and findings as a whole. Orders of\noperators since then stand below, with who gave them.\n\nExamples:\n  rsmctl diff 22:00\n  rsmctl diff yesterday --all"
)]
pub(crate) struct DiffArguments {
    /// The time to compare with: 22:00, yesterday, 2h, 2026-11-24, '2026-11-24 22:00', RFC 3339
    #[arg(value_name = "TIME")]
    time: String,
    /// Each difference by itself
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(arguments: DiffArguments, session: &mut Session) -> Result<(), Failure> {
    let at_unix_ms = time::parse(&arguments.time).map_err(Failure::Usage)?;
    let mut from_unix_ms = 0;
    let differences = all_pages(
        v1::ListDifferencesRequest {
            at_unix_ms,
            ..Default::default()
        },
        async |request| {
            let answer = session.difference().list_differences(request).await?;
            from_unix_ms = answer.get_ref().from_unix_ms;
            Ok(answer)
        },
    )
    .await?;
    let late_start_note = match from_unix_ms > at_unix_ms {
        true => format!(
            "the history begins at {}: compared with its first state rather than with {}",
            minute(from_unix_ms),
            minute(at_unix_ms)
        ),
        false => String::new(),
    };
    if session.output.is_json() {
        session.output.note(&late_start_note)?;
        return session.output.json_list(differences);
    }
    let now = time::parse("now").map_err(Failure::Usage)?;
    if !late_start_note.is_empty() {
        session.output.line(&late_start_note)?;
    } else if !differences.is_empty() {
        let since = minute(at_unix_ms);
        session.output.line(&format!("{since} to now"))?;
    }
    let total = differences.len() as u64;
    let rows = match arguments.all {
        true => differences.iter().map(Row::of).collect(),
        false => folded(&differences),
    };
    let shown = rows.len() as u64;
    session.output.only_table(table(rows, now))?;
    if shown < total {
        session.output.line(&format!(
            "{} in {}; --all shows each",
            count(total, "difference", "differences"),
            count(shown, "row", "rows")
        ))?;
    }
    show_orders(session, at_unix_ms, now).await
}

/// Shows the orders of operators that were carried out since a time: they explain differences, and
/// changes of partitions are among them alone.
async fn show_orders(session: &mut Session, since_unix_ms: u64, now: u64) -> Result<(), Failure> {
    let events = all_pages(
        v1::ListEventsRequest {
            since_unix_ms,
            kind: v1::EventKind::Operator.into(),
            ..Default::default()
        },
        async |request| session.watch().list_events(request).await,
    )
    .await?;
    let lines = order_lines(&events, now);
    if lines.is_empty() {
        return Ok(());
    }
    session.output.line("Orders of operators since then")?;
    for line in lines {
        session.output.line(&line)?;
    }
    Ok(())
}

/// A line for each order that was carried out and may have changed the subnet.
fn order_lines(events: &[v1::Event], now: u64) -> Vec<String> {
    let orders = events.iter().filter_map(|event| match &event.change {
        Some(Change::OperatorActed(order)) if order.refusal.is_empty() => Some((event, order)),
        _ => None,
    });
    let orders = orders.filter(|(_, order)| !READINGS.contains(&order.action.as_str()));
    let line = |(event, order): (&v1::Event, &v1::OperatorActed)| {
        let at = short(event.at_unix_ms, now);
        let what = plain_names(&printable(&order.detail));
        format!(
            "  {at}  {} {what}, by {}",
            order.action,
            who(&order.operator)
        )
    };
    orders.map(line).collect()
}

/// Orders that only read the subnet again.
const READINGS: [&str; 2] = ["resweep", "rewrite"];

/// The operator without the other end of the connection: `uid:0 (alice)`.
pub(super) fn who(operator: &str) -> String {
    let operator = printable(operator);
    let identity = operator.split(" at ").next().unwrap_or_default();
    match operator.rfind(" (") {
        Some(at) if operator.ends_with(')') && at >= identity.len() => {
            format!("{identity}{}", &operator[at..])
        }
        _ => identity.to_owned(),
    }
}

/// The table of rows at `now`, in milliseconds since the Unix epoch.
fn table(rows: Vec<Row>, now: u64) -> Rows {
    let mut table = Rows::new(&["WHAT", "WHEN", "PART", "CHANGE"]);
    for row in rows {
        table.add([
            label::<Kind>(row.kind.into()),
            or_none(&row.when(now)),
            or_none(&row.part),
            or_none(&row.change()),
        ]);
    }
    table
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    kind: Kind,
    part: String,
    before: String,
    now: String,
    /// The earliest and the latest time of the row's changes, in milliseconds since the Unix epoch;
    /// both are 0 if the time of no change is known.
    span: (u64, u64),
}

impl Row {
    fn of(difference: &v1::Difference) -> Row {
        let at_unix_ms = difference.at_unix_ms;
        Row {
            kind: difference.kind(),
            part: difference.subject.clone(),
            before: difference.before.clone(),
            now: now_cell(difference),
            span: (at_unix_ms, at_unix_ms),
        }
    }

    /// The cell WHEN: the time of the only change, or the times of the first and the last change;
    /// empty if no time is known. `now` is in milliseconds since the Unix epoch.
    fn when(&self, now: u64) -> String {
        let (first, last) = match self.span {
            (0, 0) => return String::new(),
            (first, last) => (short(first, now), short(last, now)),
        };
        match first == last {
            true => first,
            false => format!("{first} to {last}"),
        }
    }

    /// The cell CHANGE: the value before and the present one, or the only one of them.
    fn change(&self) -> String {
        match (self.before.as_str(), self.now.as_str()) {
            (before, now) if before == now => now.to_owned(),
            ("", now) => now.to_owned(),
            (before, "") if self.kind == Kind::FindingCleared => before.to_owned(),
            (before, "") => format!("was {before}"),
            (before, now) if self.kind == Kind::LinkVanished => format!("was {before}, {now}"),
            (before, now) => match now.strip_prefix(before) {
                Some(more) if more.starts_with(", ") => now.to_owned(),
                _ => format!("{before} -> {now}"),
            },
        }
    }

    /// Extends the span of the row to a time; 0 stands for an unknown time, and changes nothing.
    fn extend_span(&mut self, at_unix_ms: u64) {
        self.span = match (self.span, at_unix_ms) {
            (span, 0) => span,
            ((0, _), time) => (time, time),
            ((first, last), time) => (first.min(time), last.max(time)),
        };
    }

    /// The value that describes a node that appeared or vanished: the present one or that before.
    fn node_cell(&mut self) -> &mut String {
        match self.kind {
            Kind::NodeVanished => &mut self.before,
            _ => &mut self.now,
        }
    }
}

/// The present value, and the number of times that a link went down. A vanished link
/// went down at least once, so a single time is not stated.
fn now_cell(difference: &v1::Difference) -> String {
    let downs = match (difference.kind(), difference.downs) {
        (Kind::LinkVanished, 0..=1) | (_, 0) => return difference.now.clone(),
        (_, downs) => went_down(downs),
    };
    match difference.now.as_str() {
        "" => downs,
        now => format!("{now}, {downs}"),
    }
}

fn went_down(times: u64) -> String {
    format!("went down {}", count(times, "time", "times"))
}

/// The numbers of differences that are folded into the row of a node.
#[derive(Default)]
struct FoldedParts {
    cables: u64,
    /// The adapters that vanished with the node, because all their cables led to vanished switches.
    adapters: u64,
}

/// The kinds of changes of nodes, each with the kind of change of links that follows from it.
const APPEARED_OR_VANISHED: [(Kind, Kind); 2] = [
    (Kind::NodeAppeared, Kind::LinkAppeared),
    (Kind::NodeVanished, Kind::LinkVanished),
];

/// The rows of differences. A difference that follows from another difference is folded into the
/// row of that difference: cables that appeared or vanished with a node, adapters that vanished
/// with a switch. Adapters of one host share a row, and so do findings of one kind.
fn folded(differences: &[v1::Difference]) -> Vec<Row> {
    let subjects_of_kind = |kind: Kind| {
        let of_kind = differences.iter().filter(move |it| it.kind() == kind);
        of_kind
            .map(|difference| difference.subject.as_str())
            .collect::<HashSet<&str>>()
    };
    let nodes_by_link_kind: HashMap<Kind, HashSet<&str>> = APPEARED_OR_VANISHED
        .iter()
        .map(|&(node, link)| (link, subjects_of_kind(node)))
        .collect();
    let vanished_switches: HashSet<&str> = differences
        .iter()
        .filter(|it| it.kind() == Kind::NodeVanished && it.before.starts_with("switch"))
        .map(|difference| difference.subject.as_str())
        .collect();
    let mut folded_parts: HashMap<(Kind, &str), FoldedParts> = HashMap::new();
    let (flap_rows, flap_indices) = flapped_together(differences);
    let mut flap_rows = flap_rows.into_iter().map(|row| (row, Vec::new()));
    let mut rows: Vec<(Row, Vec<&v1::Difference>)> = Vec::new();
    let mut row_indices: HashMap<(Kind, String), usize> = HashMap::new();
    for (index, difference) in differences.iter().enumerate() {
        if flap_indices.contains(&index) {
            // All rows of flapped links stand where the first of their differences stands.
            rows.extend(flap_rows.by_ref());
            continue;
        }
        let kind = difference.kind();
        if let Some(nodes) = nodes_by_link_kind.get(&kind) {
            let ends = ends(&difference.subject);
            // A vanished switch takes precedence over the host at the other end.
            let is_switch = |end: &&str| vanished_switches.contains(end);
            let owner = ends.iter().copied().find(|end| is_switch(end));
            let owner = owner.or_else(|| ends.into_iter().find(|end| nodes.contains(end)));
            if let Some(node) = owner {
                folded_parts.entry((kind, node)).or_default().cables += 1;
                continue;
            }
        }
        if let Some(switch) = vanished_switch_of(difference, &vanished_switches) {
            folded_parts
                .entry((Kind::LinkVanished, switch))
                .or_default()
                .adapters += 1;
            continue;
        }
        let part = match kind {
            Kind::NodeAppeared | Kind::NodeVanished => host_name(&difference.subject),
            Kind::FindingRaised | Kind::FindingCleared => &difference.subject,
            _ => {
                rows.push((Row::of(difference), vec![difference]));
                continue;
            }
        };
        match row_indices.get(&(kind, part.to_owned())) {
            Some(&row) => {
                rows[row].1.push(difference);
                rows[row].0.extend_span(difference.at_unix_ms);
            }
            None => {
                row_indices.insert((kind, part.to_owned()), rows.len());
                rows.push((Row::of(difference), vec![difference]));
            }
        }
    }
    with_folded_parts(rows, &folded_parts)
}

/// Completes the text of each row: the parts that are folded into the row, and the differences that
/// it represents.
fn with_folded_parts(
    mut rows: Vec<(Row, Vec<&v1::Difference>)>,
    folded_parts: &HashMap<(Kind, &str), FoldedParts>,
) -> Vec<Row> {
    for (row, differences) in &mut rows {
        let link = APPEARED_OR_VANISHED
            .iter()
            .find(|(node, _)| *node == row.kind);
        let mut parts = FoldedParts::default();
        if let Some(&(_, link)) = link {
            // Nodes of one name share their parts.
            let subjects: HashSet<&str> = differences.iter().map(|it| &*it.subject).collect();
            let of_nodes = subjects
                .iter()
                .filter_map(|node| folded_parts.get(&(link, *node)));
            for of_node in of_nodes {
                parts.cables += of_node.cables;
                parts.adapters += of_node.adapters;
            }
        }
        match (row.kind, differences.len()) {
            (_, 2..) => fold(row, differences),
            (Kind::FindingRaised, _) => row.now = first_clause(&row.now),
            (Kind::FindingCleared, _) => row.before = first_clause(&row.before),
            _ => {}
        }
        // A cable for each adapter is not stated: the row of a host already names the switch ports.
        if parts.cables + parts.adapters > differences.len() as u64 {
            *row.node_cell() += &folded_parts_text(&parts);
        }
    }
    rows.into_iter().map(|(row, _)| row).collect()
}

/// A row for each node with at least four links that went down and are up again, and the indices of
/// the differences in these rows.
fn flapped_together(differences: &[v1::Difference]) -> (Vec<Row>, HashSet<usize>) {
    let flapped = differences.iter().enumerate();
    let flapped = flapped.filter(|(_, it)| it.kind() == Kind::LinkFlapped);
    let flapped = flapped.filter_map(|(index, difference)| {
        let ends: [&str; 2] = ends(&difference.subject).try_into().ok()?;
        Some((index, difference, ends))
    });
    let flapped: Vec<(usize, &v1::Difference, [&str; 2])> = flapped.collect();
    let all_ends: Vec<[&str; 2]> = flapped.iter().map(|&(.., ends)| ends).collect();
    let (mut rows, mut folded_indices) = (Vec::new(), HashSet::new());
    for (node, flaps) in by_node(&all_ends) {
        let flaps: Vec<&v1::Difference> = flaps
            .into_iter()
            .map(|flap| {
                folded_indices.insert(flapped[flap].0);
                flapped[flap].1
            })
            .collect();
        let downs = flaps.iter().map(|flap| flap.downs);
        let (least, most) = (downs.clone().min(), downs.max().unwrap_or(0));
        let mut row = Row::of(flaps[0]);
        flaps
            .iter()
            .for_each(|flap| row.extend_span(flap.at_unix_ms));
        row.part = format!("{node} ({} links)", flaps.len());
        row.before = String::new();
        row.now = match least == Some(most) {
            true => format!("each {}", went_down(most)),
            false => format!("each {} at most", went_down(most)),
        };
        rows.push(row);
    }
    (rows, folded_indices)
}

/// Makes the row of a difference represent all `differences`, of which it is the first.
fn fold(row: &mut Row, differences: &[&v1::Difference]) {
    let number = differences.len();
    match row.kind {
        Kind::FindingRaised | Kind::FindingCleared => {
            row.part += &format!(" ×{number}");
            let text = match row.kind {
                Kind::FindingRaised => &mut row.now,
                _ => &mut row.before,
            };
            *text = first_clause(text) + &format!(" and {} more", number - 1);
        }
        _ => {
            row.part = format!("{} ({number} adapters)", host_name(&row.part));
            // An adapter of two ports has two cables: the row counts the ends of all.
            let ends: u64 = differences.iter().map(|it| places(&it.before).1).sum();
            let more = match row.kind {
                Kind::NodeVanished if ends > 0 => {
                    let shown = places(&row.before).0;
                    let (number, shown) = (shown.len() as u64, shown.join(", "));
                    row.before = shown;
                    ends - number
                }
                _ => number as u64 - 1,
            };
            if more > 0 {
                *row.node_cell() += &format!(" and {more} more");
            }
        }
    }
}

/// The places in the cell of a vanished node, `CA at leaf-1:7, leaf-2:7 and 2 more`: the shown
/// ones, the first with the kind of the node, and the number of all; none if the cell names none.
fn places(cell: &str) -> (Vec<&str>, u64) {
    if !cell.contains(" at ") {
        return (Vec::new(), 0);
    }
    let more = cell
        .rsplit_once(" and ")
        .and_then(|(shown, more)| Some((shown, more.strip_suffix(" more")?.parse::<u64>().ok()?)));
    let (shown, more) = more.unwrap_or((cell, 0));
    let shown: Vec<&str> = shown.split(", ").collect();
    let all = shown.len() as u64 + more;
    (shown, all)
}

/// The first clause of a finding's text, which names the part that the finding is about.
fn first_clause(text: &str) -> String {
    let plain = plain_names(text);
    let ends = [": ", "; "].into_iter().filter_map(|end| plain.find(end));
    let end = ends.min().unwrap_or(plain.len());
    plain[..end].to_owned()
}

/// The nodes at both ends of a cable whose subject reads `leaf-03:7 - spine-01:3`. An end without a
/// port is left out.
fn ends(subject: &str) -> Vec<&str> {
    let ends = subject.split(" - ");
    ends.filter_map(|end| Some(end.rsplit_once(':')?.0))
        .collect()
}

/// The switch with which an adapter vanished: the switch at the adapter's first cable, if all its
/// cables led to vanished switches; `None` otherwise.
fn vanished_switch_of<'a>(
    difference: &v1::Difference,
    vanished_switches: &HashSet<&'a str>,
) -> Option<&'a str> {
    let peers = difference.before.strip_prefix("CA at ");
    let peers = peers
        .filter(|peers| difference.kind() == Kind::NodeVanished && !peers.contains(" more"))?;
    let mut peers = peers.split(", ").map(|peer| peer.rsplit_once(':'));
    let first_switch = vanished_switches.get(peers.next()??.0)?;
    let all = peers.all(|peer| peer.is_some_and(|(node, _)| vanished_switches.contains(node)));
    all.then_some(*first_switch)
}

/// The text ` (with 64 cables and 32 adapters)`. Adapters are counted rather than hosts, because a
/// host may have other adapters that are present.
fn folded_parts_text(parts: &FoldedParts) -> String {
    let parts = [
        (parts.cables, "cable", "cables"),
        (parts.adapters, "adapter", "adapters"),
    ];
    let parts = parts.into_iter().filter(|part| part.0 > 0);
    let parts: Vec<String> = parts
        .map(|(number, singular, plural)| count(number, singular, plural))
        .collect();
    format!(" (with {})", parts.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(kind: Kind, subject: &str, before: &str, now: &str) -> v1::Difference {
        v1::Difference {
            kind: kind.into(),
            subject: subject.to_owned(),
            before: before.to_owned(),
            now: now.to_owned(),
            ..v1::Difference::default()
        }
    }

    #[test]
    fn orders_are_named_with_their_operator_and_refused_ones_and_readings_are_left_out() {
        let order = |action: &str, refusal: &str| v1::Event {
            at_unix_ms: 1_735_689_540_000,
            change: Some(Change::OperatorActed(v1::OperatorActed {
                action: action.to_owned(),
                detail: "jobs host-053".to_owned(),
                operator: "uid:0 at unix uid 0 pid 17359 (nightshift)".to_owned(),
                refusal: refusal.to_owned(),
            })),
            ..v1::Event::default()
        };
        let events = [
            order("remove-members", ""),
            order("drain", "it cuts ports off"),
            order("resweep", ""),
        ];
        let expected = "  23:59  remove-members jobs host-053, by uid:0 (nightshift)";
        assert_eq!(order_lines(&events, 1_735_689_599_001), [expected]);
        assert_eq!(who("uid:7 at unix uid 7 pid 1"), "uid:7");
        assert_eq!(who("ops@example.org"), "ops@example.org");
    }

    #[test]
    fn first_clause_with_colon_in_switch_name_ends_after_the_name() {
        let text = "the host host-005 mlx5_0 is gone, was at MF0;su-01-leaf-02:MQM9700/U1 port 7: 54 \
                    routes were moved; if it is gone for good: rsmctl expect";
        let expected = "the host host-005 mlx5_0 is gone, was at su-01-leaf-02 port 7";
        assert_eq!(first_clause(text), expected);
        assert_eq!(first_clause("leaf-03:7 flaps"), "leaf-03:7 flaps");
    }

    #[test]
    fn cables_and_adapters_of_vanished_switch_are_folded_into_its_row() {
        let gone =
            |subject: &str, before: &str| difference(Kind::NodeVanished, subject, before, "");
        let cable = |subject: &str| difference(Kind::LinkVanished, subject, "4x ndr", "");
        let rows = folded(&[
            gone("leaf-1", "switch at spine-1:1, spine-2:1"),
            gone("host-1 mlx5_0", "CA at leaf-1:1"),
            gone("host-1 mlx5_1", "CA at leaf-2:1"),
            gone("host-1 mlx5_2", "CA at leaf-3:1"),
            cable("host-1 mlx5_0:1 - leaf-1:1"),
            cable("host-1 mlx5_1:1 - leaf-2:1"),
            cable("host-1 mlx5_2:1 - leaf-3:1"),
            cable("leaf-1:9 - spine-1:1"),
            cable("leaf-2:9 - spine-1:2"),
        ]);
        let shown: Vec<_> = rows.iter().map(|row| (&*row.part, &*row.before)).collect();
        let expected = [
            (
                "leaf-1",
                "switch at spine-1:1, spine-2:1 (with 2 cables and 1 adapter)",
            ),
            ("host-1 (2 adapters)", "CA at leaf-2:1 and 1 more"),
            ("leaf-2:9 - spine-1:2", "4x ndr"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn each_cable_of_the_dual_port_adapters_of_a_host_counts() {
        let gone =
            |subject: &str, before: &str| difference(Kind::NodeVanished, subject, before, "");
        let cable = |subject: &str| difference(Kind::LinkVanished, subject, "4x ndr", "");
        let adapters = [
            gone("host-1 mlx5_0", "CA at leaf-1:1, leaf-2:1"),
            gone("host-1 mlx5_1", "CA at leaf-1:2, leaf-2:2"),
        ];
        let cables = [
            cable("host-1 mlx5_0:1 - leaf-1:1"),
            cable("host-1 mlx5_0:2 - leaf-2:1"),
            cable("host-1 mlx5_1:1 - leaf-1:2"),
            cable("host-1 mlx5_1:2 - leaf-2:2"),
        ];
        let cell = |differences: &[v1::Difference]| {
            let rows = folded(differences);
            let shown: Vec<_> = rows
                .iter()
                .map(|row| (row.part.clone(), row.before.clone()))
                .collect();
            shown
        };
        let row = |part: &str, before: &str| vec![(part.to_owned(), before.to_owned())];
        let all = [&adapters[..], &cables[..]].concat();
        assert_eq!(
            cell(&all),
            row(
                "host-1 (2 adapters)",
                "CA at leaf-1:1, leaf-2:1 and 2 more (with 4 cables)"
            )
        );
        let one = [&adapters[..1], &cables[..2]].concat();
        assert_eq!(
            cell(&one),
            row("host-1 mlx5_0", "CA at leaf-1:1, leaf-2:1 (with 2 cables)")
        );
        let places_of = |cell: &str| places(cell).1;
        assert_eq!(places_of("CA at leaf-1:1, leaf-2:1 and 3 more"), 5);
        assert_eq!(places_of("switch"), 0);
    }

    #[test]
    fn findings_of_one_kind_share_one_row() {
        let raised = |text| difference(Kind::FindingRaised, "host-missing", "", text);
        let rows = folded(&[
            raised("the host a is gone, was at leaf-1 port 1; if it is gone for good: x"),
            raised("the host b is gone"),
            difference(
                Kind::FindingCleared,
                "host-missing",
                "the host c is gone",
                "",
            ),
        ]);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].part, "host-missing ×2");
        assert_eq!(
            rows[0].now,
            "the host a is gone, was at leaf-1 port 1 and 1 more"
        );
    }

    #[test]
    fn flapped_links_show_when_and_how_often_they_went_down() {
        let flapped = |subject: &str, downs, at_unix_ms| v1::Difference {
            downs,
            at_unix_ms,
            ..difference(Kind::LinkFlapped, subject, "4x ndr", "4x ndr")
        };
        let gone = v1::Difference {
            downs: 3,
            ..difference(Kind::LinkVanished, "a:1 - b:1", "4x ndr", "")
        };
        let minute = 60_000;
        let rows = folded(&[
            gone,
            flapped("leaf-1:9 - spine-1:1", 2, minute),
            flapped("leaf-2:1 - spine-2:1", 1, minute),
            flapped("leaf-2:2 - spine-3:1", 1, minute),
            flapped("leaf-2:3 - spine-4:1", 1, minute),
            flapped("leaf-2:4 - host-1 mlx5_0:1", 2, 3 * minute),
        ]);
        let shown = rows
            .iter()
            .map(|row| (&*row.part, &*row.now, row.when(minute)));
        let expected = [
            ("a:1 - b:1", "went down 3 times", ""),
            ("leaf-1:9 - spine-1:1", "4x ndr, went down 2 times", "00:01"),
            (
                "leaf-2 (4 links)",
                "each went down 2 times at most",
                "00:01 to 00:03",
            ),
        ];
        let expected = expected.map(|(part, now, when)| (part, now, when.to_owned()));
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn table_breaks_no_word_at_80_columns() {
        let at = |mut difference: v1::Difference| {
            difference.at_unix_ms = 60_000;
            difference
        };
        let finding = "the cable from MF0;su-01-leaf-02:MQM9700/U1 port 40 to \
                       MF0;spine-04:MQM9700/U1 port 4 is gone, was Active: 20710 routes were \
                       moved; if it is gone for good: rsmctl expect --accept 0x1070fd0300000080:40";
        let rows = folded(&[
            at(difference(
                Kind::NodeVanished,
                "spine-03",
                "switch at su-01-leaf-01:37, su-01-leaf-01:38 and 62 more",
                "",
            )),
            at(difference(
                Kind::LinkAppeared,
                "su-01-leaf-05:3 - host-004 mlx5_4:1",
                "",
                "4x NDR",
            )),
            at(difference(
                Kind::FindingRaised,
                "cable-missing",
                "",
                finding,
            )),
            at(difference(
                Kind::LinkRate,
                "leaf-1:2 - leaf-2:1",
                "4x NDR",
                "1x SDR",
            )),
        ]);
        let lines = table(rows, 90_000_000).laid_out(80).lines;
        let text = lines.join("\n");
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(lines.len() <= 12, "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        for whole in [
            "01-01",
            "00:01",
            "su-01-leaf-01:37,",
            "su-01-leaf-05:3",
            "cable-missing",
        ] {
            assert!(words.contains(&whole), "{whole}: {text}");
        }
        assert!(text.contains("4x NDR -> 1x SDR"), "{text}");
    }
}
