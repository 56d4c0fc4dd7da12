//! The difference of two fabrics, as far as trees can depend on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rsm_ids::PortNum;

use super::reach::FAR;
use super::{Orientation, PortMask};
use crate::topology::{SwitchIdx, Topology};

/// The difference of a fabric from the one before. Switches have their new numbers, except where a
/// field says otherwise.
#[derive(Debug, Default)]
pub struct GroundDelta {
    numbers: Option<Numbers>,
    /// Switches that have gone, by their old numbers.
    pub(super) gone: Vec<SwitchIdx>,
    /// Switches that are new.
    pub(super) came: Vec<SwitchIdx>,
    /// Ports of other switches that lead, or led, to a switch, and now lead to another port, to
    /// another switch, or in another direction.
    pub(super) ports: BTreeMap<SwitchIdx, PortMask>,
    /// Switches that lie above other neighbours than before.
    pub(super) lower: BTreeSet<SwitchIdx>,
    /// Earlier switches that lie below a neighbour that they did not lie below before.
    pub(super) hung: BTreeSet<SwitchIdx>,
    /// By class of multicast LIDs: the switches from which the way down to some of `hung` is
    /// shorter than before, or new, with those.
    pub(super) shortened: Vec<HashMap<SwitchIdx, Vec<SwitchIdx>>>,
}

/// Numbers of switches in one topology and another.
#[derive(Debug)]
struct Numbers {
    /// New numbers by old ones.
    new: Vec<Option<SwitchIdx>>,
    /// Old numbers by new ones.
    old: Vec<Option<SwitchIdx>>,
}

impl GroundDelta {
    /// Whether switches have other numbers than before.
    pub fn is_renumbered(&self) -> bool {
        self.numbers.is_some()
    }

    /// The new number of a switch of the fabric before, if it is still present.
    pub fn number(&self, old: SwitchIdx) -> Option<SwitchIdx> {
        match &self.numbers {
            Some(numbers) => numbers.new[old.index()],
            None => Some(old),
        }
    }

    /// The earlier number of a switch, if it was present.
    pub fn earlier(&self, new: SwitchIdx) -> Option<SwitchIdx> {
        match &self.numbers {
            Some(numbers) => numbers.old[new.index()],
            None => Some(new),
        }
    }
}

/// A fabric and its orientation.
pub(super) struct Side<'a> {
    topology: &'a Topology,
    orientation: &'a Orientation,
}

impl<'a> Side<'a> {
    pub(super) fn new(topology: &'a Topology, orientation: &'a Orientation) -> Side<'a> {
        Side {
            topology,
            orientation,
        }
    }

    /// The links of a switch: its port, the neighbour, the neighbour's port, and whether the
    /// neighbour lies above.
    fn links(&self, switch: SwitchIdx) -> impl Iterator<Item = (PortNum, Link)> + '_ {
        self.topology.groups(switch).flat_map(move |group| {
            let peer = group.neighbour;
            let is_up = self.orientation.is_above(peer, switch);
            group.links.iter().map(move |link| {
                let peer_port = link.peer_port;
                let to = Link {
                    peer,
                    peer_port,
                    is_up,
                };
                (link.port, to)
            })
        })
    }

    /// How many hops up each switch is from `from`, over switches that can multicast.
    fn above(&self, from: SwitchIdx, is_capable: &[bool]) -> HashMap<SwitchIdx, u16> {
        let mut hops = HashMap::from([(from, 0)]);
        let mut queue = vec![from];
        let mut done = 0;
        while let Some(&switch) = queue.get(done) {
            done += 1;
            // Fewer hops than switches, which are fewer than LIDs.
            let next = hops[&switch] + 1;
            for group in self.topology.groups(switch) {
                let high = group.neighbour;
                if is_capable[high.index()]
                    && self.orientation.is_above(high, switch)
                    && !hops.contains_key(&high)
                {
                    hops.insert(high, next);
                    queue.push(high);
                }
            }
        }
        hops
    }
}

/// The other end of a switch's port that is cabled to a switch.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link {
    peer: SwitchIdx,
    peer_port: PortNum,
    is_up: bool,
}

/// The difference of `after` from `before`, without ways that became shorter.
pub(super) fn between(before: &Side<'_>, after: &Side<'_>) -> GroundDelta {
    let mut delta = match_switches(before.topology, after.topology);
    let same_order = has_same_order(before, after, &delta);
    let mut changed: Vec<(SwitchIdx, Option<SwitchIdx>)> = Vec::new();
    for switch in after.topology.indices() {
        let old = delta.earlier(switch);
        let is_same = |old| same_order && has_same_links(before, old, after, switch, &delta);
        if !old.is_some_and(is_same) {
            changed.push((switch, old));
        }
    }
    for (switch, old) in changed {
        match old {
            Some(old) => note_links(&mut delta, before, old, after, switch),
            None => {
                delta.lower.insert(switch);
            }
        }
    }
    delta
}

