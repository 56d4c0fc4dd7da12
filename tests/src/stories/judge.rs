//! Compares the answers of `rsmctl blame` with the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::kind::Kind;
use super::plot::Truth;
use super::site::{Port, Site};

/// The weight from which evidence names a culprit, as `docs/operating.md` states it.
const BLAMING_WEIGHT: u64 = 60;

/// How an answer compares with the truth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Right,
    /// The fabric is at fault, and the answer does not say so.
    Missed,
    /// The answer names no verdict.
    CannotSay,
    /// The verdict is right, but its cause or the named part is not.
    WrongCause,
    /// The fabric is not at fault, and the answer says so.
    BlamedWrongly,
}

/// A story that was told, and the answer.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) fabric: &'static str,
    pub(super) kind: Kind,
    pub(super) outcome: Outcome,
    /// Whether the answer blames a part that is not at fault.
    pub(super) blames_good_part: bool,
    pub(super) took: Duration,
    /// The story and the answer, for people.
    pub(super) text: String,
}

/// Compares an answer in JSON with the truth.
pub(super) fn judge(site: &Site, truth: &Truth, answer: &Value) -> (Outcome, bool) {
    let verdict = answer["verdict"].as_str().expect("an answer has a verdict");
    let evidence = answer["evidence"]
        .as_array()
        .expect("an answer has evidence");
    let blames = |one: &&Value| {
        let weight = one["weight"].as_u64().expect("evidence has a weight");
        one["bearing"] == "fabric" && weight >= BLAMING_WEIGHT
    };
    let blamed: Vec<&Value> = evidence.iter().filter(blames).collect();
    let culprits = culprits(site, truth);
    let is_culprit = |one: &&Value| names(site, one, &culprits);
    let blames_good_part = !blamed.iter().all(is_culprit);
    let is_likely = verdict == "likely";
    let outcome = match truth {
        _ if verdict == "cannot-say" => Outcome::CannotSay,
        Truth::Cable(_) | Truth::Node(_) if !is_likely => Outcome::Missed,
        Truth::Cable(_) | Truth::Node(_) if blamed.first().is_none_or(|one| !is_culprit(one)) => {
            Outcome::WrongCause
        }
        Truth::NotFabric | Truth::Partition if is_likely => Outcome::BlamedWrongly,
        Truth::Partition if !explains_partition(evidence) => Outcome::WrongCause,
        _ => Outcome::Right,
    };
    (outcome, blames_good_part)
}

/// Whether evidence says that hosts have no common partition.
fn explains_partition(evidence: &[Value]) -> bool {
    let kind = |one: &Value| one["kind"].as_str().unwrap_or_default().to_owned();
    evidence.iter().any(|one| kind(one).contains("partition"))
}

/// The ports whose mention names what is at fault.
fn culprits(site: &Site, truth: &Truth) -> BTreeSet<Port> {
    let topology = &site.topology;
    let ports: Vec<Port> = match *truth {
        Truth::Cable(port) => vec![port],
        Truth::Node(node) => topology.ports(node).collect(),
        Truth::NotFabric | Truth::Partition => Vec::new(),
    };
    let ends = ports.iter().flat_map(|port| [*port, topology.peers[port]]);
    ends.collect()
}

/// Whether evidence names one of `culprits`: by its port, or where it has none by the name of an
/// adapter or of a node all of whose cables are culprits.
fn names(site: &Site, evidence: &Value, culprits: &BTreeSet<Port>) -> bool {
    let topology = &site.topology;
    let port = &evidence["port"];
    if let (Some(guid), Some(number)) = (port["node_guid"].as_str(), port["number"].as_u64()) {
        let is_port = |culprit: &&Port| {
            let is_node = culprit.0.to_string() == guid;
            // Port 0 stands for the whole node.
            let is_whole =
                number == 0 && topology.ports(culprit.0).all(|it| culprits.contains(&it));
            is_node && (u64::from(culprit.1.0) == number || is_whole)
        };
        return culprits.iter().any(|culprit| is_port(&culprit));
    }
    let place = evidence["place"].as_str().unwrap_or_default();
    culprits.iter().any(|culprit| {
        let is_whole = topology
            .ports(culprit.0)
            .all(|port| culprits.contains(&port));
        is_whole && place.contains(topology.names[&culprit.0].as_str())
    })
}

/// The stories that were told, by kind.
#[derive(Default)]
pub struct Table(Vec<Told>);

impl Table {
    pub(super) fn extend(&mut self, told: Vec<Told>) {
        self.0.extend(told);
    }

    /// The number of stories.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The number of stories with the right answer.
    #[must_use]
    pub fn right(&self) -> usize {
        self.of(Outcome::Right)
    }

    /// The number of answers that blame a part that is not at fault.
    #[must_use]
    pub fn good_parts_blamed(&self) -> usize {
        self.0.iter().filter(|told| told.blames_good_part).count()
    }

    fn of(&self, outcome: Outcome) -> usize {
        let with = self.0.iter().filter(|told| told.outcome == outcome);
        with.count()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: BTreeMap<(bool, String), Vec<&Told>> = BTreeMap::new();
        for told in &self.0 {
            let half = !told.kind.is_guilty();
            rows.entry((half, told.kind.to_string()))
                .or_default()
                .push(told);
        }
        writeln!(
            f,
            "{:<34}{:>8}{:>7}{:>8}{:>11}{:>12}{:>15}{:>19}",
            "kind",
            "stories",
            "right",
            "missed",
            "cannot say",
            "wrong cause",
            "blamed wrongly",
            "good part blamed"
        )?;
        let by_fabric = |fabric: &'static str| {
            let of_fabric = self.0.iter().filter(move |told| told.fabric == fabric);
            (fabric.to_owned(), of_fabric.collect())
        };
        let by_kind = rows.into_iter().map(|((_, kind), told)| (kind, told));
        let fabrics = super::site::FABRICS.into_iter().map(by_fabric);
        let all = ("all".to_owned(), self.0.iter().collect());
        for (name, told) in by_kind.chain(fabrics).chain([all]) {
            let of = |outcome| told.iter().filter(|one| one.outcome == outcome).count();
            writeln!(
                f,
                "{name:<34}{:>8}{:>7}{:>8}{:>11}{:>12}{:>15}{:>19}",
                told.len(),
                of(Outcome::Right),
                of(Outcome::Missed),
                of(Outcome::CannotSay),
                of(Outcome::WrongCause),
                of(Outcome::BlamedWrongly),
                told.iter().filter(|one| one.blames_good_part).count(),
            )?;
        }
        if let Some(slowest) = self.0.iter().map(|told| told.took).max() {
            writeln!(f, "the slowest answer took {slowest:?}")?;
        }
        for told in &self.0 {
            if told.outcome != Outcome::Right || told.blames_good_part {
                writeln!(f, "\n{:?}: {}", told.outcome, told.text)?;
            }
        }
        Ok(())
    }
}
