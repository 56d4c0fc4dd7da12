//! Evidence in the events since the start of the question, and in findings.

use std::collections::{BTreeMap, BTreeSet};

use rsm_api::model::PortState;
use rsm_api::resolve::shell_word;
use rsm_api::v1::event::Change;
use rsm_api::{plain_names, v1};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_model::text::count;

use super::Case;
use super::evidence::{Evidence, Kind, Place};
use crate::history::moments::link_ends;

/// Time in milliseconds after a link came up, or the manager started, within which ports become
/// Active: a port that is not Active during that time has not lost its link.
const COMING_UP_MS: u64 = 60_000;

/// Maximum number of operator actions shown; the newest are shown.
const MAX_ACTIONS: usize = 5;

/// Kinds of findings that are no evidence of their own: the state, counters or events of the part
/// are already evidence.
const COVERED_FINDINGS: [&str; 6] = [
    "link-slow",
    "cable-missing",
    "host-missing",
    "switch-missing",
    "drained",
    "drained-in-use",
];

/// History of a cable since the start of the question.
#[derive(Clone, Copy, Default, Debug)]
struct CableHistory {
    /// Number of times that the cable went down.
    downs: u64,
    first_down_unix_ms: u64,
    is_down: bool,
    came_unix_ms: Option<u64>,
}

