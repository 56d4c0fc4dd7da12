//! Minimum MTU and rate along the paths between any two switches, according to the forwarding
//! tables.
//!
//! In most fabrics, all links between switches have equal limits, and the plan is proved to reach
//! all ports. The limits of a path are then those of any link, if both ports are in the same
//! connected part. In other fabrics, columns are computed.
//!
//! A column has the limits of all paths to one switch: from each switch to every LID at that
//! switch. The column is computed in one pass over the entries of these LIDs in the tables; each
//! path then takes one lookup. The pass takes as long as following a thousand single paths, and
//! therefore runs after a thousand requests, or ahead of time in [`Minima::prepare`], so that no
//! request waits for the pass after a re-route. If the paths of a pair of switches differ by LID
//! (parallel links of different rates, or tables that do not agree), the column marks the pair, and
//! the path of the single LID is followed.

pub(super) mod limits;
mod links;

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use rsm_ids::{Lid, PortNum};
use rsm_model::fabric::Fabric;
use rsm_plan::Plan;
use rsm_routing::tables::{NO_PATH, Tables};
use rsm_routing::topology::{Destination, PortUse, SwitchIdx, Topology};

use self::limits::Limits;
use self::links::{Attachment, Links, follow_attachments};
use super::changed_nodes::ChangedNodes;
use super::ends::{EndIx, Ends};

/// The limits of the paths in one snapshot.
#[derive(Debug)]
pub(crate) struct Minima {
    plan: Arc<Plan>,
    /// Attachment of each end, by [`EndIx`].
    attached: Vec<Attachment>,
    links: Arc<Links>,
    /// Whether packets between a host and any port connected to it are proved to arrive.
    hosts_proved: bool,
    /// Whether packets between connected switches are proved to arrive.
    switches_proved: bool,
    /// Columns by destination switch. All columns together have two bytes for each pair of
    /// switches.
    columns: Arc<[Column]>,
}

/// Number of paths to a switch that are followed one by one before its column is computed.
const PATHS_BEFORE_COLUMN: u32 = 1024;

/// The paths to one switch.
#[derive(Default, Debug)]
struct Column {
    /// Number of paths followed so far.
    followed: AtomicU32,
    /// Entries by source switch, once the column is computed.
    entries: OnceLock<Box<[Entry]>>,
}

/// Packed limits of the paths from one switch to the LIDs at another, or one of the constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry(u16);

impl Entry {
    /// Packets to no LID arrive. Packed limits are never 0, because no MTU has code 0.
    const UNREACHED: Entry = Entry(0);
    /// The limits depend on the LID, or packets to some LIDs do not arrive.
    const MIXED: Entry = Entry(u16::MAX);
    /// The entry is not computed yet.
    const UNKNOWN: Entry = Entry(u16::MAX - 1);
    /// The entry is being computed.
    const OPEN: Entry = Entry(u16::MAX - 2);

    /// The entry with these limits.
    fn of(limits: Limits) -> Entry {
        Entry(limits.pack())
    }

    /// The limits; `None` for one of the constants.
    fn limits(self) -> Option<Limits> {
        let has_limits = self != Self::UNREACHED && self.0 < Self::OPEN.0;
        has_limits.then(|| Limits::unpack(self.0))
    }

    /// The common value of two entries; [`Entry::MIXED`] if they differ.
    fn join(self, other: Entry) -> Entry {
        if self == other { self } else { Entry::MIXED }
    }

    /// The entry for paths that are one link longer.
    fn through(self, link: Limits) -> Entry {
        self.limits()
            .map_or(self, |limits| Entry::of(limits.meet(link)))
    }
}

impl Minima {
    /// Computes the limits of paths through the tables of `plan`, over the links of `fabric`. Keeps
    /// the columns of `previous` if neither tables nor links have changed. `is_proved` says whether
    /// the proof of `plan` is valid for `fabric`. If all ends are unchanged since `previous`,
    /// `changed` has the nodes that differ, and only links and attachments of these nodes are
    /// computed.
    pub(crate) fn new(
        (fabric, plan): (&Fabric, &Arc<Plan>),
        ends: &Ends,
        is_proved: bool,
        previous: Option<&Minima>,
        changed: Option<&ChangedNodes<'_>>,
    ) -> Minima {
        let topology = &plan.topology;
        let followed = previous
            .zip(changed)
            .filter(|(previous, _)| has_same_indices(&previous.plan.topology, topology));
        let links = followed.and_then(|(previous, changed)| {
            let topologies = (&*previous.plan.topology, &**topology);
            previous.links.follow(fabric, topologies, changed)
        });
        debug_assert!(
            links
                .as_ref()
                .is_none_or(|links| *links == Links::of(fabric, topology))
        );
        let links = links.unwrap_or_else(|| Links::of(fabric, topology));
        let same = previous
            .filter(|previous| Arc::ptr_eq(&previous.plan, plan) && *previous.links == links);
        let (links, columns) = match same {
            Some(previous) => (previous.links.clone(), previous.columns.clone()),
            None => {
                let columns = topology.indices().map(|_| Column::default()).collect();
                (Arc::new(links), columns)
            }
        };
        let attach = || {
            ends.all()
                .iter()
                .map(|end| Attachment::of(fabric, topology, end))
        };
        let attached = match followed {
            Some((previous, changed)) => {
                let mut attached = previous.attached.clone();
                follow_attachments(&mut attached, (fabric, topology), ends, changed);
                debug_assert!(attach().eq(attached.iter().copied()));
                attached
            }
            None => attach().collect(),
        };
        Minima {
            plan: plan.clone(),
            attached,
            links,
            hosts_proved: is_proved && plan.report.loop_free && plan.report.unreachable_pairs == 0,
            switches_proved: is_proved
                && plan.report.loop_free
                && plan.report.switch_pairs.unreachable == 0,
            columns,
        }
    }

