//! The difference between two states of the subnet, as text for operators.

use std::collections::BTreeMap;

use rsm_api::v1::{Difference, DifferenceKind};
use rsm_ids::Guid;

use super::moments::Moments;
use super::state::{LinkRow, NodeRow, State};

/// End of a cable, as node GUID and port number.
type End = (u64, u32);

impl State {
    /// Whether the state has no nodes, as before the first sweep of the first run.
    pub fn is_unknown(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Differences of `now` from this state, and links that went down but are the same in both
    /// states; ordered by kind, then by node and port. The times come from `moments`, which must
    /// begin at this state.
    pub fn differences(&self, now: &State, moments: &Moments) -> Vec<Difference> {
        let pair = Pair {
            then: self,
            now,
            moments,
        };
        let mut all = Vec::new();
        pair.manager(&mut all);
        pair.nodes(&mut all);
        pair.links(&mut all);
        pair.flapped(&mut all);
        pair.findings(&mut all);
        all.sort_by_key(|difference| difference.kind);
        all
    }
}

/// Two states, and the changes between them.
struct Pair<'a> {
    then: &'a State,
    now: &'a State,
    moments: &'a Moments,
}

impl Pair<'_> {
    /// Description of a node, or its GUID if the description is empty.
    fn name(&self, guid: u64) -> String {
        let row = self.now.nodes.get(&guid).or(self.then.nodes.get(&guid));
        match row {
            Some(row) if !row.description.is_empty() => row.description.to_string(),
            _ => Guid(guid).to_string(),
        }
    }

    /// Formats an end of a cable as `leaf-03:7`.
    fn end(&self, (node, port): End) -> String {
        format!("{}:{port}", self.name(node))
    }

    fn manager(&self, all: &mut Vec<Difference>) {
        let (then, now) = (self.then, self.now);
        let plan = |state: &State| match state.plan {
            0 => String::new(),
            plan => plan.to_string(),
        };
        let role = |state: &State| state.role.clone();
        let engine = |state: &State| state.engine.clone();
        let moments = self.moments;
        // The status shows the generation of the snapshot, which also grows without a new plan.
        let of_plan = "the plan in force";
        for (kind, before, now, at_unix_ms) in [
            (DifferenceKind::Role, role(then), role(now), moments.role),
            (
                DifferenceKind::Engine,
                engine(then),
                engine(now),
                moments.engine,
            ),
            (
                DifferenceKind::Generation,
                plan(then),
                plan(now),
                moments.plan,
            ),
        ] {
            if before != now {
                let is_of_plan = kind == DifferenceKind::Generation;
                all.push(Difference {
                    kind: kind.into(),
                    subject: if is_of_plan { of_plan } else { "" }.to_owned(),
                    before,
                    now,
                    at_unix_ms,
                    ..Difference::default()
                });
            }
        }
    }

    fn nodes(&self, all: &mut Vec<Difference>) {
        let places = self.places();
        for (guid, row) in differing(&self.then.nodes, &self.now.nodes) {
            let of = |kind: DifferenceKind| Difference {
                kind: kind.into(),
                subject: self.name(*guid),
                node_guid: Guid(*guid).to_string(),
                at_unix_ms: self.moments.nodes.get(guid).copied().unwrap_or(0),
                ..Difference::default()
            };
            match row {
                (None, Some(now)) => all.push(Difference {
                    now: kind(now).to_owned(),
                    ..of(DifferenceKind::NodeAppeared)
                }),
                (Some(before), None) => all.push(Difference {
                    before: self
                        .described_place(before, places.get(guid).map_or(&[][..], Vec::as_slice)),
                    ..of(DifferenceKind::NodeVanished)
                }),
                (Some(before), Some(now)) => {
                    if before.description != now.description {
                        all.push(Difference {
                            before: before.description.to_string(),
                            now: now.description.to_string(),
                            ..of(DifferenceKind::NodeRenamed)
                        });
                    }
                    lids(before, now, &of(DifferenceKind::LidChanged), all);
                }
                (None, None) => {}
            }
        }
    }

    /// The other ends of the cables of each vanished node, by its GUID, in the order of its ports.
    fn places(&self) -> BTreeMap<u64, Vec<End>> {
        let is_gone = |node: u64| !self.now.nodes.contains_key(&node);
        let mut places: BTreeMap<End, End> = BTreeMap::new();
        for (&end, link) in &self.then.links {
            for (here, there) in [(end, link.peer), (link.peer, end)] {
                if is_gone(here.0) {
                    places.insert(here, there);
                }
            }
        }
        let mut by_node: BTreeMap<u64, Vec<End>> = BTreeMap::new();
        for ((node, _), there) in places {
            by_node.entry(node).or_default().push(there);
        }
        by_node
    }

    /// Describes the kind of a vanished node and its former place: `CA at leaf-03:7`.
    fn described_place(&self, row: &NodeRow, ends: &[End]) -> String {
        let shown: Vec<String> = ends.iter().take(2).map(|&end| self.end(end)).collect();
        let more = match ends.len().saturating_sub(shown.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match shown.is_empty() {
            true => kind(row).to_owned(),
            false => format!("{} at {}{more}", kind(row), shown.join(", ")),
        }
    }

    /// A difference about a cable, without values.
    fn of_link(&self, kind: DifferenceKind, end: End, peer: End) -> Difference {
        Difference {
            kind: kind.into(),
            subject: format!("{} - {}", self.end(end), self.end(peer)),
            node_guid: Guid(end.0).to_string(),
            port: Some(end.1),
            at_unix_ms: self.moments.links.get(&end).copied().unwrap_or(0),
            downs: self.moments.downs.get(&end).copied().unwrap_or(0),
            ..Difference::default()
        }
    }

    fn links(&self, all: &mut Vec<Difference>) {
        for (&end, row) in differing(&self.then.links, &self.now.links) {
            let gone = |before: &LinkRow| Difference {
                before: before.rate.to_string(),
                ..self.of_link(DifferenceKind::LinkVanished, end, before.peer)
            };
            let new = |now: &LinkRow| Difference {
                now: now.rate.to_string(),
                ..self.of_link(DifferenceKind::LinkAppeared, end, now.peer)
            };
            match row {
                (Some(before), Some(now)) if before.peer == now.peer => all.push(Difference {
                    before: before.rate.to_string(),
                    now: now.rate.to_string(),
                    ..self.of_link(DifferenceKind::LinkRate, end, now.peer)
                }),
                (before, now) => {
                    all.extend(before.map(gone));
                    all.extend(now.map(new));
                }
            }
        }
    }

    /// Adds links that went down and are the same as before.
    fn flapped(&self, all: &mut Vec<Difference>) {
        for &end in self.moments.downs.keys() {
            let rows = (self.then.links.get(&end), self.now.links.get(&end));
            if let (Some(before), Some(now)) = rows
                && before == now
            {
                all.push(Difference {
                    before: before.rate.to_string(),
                    now: now.rate.to_string(),
                    ..self.of_link(DifferenceKind::LinkFlapped, end, now.peer)
                });
            }
        }
    }

    fn findings(&self, all: &mut Vec<Difference>) {
        for (key, row) in differing(&self.then.findings, &self.now.findings) {
            let (kind, before, now) = match row {
                (Some(before), None) => (DifferenceKind::FindingCleared, before.to_string(), ""),
                (None, Some(now)) => (DifferenceKind::FindingRaised, String::new(), &**now),
                // The text of a finding may change while the finding stays.
                _ => continue,
            };
            all.push(Difference {
                kind: kind.into(),
                subject: key.0.clone(),
                node_guid: match key.1 {
                    0 => String::new(),
                    guid => Guid(guid).to_string(),
                },
                port: key.2,
                before,
                now: now.to_owned(),
                at_unix_ms: self.moments.findings.get(key).copied().unwrap_or(0),
                downs: 0,
            });
        }
    }
}

