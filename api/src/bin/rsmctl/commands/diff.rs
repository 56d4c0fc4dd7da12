use std::collections::{HashMap, HashSet};

use clap::Args;
use rsm_proto::v1::DifferenceKind as Kind;
use rsm_proto::{plain_names, v1};

use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{count, label, machine, or_none};
use crate::time::{self, minute};

/// The differences of the subnet now from an earlier time
#[derive(Debug, Args)]
#[command(
    after_help = "Nodes, LIDs, cables, widths and speeds, findings, engine and role, from the history on the\ndisk. BEFORE is the value at that time, NOW the present one. Where the history begins later, its\nfirst state counts, and the first line says so.\n\nA switch stands for its cables and the hosts that were at it alone, a host for its adapters, and a\nkind of finding is one row: --all shows each difference.\n\nExamples:\n  rsmctl diff 22:00\n  rsmctl diff yesterday --all"
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
    let begins = match from_unix_ms > at_unix_ms {
        true => format!(
            "the history begins at {}: compared with its first state rather than with {}",
            minute(from_unix_ms),
            minute(at_unix_ms)
        ),
        false => String::new(),
    };
    if session.output.is_json() {
        session.output.note(&begins)?;
        return session.output.json_list(differences);
    }
    if !begins.is_empty() {
        session.output.line(&begins)?;
    }
    let total = differences.len() as u64;
    let rows = match arguments.all {
        true => differences.iter().map(Row::of).collect(),
        false => folded(&differences),
    };
    let shown = rows.len() as u64;
    let mut table = Rows::new(&["WHAT", "PART", "BEFORE", "NOW"]);
    for row in rows {
        let Row {
            kind,
            part,
            before,
            now,
        } = row;
        table.add([
            label::<Kind>(kind.into()),
            or_none(&part),
            or_none(&before),
            or_none(&now),
        ]);
    }
    session.output.only_table(table)?;
    match shown < total {
        true => session.output.line(&format!(
            "{} in {}; --all shows each",
            count(total, "difference", "differences"),
            count(shown, "row", "rows")
        )),
        false => Ok(()),
    }
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    kind: Kind,
    part: String,
    before: String,
    now: String,
}

impl Row {
    fn of(difference: &v1::Difference) -> Row {
        Row {
            kind: difference.kind(),
            part: difference.subject.clone(),
            before: difference.before.clone(),
            now: difference.now.clone(),
        }
    }

    /// The value that a part that came or went has.
    fn value(&mut self) -> &mut String {
        match self.kind {
            Kind::NodeVanished => &mut self.before,
            _ => &mut self.now,
        }
    }
}

/// Differences that a node takes along: its cables, and the hosts that were at it alone.
#[derive(Default)]
struct Taken {
    cables: u64,
    hosts: u64,
}

/// The rows of differences, with those that follow from another one folded into it: cables and
/// hosts that came or went with a switch, adapters of one host, and findings of one kind.
fn folded(differences: &[v1::Difference]) -> Vec<Row> {
    let of_kind = |kind: Kind| {
        let own = differences.iter().filter(move |one| one.kind() == kind);
        own.map(|one| one.subject.as_str())
            .collect::<HashSet<&str>>()
    };
    let moved = [
        (Kind::NodeAppeared, Kind::LinkAppeared),
        (Kind::NodeVanished, Kind::LinkVanished),
    ];
    let nodes: HashMap<Kind, HashSet<&str>> = moved
        .iter()
        .map(|&(node, link)| (link, of_kind(node)))
        .collect();
    let switches: HashSet<&str> = differences
        .iter()
        .filter(|one| one.kind() == Kind::NodeVanished && one.before.starts_with("switch"))
        .map(|one| one.subject.as_str())
        .collect();
    let mut taken: HashMap<(Kind, &str), Taken> = HashMap::new();
    let mut rows: Vec<(Row, u64)> = Vec::new();
    let mut places: HashMap<(Kind, String), usize> = HashMap::new();
    for difference in differences {
        let kind = difference.kind();
        if let Some(nodes) = nodes.get(&kind) {
            let ends = ends(&difference.subject);
            // A switch goes before the host at the other end.
            let is_switch = |end: &&str| switches.contains(end);
            let owner = ends.iter().copied().find(|end| is_switch(end));
            let owner = owner.or_else(|| ends.into_iter().find(|end| nodes.contains(end)));
            if let Some(node) = owner {
                taken.entry((kind, node)).or_default().cables += 1;
                continue;
            }
        }
        if let Some(switch) = behind(difference, &switches) {
            taken.entry((Kind::LinkVanished, switch)).or_default().hosts += 1;
            continue;
        }
        let part = match kind {
            Kind::NodeAppeared | Kind::NodeVanished => machine(&difference.subject),
            Kind::FindingRaised | Kind::FindingCleared => &difference.subject,
            _ => {
                rows.push((Row::of(difference), 1));
                continue;
            }
        };
        match places.get(&(kind, part.to_owned())) {
            Some(&at) => rows[at].1 += 1,
            None => {
                places.insert((kind, part.to_owned()), rows.len());
                rows.push((Row::of(difference), 1));
            }
        }
    }
    for (row, number) in &mut rows {
        let link = moved.iter().find(|(node, _)| *node == row.kind);
        let taken = link.and_then(|&(_, link)| taken.get(&(link, row.part.as_str())));
        // The place of a host is its only cable.
        let taken = taken.filter(|taken| taken.cables + taken.hosts > 1);
        if let Some(text) = taken.map(with) {
            *row.value() += &text;
        }
        if *number > 1 {
            fold(row, *number);
        }
    }
    rows.into_iter().map(|(row, _)| row).collect()
}