    /// The switches of two ports; see [`Attachment::switch`].
    pub(crate) fn switches(&self, from: EndIx, to: EndIx) -> [Option<SwitchIdx>; 2] {
        [from, to].map(|end| self.attached[end.0 as usize].switch)
    }

    /// The service level that packets between two ports require; `None` if packets may have any
    /// service level.
    pub(crate) fn level(&self, from: EndIx, to: EndIx) -> Option<u8> {
        let [from, to] = self.switches(from, to);
        self.plan.routing.lanes.level(from?, to?)
    }

    /// The limits of packets from `from` to the LID `dlid` of `to`; `None` if the packets do not
    /// arrive.
    pub(crate) fn between(&self, from: EndIx, to: EndIx, dlid: Lid) -> Option<Limits> {
        let (a, b) = (
            &self.attached[from.0 as usize],
            &self.attached[to.0 as usize],
        );
        if from == to {
            return Some(a.own);
        }
        let (Some(source), Some(target)) = (a.switch, b.switch) else {
            return (a.neighbour == Some(b.at)).then(|| a.link.meet(b.link));
        };
        let proved = if a.is_port0() && b.is_port0() {
            self.switches_proved
        } else {
            self.hosts_proved
        };
        let between_switches = match self.links.uniform {
            Some(link) if proved => self.uniform(source, target, link),
            _ => match self.entry(source, target) {
                Some(Entry::UNREACHED) => None,
                None | Some(Entry::MIXED) => self.walk(source, dlid),
                Some(entry) => entry.limits(),
            },
        };
        Some(a.link.meet(between_switches?).meet(b.link))
    }

    /// The limits of paths between two switches, provided that every link has the limits `link` and
    /// packets arrive wherever cables lead; `None` if the switches are not connected.
    fn uniform(&self, source: SwitchIdx, target: SwitchIdx, link: Limits) -> Option<Limits> {
        let topology = &self.plan.topology;
        let are_connected = topology.component_of(source) == topology.component_of(target);
        are_connected.then_some(if source == target { Limits::NONE } else { link })
    }

    /// Computes all missing columns, in about a millisecond each. Any thread may call this method
    /// while other threads look up paths.
    pub(crate) fn prepare(&self) {
        if self.links.uniform.is_some() && self.hosts_proved && self.switches_proved {
            return;
        }
        for (target, column) in self.plan.topology.indices().zip(self.columns.iter()) {
            column.entries.get_or_init(|| self.column(target));
        }
    }

    /// The entry in the column of `target`; `None` if too few paths were followed so far to compute
    /// the column.
    fn entry(&self, source: SwitchIdx, target: SwitchIdx) -> Option<Entry> {
        let column = &self.columns[target.index()];
        let entries = match column.entries.get() {
            Some(entries) => entries,
            None if column.followed.fetch_add(1, Ordering::Relaxed) < PATHS_BEFORE_COLUMN => {
                return None;
            }
            None => column.entries.get_or_init(|| self.column(target)),
        };
        Some(entries[source.index()])
    }

    /// The limits of the path from a switch to one LID, which is followed switch by switch; `None`
    /// if packets do not arrive. A route that passes more switches than the subnet has is a loop.
    fn walk(&self, source: SwitchIdx, dlid: Lid) -> Option<Limits> {
        let topology = &self.plan.topology;
        let mut limits = Limits::NONE;
        let mut switch = source;
        for _ in 0..topology.switch_count() {
            let port = self.tables().lft(switch).port(dlid)?;
            match topology.port_use(switch, port) {
                PortUse::Destination(index) => {
                    let reached = &topology.destinations()[index as usize];
                    return reached.lids().any(|lid| lid == dlid).then_some(limits);
                }
                PortUse::Link { peer, .. } => {
                    limits = limits.meet(self.links.of_port(switch, port));
                    switch = peer;
                }
                PortUse::Unused => return None,
            }
        }
        None
    }

    fn tables(&self) -> &Tables {
        &self.plan.routing.tables
    }