fn kind(row: &NodeRow) -> &'static str {
    match row.kind {
        1 => "CA",
        2 => "switch",
        3 => "router",
        _ => "node",
    }
}

/// Adds a difference for each port whose LID differs.
fn lids(before: &NodeRow, now: &NodeRow, of: &Difference, all: &mut Vec<Difference>) {
    let by_port = |row: &NodeRow| -> BTreeMap<u32, u32> {
        let lids = row.lids.iter();
        lids.map(|lid| (lid >> 16, lid & 0xffff)).collect()
    };
    let (before, now) = (by_port(before), by_port(now));
    for (port, (before, now)) in differing(&before, &now) {
        let text = |lid: Option<&u32>| lid.map_or_else(String::new, ToString::to_string);
        all.push(Difference {
            port: Some(*port),
            before: text(before),
            now: text(now),
            ..of.clone()
        });
    }
}

/// Keys with different values, each with both values; `None` for a key that one map lacks.
pub(super) fn differing<'a, K: Ord, V: PartialEq>(
    then: &'a BTreeMap<K, V>,
    now: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (&'a K, (Option<&'a V>, Option<&'a V>))> {
    let keys = then
        .keys()
        .chain(now.keys().filter(|key| !then.contains_key(*key)));
    let pairs = keys.map(|key| (key, (then.get(key), now.get(key))));
    pairs.filter(|(_, (before, now))| before != now)
}
