//! The difference between two fabrics, as far as multicast trees depend on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rsm_ids::PortNum;

use super::reach::FAR;
use super::{Orientation, PortMask};
use crate::topology::{SwitchIdx, Topology};

/// The difference between a fabric and the previous one. Fields hold the new switch numbers, unless
/// they state otherwise.
#[derive(Debug, Default)]
pub struct BasisDelta {
    /// The switch numbers in both fabrics; `None` if they are equal.
    numbers: Option<Numbers>,
    /// Switches that have gone, by their old numbers.
    pub(super) gone: Vec<SwitchIdx>,
    /// Switches that are new.
    pub(super) added: Vec<SwitchIdx>,
    /// For each remaining switch, the ports that lead or led to a switch, and now lead to another
    /// port, to another switch, or in another direction (up or down).
    pub(super) ports: BTreeMap<SwitchIdx, PortMask>,
    /// The switches whose set of neighbours below has changed.
    pub(super) changed_below: BTreeSet<SwitchIdx>,
    /// The remaining switches with a neighbour above them that was not above them before.
    pub(super) newly_below: BTreeSet<SwitchIdx>,
    /// For each class of multicast LIDs, the switches whose path down to members of `newly_below`
    /// is new or shorter than before, each with these members.
    pub(super) shortened: Vec<HashMap<SwitchIdx, Vec<SwitchIdx>>>,
}

/// The switch numbers in the old and the new topology.
#[derive(Debug)]
struct Numbers {
    /// The new number of each old switch; `None` if it has gone.
    new: Vec<Option<SwitchIdx>>,
    /// The old number of each new switch; `None` if it is new.
    old: Vec<Option<SwitchIdx>>,
}

impl BasisDelta {
    /// Whether switch numbers have changed.
    pub fn is_renumbered(&self) -> bool {
        self.numbers.is_some()
    }

    /// The new number of a switch of the previous fabric; `None` if the switch has gone.
    pub fn number(&self, old: SwitchIdx) -> Option<SwitchIdx> {
        match &self.numbers {
            Some(numbers) => numbers.new[old.index()],
            None => Some(old),
        }
    }

    /// The earlier number of a switch; `None` if the switch is new.
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

    /// The number of hops up from `from` to each switch that upward paths reach, over
    /// multicast-capable switches.
    fn above(&self, from: SwitchIdx, is_capable: &[bool]) -> HashMap<SwitchIdx, u16> {
        let mut hops = HashMap::from([(from, 0)]);
        let mut queue = vec![from];
        let mut done = 0;
        while let Some(&switch) = queue.get(done) {
            done += 1;
            // There are fewer hops than switches, and fewer switches than LIDs.
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

/// The other end of a port that is cabled to another switch.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link {
    peer: SwitchIdx,
    peer_port: PortNum,
    /// Whether the other switch is above.
    is_up: bool,
}

/// Computes the difference between `before` and `after`, except `shortened`.
pub(super) fn between(before: &Side<'_>, after: &Side<'_>) -> BasisDelta {
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
            Some(old) => compare_links(&mut delta, before, old, after, switch),
            None => {
                delta.changed_below.insert(switch);
            }
        }
    }
    delta
}

/// Records in `delta` the differences between the links of a switch that both fabrics have.
fn compare_links(
    delta: &mut BasisDelta,
    before: &Side<'_>,
    old: SwitchIdx,
    after: &Side<'_>,
    new: SwitchIdx,
) {
    let now: BTreeMap<PortNum, Link> = after.links(new).collect();
    // `None` means that the port led to a switch that is gone now.
    let then: BTreeMap<PortNum, Option<Link>> = before
        .links(old)
        .map(|(port, link)| {
            let peer = delta.number(link.peer);
            (port, peer.map(|peer| Link { peer, ..link }))
        })
        .collect();
    let ports: PortMask = now
        .keys()
        .chain(then.keys())
        .copied()
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
        delta.changed_below.insert(new);
    }
    if !neighbours(&now, true).is_subset(&neighbours(&then, true)) {
        delta.newly_below.insert(new);
    }
}

/// Matches switches by GUID; both topologies are sorted by GUID.
fn match_switches(before: &Topology, after: &Topology) -> BasisDelta {
    let guids = |topology: &Topology| {
        let switches = topology.switches().iter();
        switches.map(|switch| switch.guid).collect::<Vec<_>>()
    };
    let (then, now) = (guids(before), guids(after));
    if then == now {
        return BasisDelta::default();
    }
    let find = |guids: &[_], guid| {
        let index = guids.binary_search(guid).ok();
        // There are fewer switches than LIDs.
        index.map(|index| SwitchIdx(index as u32))
    };
    let numbers = Numbers {
        new: then.iter().map(|guid| find(&now, guid)).collect(),
        old: now.iter().map(|guid| find(&then, guid)).collect(),
    };
    let gone = before
        .indices()
        .filter(|&old| numbers.new[old.index()].is_none());
    let added = after
        .indices()
        .filter(|&new| numbers.old[new.index()].is_none());
    BasisDelta {
        gone: gone.collect(),
        added: added.collect(),
        numbers: Some(numbers),
        ..BasisDelta::default()
    }
}

/// Whether the switches of both fabrics have the same order, from above to below.
fn has_same_order(before: &Side<'_>, after: &Side<'_>, delta: &BasisDelta) -> bool {
    let then = before
        .orientation
        .highest_first()
        .iter()
        .filter_map(|&old| delta.number(old));
    let now = after.orientation.highest_first().iter().copied();
    then.eq(now.filter(|&new| delta.earlier(new).is_some()))
}

/// Whether a switch has the same links to the same switches in both fabrics.
fn has_same_links(
    before: &Side<'_>,
    old: SwitchIdx,
    after: &Side<'_>,
    new: SwitchIdx,
    delta: &BasisDelta,
) -> bool {
    let (mut then, mut now) = (before.topology.groups(old), after.topology.groups(new));
    then.len() == now.len()
        && then.all(|then| {
            now.next().is_some_and(|now| {
                delta.number(then.neighbour) == Some(now.neighbour) && then.links == now.links
            })
        })
}

/// The value of [`BasisDelta::shortened`] for one class, whose capable switches are given for both
/// fabrics.
pub(super) fn shortened(
    (before, was_capable): (&Side<'_>, &[bool]),
    (after, is_capable): (&Side<'_>, &[bool]),
    delta: &BasisDelta,
) -> HashMap<SwitchIdx, Vec<SwitchIdx>> {
    let mut shortened: HashMap<SwitchIdx, Vec<SwitchIdx>> = HashMap::new();
    for &low in &delta.newly_below {
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