impl Case<'_> {
    /// The changes since the start of the question, each with its time in milliseconds since the
    /// Unix epoch.
    pub(super) fn events(&self) -> impl Iterator<Item = (u64, &Change)> {
        let events = self.events.iter();
        let events = events.filter(|event| event.at_unix_ms >= self.since_unix_ms);
        events.filter_map(|event| Some((event.at_unix_ms, event.change.as_ref()?)))
    }

    /// Finds evidence in the history of the cables on the job's paths.
    pub(super) fn find_link_events(&self, found: &mut Vec<Evidence>) {
        let mut stories: BTreeMap<(PortKey, PortKey), CableHistory> = BTreeMap::new();
        let mut started = 0;
        for (at, change) in self.events() {
            let (link, is_down, is_new) = match change {
                Change::ManagerStarted(_) => {
                    started = at;
                    continue;
                }
                Change::LinkVanished(link) => (link, true, false),
                Change::LinkAppeared(link) => (link, false, true),
                Change::LinkChanged(link) => (link, link.state() != PortState::Active, false),
                _ => continue,
            };
            let Some((a, b)) = link_ends(link).filter(|&(a, b)| self.used.ports_behind(a, b) > 0)
            else {
                continue;
            };
            let story = stories.entry((a, b)).or_default();
            let came = story.came_unix_ms.unwrap_or(0).max(started);
            let comes_up = matches!(change, Change::LinkChanged(_)) && at < came + COMING_UP_MS;
            let is_used = self.used.passes_at(a, b, at);
            if is_down && !story.is_down && !comes_up && is_used {
                story.downs += 1;
                if story.downs == 1 {
                    story.first_down_unix_ms = at;
                }
            }
            story.is_down = is_down;
            if is_new {
                story.came_unix_ms = Some(at);
            }
        }
        let with_nodes = self.lost_with_nodes();
        let mut of_nodes: BTreeMap<Guid, Vec<CableHistory>> = BTreeMap::new();
        for (ends, story) in stories {
            match with_nodes.get(&ends) {
                Some(&(node, times)) if (1..=times).contains(&story.downs) => {
                    of_nodes.entry(node).or_default().push(story);
                }
                _ => found.extend(self.cable_evidence(ends, &story)),
            }
        }
        let of_nodes = of_nodes.iter();
        found.extend(of_nodes.map(|(&node, stories)| self.node_evidence(node, stories)));
    }

    /// Evidence about used cables that went down together with their node; there is at least one.
    fn node_evidence(&self, node: Guid, stories: &[CableHistory]) -> Evidence {
        let links = count(stories.len(), "link", "links");
        let times = stories.iter().map(|story| story.downs).max();
        let times = count(times.unwrap_or(1), "time", "times");
        let is_down = stories.iter().any(|story| story.is_down);
        let expected = &self.published.snapshot.expected;
        let name = expected.name(self.published.fabric(), node);
        let (now, remedy) = match is_down {
            true => (
                "are down",
                "look at its power and its management port".to_owned(),
            ),
            false => (
                "are up again",
                format!(
                    "find out why it restarted, or lost its power: its cables are not the cause; \
                     `rsmctl flaps --node {}`",
                    shell_word(&plain_names(&name))
                ),
            ),
        };
        let from = stories.iter().map(|story| story.first_down_unix_ms).min();
        Evidence {
            kind: Kind::LinkFlapped,
            place: Place::Node(node),
            text: format!(
                "{links} of the job went down at once with it, {times}, and {now}: packets under \
                 way were lost"
            ),
            from_unix_ms: from.unwrap_or(0),
            remedy,
        }
    }

    /// Evidence in the history of one cable; `None` if it changed only while no path used it.
    fn cable_evidence(&self, (a, b): (PortKey, PortKey), story: &CableHistory) -> Option<Evidence> {
        let place = Place::cable(a, b);
        if story.downs == 0 {
            if !self.used.passes_at(a, b, u64::MAX) {
                return None;
            }
            return Some(Evidence {
                kind: Kind::LinkCame,
                place,
                text: "the link came up; before, it was not there".to_owned(),
                from_unix_ms: story.came_unix_ms?,
                remedy: String::new(),
            });
        }
        let times = count(story.downs, "time", "times");
        let now = match story.is_down {
            true => "is down",
            false => "is up again",
        };
        Some(Evidence {
            kind: Kind::LinkFlapped,
            place,
            text: format!("the link went down {times} and {now}: packets under way were lost"),
            from_unix_ms: story.first_down_unix_ms,
            remedy: self.repair_advice(a, b),
        })
    }

    /// Finds evidence in present findings, and in findings raised since the start of the question.
    pub(super) fn find_findings(&self, found: &mut Vec<Evidence>) {
        let held = self.published.findings.iter().map(|finding| &**finding);
        let past = self.events().filter_map(|(_, change)| match change {
            Change::FindingRaised(finding) => Some(finding),
            _ => None,
        });
        let mut seen = BTreeSet::new();
        for finding in held.chain(past) {
            let about = (&finding.kind, &finding.node_guid, finding.port);
            if seen.insert(about) {
                found.extend(self.finding_evidence(finding));
            }
        }
    }

    /// Evidence in one finding; `None` if it is not about a used part, or is no evidence.
    fn finding_evidence(&self, finding: &v1::Finding) -> Option<Evidence> {
        let node = finding.node_guid.parse().ok()?;
        let port = finding.port.and_then(|port| u8::try_from(port).ok());
        let port = port.map(|port| PortKey::new(node, PortNum(port)));
        let is_used = match port {
            // Port 0 of a switch stands for the switch.
            Some(port) if port.port == PortNum::ZERO => self.used.has_node(node),
            Some(port) => self.used.has_end(port),
            None => self.used.has_node(node),
        };
        if !is_used || COVERED_FINDINGS.contains(&finding.kind.as_str()) {
            return None;
        }
        let fabric = self.published.fabric();
        let peer = port.and_then(|port| fabric.port(fabric.find_port(port)?).peer);
        let is_new = finding.raised_unix_ms >= self.since_unix_ms;
        let kind = match (finding.kind.as_str(), finding.severity()) {
            // These findings stay for an hour after the last error, so a finding raised earlier
            // says nothing about the questioned time.
            ("link-errors" | "link-flapping", _) if !is_new => return None,
            // Errors count where packets arrive: the job has to send to the port.
            ("link-errors", _) if !peer.is_some_and(|peer| self.used.sends_from(peer)) => {
                return None;
            }
            ("link-errors", _) => Kind::LinkErrors,
            ("link-flapping", _) => Kind::LinkFlapped,
            (_, v1::Severity::Error) => Kind::FindingError,
            (_, v1::Severity::Warning) => Kind::FindingWarning,
            _ => return None,
        };
        Some(Evidence {
            kind,
            place: match (port, peer) {
                (Some(port), Some(peer)) => Place::cable(port, peer),
                (Some(port), None) if port.port != PortNum::ZERO => Place::Port(port),
                _ => Place::Node(node),
            },
            text: format!("finding {}: {}", finding.kind, finding.message),
            from_unix_ms: finding.raised_unix_ms,
            remedy: match (kind, port.zip(peer)) {
                (Kind::LinkErrors | Kind::LinkFlapped, Some((port, peer))) => {
                    self.repair_advice(port, peer)
                }
                _ => String::new(),
            },
        })
    }

    /// Finds events about routes, managers and operators.
    pub(super) fn find_context(&self, found: &mut Vec<Evidence>) {
        let mut routes: Option<(u64, u64)> = None;
        let mut acts = Vec::new();
        for (at, change) in self.events() {
            let context = |kind, text: String| Evidence {
                kind,
                place: Place::Subnet,
                text,
                from_unix_ms: at,
                remedy: String::new(),
            };
            match change {
                Change::RoutesChanged(_) => {
                    let (first, times) = routes.unwrap_or((at, 0));
                    routes = Some((first, times + 1));
                }
                Change::ManagerStarted(_) => found.push(context(
                    Kind::ManagerChanged,
                    "a subnet manager started: traffic goes on meanwhile".to_owned(),
                )),
                Change::OperatorActed(act) if act.refusal.is_empty() => {
                    let text = format!("{}: {} {}", act.operator, act.action, act.detail);
                    acts.push(context(Kind::OperatorActed, text.trim_end().to_owned()));
                }
                _ => {}
            }
        }
        found.extend(routes.map(|(first, times)| Evidence {
            kind: Kind::RoutesChanged,
            place: Place::Subnet,
            text: format!(
                "routes changed {}: packets of moved paths may come out of order once",
                count(times, "time", "times")
            ),
            from_unix_ms: first,
            remedy: String::new(),
        }));
        let skipped = acts.len().saturating_sub(MAX_ACTIONS);
        found.extend(acts.into_iter().skip(skipped));
    }

    /// Sentences about events since the start of the question that were not recorded one by one,
    /// because the history has a gap or too much changed at once.
    pub(super) fn gaps(&self) -> Vec<String> {
        let gap = |(_, change): (u64, &Change)| match change {
            Change::EventsUnrecorded(gap) => Some(format!("the history has a gap: {}", gap.reason)),
            Change::StateChanged(to) if to.reason.starts_with("too much changed at once") => {
                Some(to.reason.clone())
            }
            _ => None,
        };
        let gaps: BTreeSet<String> = self.events().filter_map(gap).collect();
        gaps.into_iter().collect()
    }
}
