//! The verdict on the evidence.

use std::collections::BTreeSet;

use rsm_api::v1::BlameVerdict;
use rsm_api::{thousands, v1};
use rsm_state::Role;

use super::super::api_view::api_key;
use super::evidence::{Evidence, Kind, LIKELY, Place, UNLIKELY};
use super::job::MAX_DESCRIPTION_SEARCHES;
use super::{Case, Question};

/// Maximum number of pieces of evidence in an answer.
const MAX_EVIDENCE: usize = 20;

/// Maximum number of sentences about unknown names in an answer; further names are counted.
const MAX_UNKNOWN: usize = 5;

/// Shortest time that allows a verdict, in milliseconds: two readings of a switch's ports.
const SHORTEST_MS: u64 = 60_000;

/// Share of the directions of cables without a reading above which the counters do not suffice.
const MAX_UNREAD_SHARE: f64 = 0.1;

/// Other causes of a slow job, and how to look for them on its hosts.
const OTHER_CAUSES: [&str; 4] = [
    "GPUs that run slower than others: `nvidia-smi -q -d PERFORMANCE,CLOCK`, `rocm-smi`; Xid errors in `dmesg`",
    "the way from GPU to adapter: `rsmctl gpu check`, `rsmctl gpu hints HOST`, PCIe width in `lspci -vv`",
    "which rank waits for which: `NCCL_DEBUG=INFO`, `py-spy dump` on the slowest rank",
    "what is not InfiniBand: storage, data loaders, other jobs on the host",
];

/// Inputs that a verdict lacks.
#[derive(Default)]
pub(super) struct MissingInputs {
    texts: Vec<String>,
    /// Whether the lack of evidence proves nothing without these inputs.
    is_essential: bool,
}

impl MissingInputs {
    fn add_minor(&mut self, text: String) {
        self.texts.push(text);
    }

    fn add_essential(&mut self, text: String) {
        self.texts.push(text);
        self.is_essential = true;
    }
}

/// Lists the unknown inputs about the job and the time. `unread` is the number of used directions
/// of cables without a reading.
pub(super) fn missing(question: &Question<'_>, case: &Case<'_>, unread: usize) -> MissingInputs {
    let mut missing = MissingInputs::default();
    let job = case.job;
    for text in job.unknown.iter().take(MAX_UNKNOWN) {
        missing.add_essential(text.clone());
    }
    let more = job.unknown.len().saturating_sub(MAX_UNKNOWN);
    if more > 0 {
        missing.add_essential(format!("{more} more names lead to no host"));
    }
    if job.unsearched > 0 {
        missing.add_essential(format!(
            "names that were not searched for in descriptions: {}; at most {MAX_DESCRIPTION_SEARCHES} are",
            job.unsearched
        ));
    }
    let published = question.published;
    match (&published.snapshot.role, published.plan()) {
        (Role::Master, Some(_)) => {}
        (Role::Master, None) => missing.add_essential("no routes are in force yet".to_owned()),
        (Role::Standby { master }, _) => missing.add_essential(format!(
            "this manager stands by: ask the master at LID {}",
            master.lid
        )),
        _ => missing.add_essential("the subnet has not been read yet".to_owned()),
    }
    if published.snapshot.converging {
        missing.add_minor("tables are being written: paths may just be changing".to_owned());
    }
    let directions = case.used.directions.len();
    if !question.is_collecting {
        missing.add_essential(
            "no counters are read (`counters.enabled`): errors and waits are not known".to_owned(),
        );
    } else if unread as f64 > MAX_UNREAD_SHARE * directions as f64 {
        missing.add_essential(format!(
            "{unread} of {directions} directions of cables have no reading of their counters"
        ));
    } else if unread > 0 {
        missing.add_minor(format!(
            "{unread} of {directions} directions of cables have no reading of their counters"
        ));
    }
    add_late_inputs(&mut missing, question, case.used.known_from_unix_ms);
    missing.texts.extend(case.gaps());
    missing
}