    /// Computes the column of one switch: the entries by source switch.
    fn column(&self, target: SwitchIdx) -> Box<[Entry]> {
        let topology = &self.plan.topology;
        let lids = ranges(topology.destinations_of(target));
        let mut column = vec![Entry::UNKNOWN; topology.switch_count()].into_boxed_slice();
        column[target.index()] = self.at_target(target);
        let mut stack = Vec::new();
        for start in topology.indices() {
            stack.push(start);
            while let Some(&switch) = stack.last() {
                match column[switch.index()] {
                    Entry::UNKNOWN => {
                        // A switch is visited twice: first to visit the switches that it sends to,
                        // then to compute its own entry.
                        column[switch.index()] = Entry::OPEN;
                        let next = self
                            .exits(switch, &lids)
                            .ports()
                            .filter_map(|port| topology.peer(switch, port).map(|(peer, _)| peer));
                        stack.extend(next.filter(|peer| column[peer.index()] == Entry::UNKNOWN));
                    }
                    Entry::OPEN => {
                        column[switch.index()] = self.entry_from_next(switch, &lids, &column);
                        stack.pop();
                    }
                    _ => {
                        stack.pop();
                    }
                }
            }
        }
        column
    }

    /// The entry of the target itself: no limits if it forwards every LID to the port that has the
    /// LID, otherwise [`Entry::MIXED`].
    fn at_target(&self, target: SwitchIdx) -> Entry {
        let table = self.tables().lft(target);
        let destinations = self.plan.topology.destinations_of(target);
        let delivered = destinations.iter().all(|destination| {
            destination
                .lids()
                .all(|lid| table.entry(lid) == destination.port.0)
        });
        if delivered {
            Entry::of(Limits::NONE)
        } else {
            Entry::MIXED
        }
    }

    /// The entry of a switch, derived from the entries of the switches to which it forwards the
    /// LIDs.
    fn entry_from_next(&self, switch: SwitchIdx, lids: &[Range<usize>], column: &[Entry]) -> Entry {
        let exits = self.exits(switch, lids);
        let none = exits.some_dropped.then_some(Entry::UNREACHED);
        let entries = exits
            .ports()
            .map(|port| match self.plan.topology.peer(switch, port) {
                None => Entry::UNREACHED,
                Some((peer, _)) => match column[peer.index()] {
                    // Packets to a LID may loop, or the paths of two LIDs pass this switch in
                    // opposite directions.
                    Entry::OPEN | Entry::UNKNOWN => Entry::MIXED,
                    next => next.through(self.links.of_port(switch, port)),
                },
            });
        entries
            .chain(none)
            .reduce(Entry::join)
            .unwrap_or(Entry::UNREACHED)
    }

    /// The ports through which a switch forwards packets to `lids`, given as ranges.
    fn exits(&self, switch: SwitchIdx, lids: &[Range<usize>]) -> Exits {
        let table = self.tables().lft(switch);
        let mut exits = Exits::default();
        for lids in lids {
            let held = table.lids().clamp(lids.start, lids.end);
            // LIDs beyond the end of a table have no path.
            exits.some_dropped |= held < lids.end;
            for &port in table.pieces(lids.start..held).flatten() {
                if port == NO_PATH {
                    exits.some_dropped = true;
                } else {
                    exits.ports[usize::from(port / 64)] |= 1 << (port % 64);
                }
            }
        }
        exits
    }
}

/// Whether two topologies have the same switches and end ports, with the same indices.
fn has_same_indices(these: &Topology, those: &Topology) -> bool {
    let mut switches = these.switches().iter().zip(those.switches());
    these.changes_since(those.id()) == Some(&[])
        || (these.destinations() == those.destinations()
            && these.switch_count() == those.switch_count()
            && switches.all(|(this, that)| this.guid == that.guid))
}

/// The LIDs of `destinations`, which are sorted, as disjoint ranges.
fn ranges(destinations: &[Destination]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for destination in destinations {
        let start = destination.lid.index();
        let end = start + usize::from(destination.lmc.lids());
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => ranges.push(start..end),
        }
    }
    ranges
}

/// The ports through which a switch forwards packets to some LIDs.
#[derive(Default)]
struct Exits {
    /// Mask of the ports: bit n of word w stands for port 64 w + n.
    ports: [u64; 4],
    /// Whether a LID has no path.
    some_dropped: bool,
}

impl Exits {
    /// The ports, ascending.
    fn ports(&self) -> impl Iterator<Item = PortNum> + use<> {
        let words = self.ports;
        (0u8..4).flat_map(move |word| {
            let mut remaining = words[usize::from(word)];
            std::iter::from_fn(move || {
                let bit = (remaining != 0).then(|| remaining.trailing_zeros() as u8)?;
                remaining &= remaining - 1;
                Some(PortNum(word * 64 + bit))
            })
        })
    }
}

#[cfg(test)]
impl Minima {
    /// Whether both have the same attachments, links and proofs, so that they give the same
    /// answers.
    pub(crate) fn answers_as(&self, other: &Minima) -> bool {
        self.attached == other.attached
            && self.links == other.links
            && self.hosts_proved == other.hosts_proved
            && self.switches_proved == other.switches_proved
    }
}