/// Makes a row stand for `number` differences, of which it is the first.
fn fold(row: &mut Row, number: u64) {
    let more = format!(" and {} more", number - 1);
    match row.kind {
        Kind::FindingRaised | Kind::FindingCleared => {
            row.part += &format!(" ×{number}");
            let text = match row.kind {
                Kind::FindingRaised => &mut row.now,
                _ => &mut row.before,
            };
            *text = first_clause(text) + &more;
        }
        _ => {
            row.part = format!("{} ({number} adapters)", machine(&row.part));
            *row.value() += &more;
        }
    }
}

/// The first clause of a finding's text, which says about which part it is.
fn first_clause(text: &str) -> String {
    let plain = plain_names(text);
    let ends = [": ", "; "].into_iter().filter_map(|end| plain.find(end));
    let end = ends.min().unwrap_or(plain.len());
    plain[..end].to_owned()
}

/// The nodes at both ends of a cable, `leaf-03:7 - spine-01:3`.
fn ends(subject: &str) -> Vec<&str> {
    let ends = subject.split(" - ");
    ends.filter_map(|end| Some(end.rsplit_once(':')?.0))
        .collect()
}

/// The switch that a host went with: all of its cables led to switches that are gone.
fn behind<'a>(difference: &v1::Difference, switches: &HashSet<&'a str>) -> Option<&'a str> {
    let places = difference.before.strip_prefix("CA at ");
    let places = places
        .filter(|places| difference.kind() == Kind::NodeVanished && !places.contains(" more"))?;
    let mut at = places.split(", ").map(|place| place.rsplit_once(':'));
    let first = switches.get(at.next()??.0)?;
    let all = at.all(|place| place.is_some_and(|(node, _)| switches.contains(node)));
    all.then_some(*first)
}

/// ` (with 64 cables and 32 hosts)`.
fn with(taken: &Taken) -> String {
    let parts = [
        (taken.cables, "cable", "cables"),
        (taken.hosts, "host", "hosts"),
    ];
    let parts = parts.into_iter().filter(|part| part.0 > 0);
    let parts: Vec<String> = parts
        .map(|(number, one, many)| count(number, one, many))
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
    fn first_clause_ends_behind_the_name_of_a_switch() {
        let text = "the host host-005 mlx5_0 is gone, was at MF0;su-01-leaf-02:MQM9700/U1 port 7: 54 \
                    routes were moved; if it is gone for good: rsmctl expect";
        let expected = "the host host-005 mlx5_0 is gone, was at su-01-leaf-02 port 7";
        assert_eq!(first_clause(text), expected);
        assert_eq!(first_clause("leaf-03:7 flaps"), "leaf-03:7 flaps");
    }

    #[test]
    fn a_switch_takes_its_cables_and_hosts_along() {
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
                "switch at spine-1:1, spine-2:1 (with 2 cables and 1 host)",
            ),
            ("host-1 (2 adapters)", "CA at leaf-2:1 and 1 more"),
            ("leaf-2:9 - spine-1:2", "4x ndr"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn findings_of_one_kind_are_one_row() {
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
}