/// Adds the inputs that are known for a part of the questioned time only. Routes are known from
/// `routes_from_unix_ms`, in milliseconds since the Unix epoch.
fn add_late_inputs(missing: &mut MissingInputs, question: &Question<'_>, routes_from_unix_ms: u64) {
    let span = question.now_unix_ms.saturating_sub(question.since_unix_ms);
    if span < SHORTEST_MS {
        missing.add_essential(format!(
            "{} s are too short for counters: a minute is needed",
            span / 1000
        ));
    }
    let is_late = |from: u64| from > question.since_unix_ms + SHORTEST_MS;
    let mut add = |from: u64, text: String| {
        let known = question.now_unix_ms.saturating_sub(from);
        match known < span / 2 {
            true => missing.add_essential(text),
            false => missing.add_minor(text),
        }
    };
    let at = |unix_ms| rsm_api::timestamp(unix_ms);
    let (events_from, counters_from) =
        (question.events_from_unix_ms, question.counters_from_unix_ms);
    if routes_from_unix_ms > question.since_unix_ms {
        let from = at(routes_from_unix_ms);
        let text = format!("routes changed often: paths are known since {from} only");
        add(routes_from_unix_ms, text);
    }
    if is_late(events_from) {
        let text = format!("events are known since {} only", at(events_from));
        missing.add_essential(text);
    } else if is_late(counters_from) {
        let text = format!("counters are known since {} only", at(counters_from));
        add(counters_from, text);
    }
}

/// The answer derived from all evidence. `is_cut_by_partitions` says whether partitions keep half of
/// the job apart: the verdict is then about configuration, whatever the links show.
pub(super) fn judgement(
    question: &Question<'_>,
    case: &Case<'_>,
    mut found: Vec<Evidence>,
    is_cut_by_partitions: bool,
    missing: MissingInputs,
) -> v1::Judgement {
    rank(case, &mut found);
    let heaviest = found.first().map_or(0, |one| one.kind.weight());
    let points_to = |bearing| found.iter().find(move |one| one.kind.row().2 == bearing);
    let explained = points_to(v1::BlameBearing::Configuration).or_else(|| {
        let mut hosts = found.iter();
        hosts.find(|one| matches!(one.kind, Kind::SlowReceiver | Kind::Incast))
    });
    let is_known = case.job.unknown.is_empty();
    let verdict = match explained {
        Some(_) if is_cut_by_partitions => BlameVerdict::No,
        _ if heaviest >= LIKELY => BlameVerdict::Likely,
        Some(_) if is_known => BlameVerdict::No,
        _ if missing.is_essential => BlameVerdict::CannotSay,
        _ if heaviest >= UNLIKELY => BlameVerdict::Unlikely,
        _ => BlameVerdict::No,
    };
    let links = case.used.cables() as u64;
    let first = || {
        found
            .first()
            .map_or_else(String::new, |one| sentence(case, one))
    };
    let unpartitioned = found.iter().find(|one| one.kind == Kind::NoPartition);
    let summary = match (verdict, explained) {
        (BlameVerdict::Likely, _) => match unpartitioned {
            Some(cause) => format!("{}; besides, {}", first(), sentence(case, cause)),
            None => first(),
        },
        (BlameVerdict::Unlikely, _) => first(),
        (BlameVerdict::No, Some(cause)) => match cause.kind.row().2 {
            v1::BlameBearing::Configuration => {
                let cause = sentence(case, cause);
                let besides = match heaviest >= LIKELY {
                    true => format!("; besides, {}", first()),
                    false => String::new(),
                };
                format!("not a broken fabric, but configuration: {cause}{besides}")
            }
            _ => format!("the fabric delivers: {}", sentence(case, cause)),
        },
        (BlameVerdict::No, None) if links == 1 => "nothing on this link moved".to_owned(),
        (BlameVerdict::No, None) => format!("nothing on these {} links moved", thousands(links)),
        _ => format!(
            "nothing found, but {}",
            missing.texts.first().map_or("", |text| text)
        ),
    };
    let is_innocent = matches!(verdict, BlameVerdict::No | BlameVerdict::Unlikely);
    let next = OTHER_CAUSES
        .iter()
        .filter(|_| is_innocent && explained.is_none());
    v1::Judgement {
        verdict: verdict.into(),
        summary,
        more: found.len().saturating_sub(MAX_EVIDENCE) as u64,
        evidence: first_pieces(&found, [explained, unpartitioned])
            .map(|one| shown(case, one))
            .collect(),
        missing: missing.texts,
        next: next.map(|&text| text.to_owned()).collect(),
        hosts: case.job.hosts.len() as u64,
        ports: case.job.ports.len() as u64,
        links,
        since_unix_ms: question.since_unix_ms,
        at_unix_ms: question.now_unix_ms,
        generation: question.published.generation,
    }
}