/// Records the differences between the links of a switch that is in both fabrics.
fn note_links(
    delta: &mut GroundDelta,
    before: &Side<'_>,
    old: SwitchIdx,
    after: &Side<'_>,
    new: SwitchIdx,
) {
    let now: BTreeMap<PortNum, Link> = after.links(new).collect();
    // `None`: to a switch that is gone.
    let then: BTreeMap<PortNum, Option<Link>> = before
        .links(old)
        .map(|(port, link)| {
            let peer = delta.number(link.peer);
            (port, peer.map(|peer| Link { peer, ..link }))
        })
        .collect();
    let ports = now.keys().chain(then.keys()).copied();
    let ports: PortMask = ports
        .filter(|port| now.get(port) != then.get(port).and_then(Option::as_ref))
        .collect();
    if !ports.is_empty() {
        delta.ports.insert(new, ports);
    }
    let lost = then.values().any(Option::is_none);
    let then: Vec<Link> = then.into_values().flatten().collect();
    let now: Vec<Link> = now.into_values().collect();
    let neighbours = |links: &[Link], is_up: bool| -> BTreeSet<SwitchIdx> {
        let links = links.iter().filter(|link| link.is_up == is_up);
        links.map(|link| link.peer).collect()
    };
    if lost || neighbours(&then, false) != neighbours(&now, false) {
        delta.lower.insert(new);
    }
    if !neighbours(&now, true).is_subset(&neighbours(&then, true)) {
        delta.hung.insert(new);
    }
}

/// Both lists are in the order of GUIDs.
fn match_switches(before: &Topology, after: &Topology) -> GroundDelta {
    let guids = |topology: &Topology| {
        let switches = topology.switches().iter();
        switches.map(|switch| switch.guid).collect::<Vec<_>>()
    };
    let (then, now) = (guids(before), guids(after));
    if then == now {
        return GroundDelta::default();
    }
    let find = |guids: &[_], guid| {
        let index = guids.binary_search(guid).ok();
        // Fewer switches than LIDs.
        index.map(|index| SwitchIdx(index as u32))
    };
    let numbers = Numbers {
        new: then.iter().map(|guid| find(&now, guid)).collect(),
        old: now.iter().map(|guid| find(&then, guid)).collect(),
    };
    let gone = before.indices();
    let gone = gone.filter(|&old| numbers.new[old.index()].is_none());
    let came = after.indices();
    let came = came.filter(|&new| numbers.old[new.index()].is_none());
    GroundDelta {
        gone: gone.collect(),
        came: came.collect(),
        numbers: Some(numbers),
        ..GroundDelta::default()
    }
}

/// Whether all switches that are in both fabrics lie above and below each other as before.
fn has_same_order(before: &Side<'_>, after: &Side<'_>, delta: &GroundDelta) -> bool {
    let then = before.orientation.highest_first().iter();
    let then = then.filter_map(|&old| delta.number(old));
    let now = after.orientation.highest_first().iter().copied();
    then.eq(now.filter(|&new| delta.earlier(new).is_some()))
}

fn has_same_links(
    before: &Side<'_>,
    old: SwitchIdx,
    after: &Side<'_>,
    new: SwitchIdx,
    delta: &GroundDelta,
) -> bool {
    let (mut then, mut now) = (before.topology.groups(old), after.topology.groups(new));
    then.len() == now.len()
        && then.all(|then| {
            now.next().is_some_and(|now| {
                delta.number(then.neighbour) == Some(now.neighbour) && then.links == now.links
            })
        })
}

/// The switches from which the way down to some of `delta.hung` is shorter than before, over
/// switches that can multicast.
pub(super) fn shortened(
    (before, was_capable): (&Side<'_>, &[bool]),
    (after, is_capable): (&Side<'_>, &[bool]),
    delta: &GroundDelta,
) -> HashMap<SwitchIdx, Vec<SwitchIdx>> {
    let mut shortened: HashMap<SwitchIdx, Vec<SwitchIdx>> = HashMap::new();
    for &low in &delta.hung {
        let Some(old) = delta.earlier(low) else {
            continue;
        };
        let then = before.above(old, was_capable);
        for (high, hops) in after.above(low, is_capable) {
            let then = delta.earlier(high).and_then(|old| then.get(&old));
            if hops < then.copied().unwrap_or(FAR) {
                shortened.entry(high).or_default().push(low);
            }
        }
    }
    shortened
}