/// At most [`MAX_EVIDENCE`] pieces: the first ones, and those that the summary names.
fn first_pieces<'a>(
    found: &'a [Evidence],
    named: [Option<&'a Evidence>; 2],
) -> impl Iterator<Item = &'a Evidence> {
    let is_named = move |one: &Evidence| {
        let named = named.into_iter().flatten();
        { named }.any(|named| std::ptr::eq(named, one))
    };
    let (first, rest) = found.split_at(found.len().min(MAX_EVIDENCE));
    let rest: Vec<&Evidence> = rest.iter().filter(|one| is_named(one)).collect();
    first.iter().take(MAX_EVIDENCE - rest.len()).chain(rest)
}

/// Removes repeated pieces, and sorts the remaining ones: the heaviest first; pieces of one kind by
/// the number of the job's ports behind the part, the most first.
fn rank(case: &Case<'_>, found: &mut Vec<Evidence>) {
    let mut seen = BTreeSet::new();
    found.retain(|one| match one.kind {
        Kind::OperatorActed | Kind::ManagerChanged => true,
        // Several counters of one port are several pieces. Both directions of a link can yield the
        // same piece.
        _ => seen.insert((one.kind, one.place.clone(), one.text.clone())),
    });
    found.sort_by_cached_key(|one| {
        let behind = std::cmp::Reverse(ports_behind(case, &one.place));
        let weight = std::cmp::Reverse(one.kind.weight());
        (
            weight,
            one.kind,
            behind,
            one.place.clone(),
            one.text.clone(),
        )
    });
}

fn ports_behind(case: &Case<'_>, place: &Place) -> u32 {
    match place {
        Place::Cable(a, b) => case.used.ports_behind(*a, *b),
        Place::Port(_) | Place::Node(_) | Place::Hosts(_) | Place::Subnet => 0,
    }
}

/// The part, the observation, and the number of the job's ports behind the part.
fn sentence(case: &Case<'_>, one: &Evidence) -> String {
    let place = place_name(case, &one.place);
    let behind = match ports_behind(case, &one.place) {
        0 => String::new(),
        behind => format!(
            ", on the way to {} of {} ports",
            thousands(behind.into()),
            thousands(case.job.ports.len() as u64)
        ),
    };
    match place.as_str() {
        "" => one.text.clone(),
        place => format!("{place}: {}{behind}", one.text),
    }
}

fn place_name(case: &Case<'_>, place: &Place) -> String {
    match place {
        Place::Cable(a, b) => {
            // The end that a command names comes first.
            let near = case.near_end(*a, *b);
            let far = if near == *a { *b } else { *a };
            format!("{} - {}", case.port_name(near), case.port_name(far))
        }
        Place::Port(port) => case.port_name(*port),
        Place::Node(node) => {
            let expected = &case.published.snapshot.expected;
            expected.name(case.published.fabric(), *node)
        }
        Place::Hosts(hosts) => hosts.clone(),
        Place::Subnet => String::new(),
    }
}

fn shown(case: &Case<'_>, one: &Evidence) -> v1::BlameEvidence {
    let (kind, weight, bearing) = one.kind.row();
    let port = match one.place {
        Place::Cable(a, b) => Some(case.near_end(a, b)),
        Place::Port(port) => Some(port),
        Place::Node(_) | Place::Hosts(_) | Place::Subnet => None,
    };
    v1::BlameEvidence {
        kind: kind.to_owned(),
        bearing: bearing.into(),
        weight,
        place: place_name(case, &one.place),
        port: port.map(|port| api_key(port).into()),
        text: one.text.clone(),
        from_unix_ms: one.from_unix_ms,
        remedy: one.remedy.clone(),
        ports_behind: ports_behind(case, &one.place).into(),
    }
}
