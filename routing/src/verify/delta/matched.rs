//! Matches the switches and LIDs of two fabrics, and finds the differences.

use fixedbitset::FixedBitSet;
use rsm_ids::{Guid, Lid};

use super::super::tally::Tally;
use super::found::ExaminedPairs;
use super::side::Side;
use super::{Inconclusive, Point};
use crate::topology::{Destination, PortUse, SwitchIdx};

/// The switches of two fabrics by each other's numbers, and the differences between the fabrics.
pub(super) struct Matched {
    /// The earlier number of each switch of the later fabric; `None` if the switch is new.
    then: Vec<Option<SwitchIdx>>,
    /// The later number of each switch of the earlier fabric; `None` if the switch has gone.
    now: Vec<Option<SwitchIdx>>,
    /// Whether both fabrics have the same switches, with the same numbers.
    has_same_numbers: bool,
    /// The switches of the later fabric whose cables or end ports may differ; `None` if those of
    /// any switch may.
    changed: Option<FixedBitSet>,
    /// The LIDs that lead to another port than before, are new, or have gone.
    pub(super) moved_lids: Vec<Lid>,
    /// The elements of `moved_lids`, as a set.
    is_moved_lid: FixedBitSet,
    /// The switches of the later fabric that are new, or at which other ports start packets.
    changed_starts: FixedBitSet,
}

impl Matched {
    pub(super) fn new(before: &Side<'_>, after: &Side<'_>) -> Matched {
        let mut matched = Matched {
            then: vec![None; after.topology.switch_count()],
            now: vec![None; before.topology.switch_count()],
            has_same_numbers: true,
            changed: None,
            moved_lids: Vec::new(),
            is_moved_lid: FixedBitSet::with_capacity(1 << 16),
            changed_starts: FixedBitSet::with_capacity(after.topology.switch_count()),
        };
        for now in after.topology.indices() {
            let guid = after.topology.switch(now).guid;
            let is_same = |then: &SwitchIdx| before.topology.switch(*then).guid == guid;
            // Nearly every switch keeps its number: try that one first.
            let same_number = (now.index() < matched.now.len()).then_some(now);
            let then = same_number
                .filter(is_same)
                .or_else(|| before.topology.switch_by_guid(guid));
            matched.then[now.index()] = then;
            matched.has_same_numbers &= then == Some(now);
            if let Some(then) = then {
                matched.now[then.index()] = Some(now);
            }
        }
        let changes = after.topology.changes_since(before.topology.id());
        match changes {
            Some(changes) => matched.compare_at(changes, before, after),
            None => matched.compare_all(before, after),
        }
        matched
    }

    /// Finds the changes at switches with these GUIDs; all other switches are unchanged.
    fn compare_at(&mut self, guids: &[Guid], before: &Side<'_>, after: &Side<'_>) {
        let mut changed = FixedBitSet::with_capacity(self.then.len());
        let mut lids: Vec<Lid> = Vec::new();
        for &guid in guids {
            for topology in [before.topology, after.topology] {
                let switch = topology.switch_by_guid(guid);
                let own = switch.map_or(&[][..], |switch| topology.destinations_of(switch));
                lids.extend(own.iter().flat_map(Destination::lids));
            }
            if let Some(now) = after.topology.switch_by_guid(guid) {
                changed.insert(now.index());
                self.compare_starts(now, before, after);
            }
        }
        self.changed = Some(changed);
        lids.sort_unstable();
        lids.dedup();
        lids.into_iter()
            .for_each(|lid| self.compare_destination(lid, before, after));
    }

    /// Finds the changes at all switches.
    fn compare_all(&mut self, before: &Side<'_>, after: &Side<'_>) {
        for now in after.topology.indices() {
            self.compare_starts(now, before, after);
        }
        let top = before.topology.top_lid().max(after.topology.top_lid());
        for lid in (0..=top.0).map(Lid) {
            self.compare_destination(lid, before, after);
        }
    }

    /// Records whether other ports start packets at a switch than before.
    fn compare_starts(&mut self, now: SwitchIdx, before: &Side<'_>, after: &Side<'_>) {
        let then = self.then(now);
        if then.is_none_or(|then| before.starts(then) != after.starts(now)) {
            self.changed_starts.insert(now.index());
        }
    }

    /// Records whether a LID leads to another port than before.
    fn compare_destination(&mut self, lid: Lid, before: &Side<'_>, after: &Side<'_>) {
        let then = before.topology.destination_of(lid);
        let now = after.topology.destination_of(lid);
        let is_same = match (then, now) {
            (Some(then), Some(now)) => {
                self.then(now.switch) == Some(then.switch)
                    && (then.port, then.kind) == (now.port, now.kind)
            }
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            self.moved_lids.push(lid);
            self.is_moved_lid.insert(lid.index());
        }
    }

    /// The number of a switch in the earlier fabric; `None` if it is new.
    pub(super) fn then(&self, now: SwitchIdx) -> Option<SwitchIdx> {
        self.then[now.index()]
    }

    /// The switches at which unchanged entries may make turns that have become illegal: switches
    /// with two or more neighbours above, one of which was below.
    pub(super) fn turned(&self, before: &Side<'_>, after: &Side<'_>) -> Vec<SwitchIdx> {
        if self.keeps_order(before, after) {
            return Vec::new();
        }
        let is_turned = |switch: &SwitchIdx| {
            let above: Vec<_> = after
                .topology
                .groups(*switch)
                .map(|group| group.neighbour)
                .filter(|&high| after.is_above(high, *switch))
                .collect();
            let was_below = |high: SwitchIdx| match (self.then(high), self.then(*switch)) {
                (Some(high), Some(low)) => before.is_above(low, high),
                _ => false,
            };
            above.len() > 1 && above.into_iter().any(was_below)
        };
        after.topology.indices().filter(is_turned).collect()
    }

    /// Whether the switches that are in both fabrics have the same order in both.
    fn keeps_order(&self, before: &Side<'_>, after: &Side<'_>) -> bool {
        let then = before.orientation.highest_first().iter();
        let now = after.orientation.highest_first().iter();
        then.filter_map(|then| self.now[then.index()])
            .eq(now.copied().filter(|now| self.then(*now).is_some()))
    }

    /// Whether any two switches that are in both fabrics are connected in both or in neither.
    pub(super) fn keeps_components(&self, before: &Side<'_>, after: &Side<'_>) -> bool {
        let mut now_of = vec![None; before.topology.components().len()];
        let mut then_of = vec![None; after.topology.components().len()];
        after.topology.indices().all(|now| {
            let Some(then) = self.then(now) else {
                return true;
            };
            let then = before.topology.component_of(then);
            let now = after.topology.component_of(now);
            *now_of[then].get_or_insert(now) == now && *then_of[now].get_or_insert(then) == then
        })
    }

    /// The entries of a switch that differ or whose port leads elsewhere; all entries of a new
    /// switch. Moved LIDs are left out.
    pub(super) fn points_of(
        &self,
        switch: SwitchIdx,
        before: &Side<'_>,
        after: &Side<'_>,
    ) -> Vec<Point> {
        let counts = |lid: &Lid| after.is_in_use(*lid) && !self.is_moved_lid(*lid);
        let Some(then) = self.then(switch) else {
            let lids = (0..=after.topology.top_lid().0).map(Lid).filter(counts);
            return lids.map(|lid| (lid, switch)).collect();
        };
        let (was, is) = (before.table(then), after.table(switch));
        let mut lids: Vec<Lid> = was.differing(is).filter(counts).collect();
        if self.is_changed(switch)
            && let ports = self.moved_ports(then, switch, before, after)
            && ports.contains(&true)
        {
            lids.extend(after.lids_through(switch, &ports).filter(counts));
            lids.sort_unstable();
            lids.dedup();
        }
        lids.into_iter().map(|lid| (lid, switch)).collect()
    }

    /// Whether a port of a switch may lead elsewhere than before.
    fn is_changed(&self, switch: SwitchIdx) -> bool {
        let changed = self.changed.as_ref();
        changed.is_none_or(|changed| changed.contains(switch.index()))
    }

    /// For each port, whether it leads to another switch than before, or leads to a switch only
    /// before or only now.
    fn moved_ports(
        &self,
        then: SwitchIdx,
        now: SwitchIdx,
        before: &Side<'_>,
        after: &Side<'_>,
    ) -> [bool; 256] {
        let mut moved = [false; 256];
        let (was, is) = (
            before.topology.port_uses(then),
            after.topology.port_uses(now),
        );
        if self.has_same_numbers && was == is {
            return moved;
        }
        for (port, moved) in moved[..was.len().max(is.len())].iter_mut().enumerate() {
            let far = |uses: &[PortUse]| match uses.get(port) {
                Some(PortUse::Link { peer, .. }) => Some(*peer),
                _ => None,
            };
            let was = far(was).map(|peer| self.now[peer.index()].ok_or(peer));
            *moved = was != far(is).map(Ok);
        }
        moved
    }

    /// Whether a pair is examined together with all pairs of its LID or of its switch.
    pub(super) fn is_whole(&self, switch: SwitchIdx, lid: Lid) -> bool {
        self.is_moved_lid(lid) || self.changed_starts.contains(switch.index())
    }

    /// The LIDs whose pairs are examined regardless of points: new, moved and gone LIDs, or all
    /// LIDs if the sources of some switch have changed.
    pub(super) fn whole_lids(&self, before: &Side<'_>, after: &Side<'_>) -> Vec<Lid> {
        if self.changed_starts.is_clear() && self.now.iter().all(Option::is_some) {
            return self.moved_lids.clone();
        }
        let top = before.topology.top_lid().max(after.topology.top_lid());
        (1..=top.0).map(Lid).collect()
    }

    /// The switches, by earlier and by present numbers, from which all packets to a LID of
    /// [`Matched::whole_lids`] need examination.
    pub(super) fn whole_pairs(&self, lid: Lid) -> (Vec<SwitchIdx>, Vec<SwitchIdx>) {
        // There are fewer switches than LIDs.
        let switches = |count: usize| (0..count as u32).map(SwitchIdx);
        if self.is_moved_lid(lid) {
            return (
                switches(self.now.len()).collect(),
                switches(self.then.len()).collect(),
            );
        }
        let is_whole = |now: Option<SwitchIdx>| {
            now.is_none_or(|now| self.changed_starts.contains(now.index()))
        };
        let then = switches(self.now.len()).filter(|then| is_whole(self.now[then.index()]));
        let now = self.changed_starts.ones().map(|now| SwitchIdx(now as u32));
        (then.collect(), now.collect())
    }

    /// The switches at which other ports start packets than before; `None` if the switches or the
    /// numbers of channels have changed as well.
    pub(super) fn restarted(&self, before: &Side<'_>, after: &Side<'_>) -> Option<Vec<SwitchIdx>> {
        let is_alike = self.has_same_numbers
            && self.now.len() == self.then.len()
            && before.stride == after.stride;
        is_alike.then(|| {
            let switches = self.changed_starts.ones();
            switches.map(|now| SwitchIdx(now as u32)).collect()
        })
    }

    /// Whether a LID leads to another port than before, is new, or has gone.
    pub(super) fn is_moved_lid(&self, lid: Lid) -> bool {
        self.is_moved_lid.contains(lid.index())
    }

    /// The load of every channel, by present numbers: the load `proved` of the earlier tables,
    /// without the earlier paths of the examined pairs, and with their present paths.
    pub(super) fn loads(
        &self,
        before: &Side<'_>,
        after: &Side<'_>,
        proved: &Tally,
        examined: &[ExaminedPairs<'_>],
    ) -> Result<Vec<u32>, Inconclusive> {
        if proved.load.len() != before.channels() {
            return Err(Inconclusive::Tally);
        }
        let mut remaining = proved.load.clone();
        for (channel, paths) in examined.iter().flat_map(|pairs| pairs.then.loads.iter()) {
            let remaining = &mut remaining[channel];
            *remaining = remaining.checked_sub(paths).ok_or(Inconclusive::Tally)?;
        }
        let mut loads = self.renumbered(before, after, remaining)?;
        for (channel, paths) in examined.iter().flat_map(|pairs| pairs.now.loads.iter()) {
            loads[channel] += paths;
        }
        Ok(loads)
    }

    /// Translates the load of every channel from earlier to present channel numbers.
    fn renumbered(
        &self,
        before: &Side<'_>,
        after: &Side<'_>,
        loads: Vec<u32>,
    ) -> Result<Vec<u32>, Inconclusive> {
        if self.has_same_numbers
            && self.now.len() == self.then.len()
            && before.stride == after.stride
        {
            return Ok(loads);
        }
        let common_stride = before.stride.min(after.stride);
        // A channel that has gone must not carry load: its packets take other paths.
        let is_left = |(loads, now): (&[u32], &Option<SwitchIdx>)| {
            let gone = if now.is_some() { common_stride } else { 0 };
            loads[gone..].iter().any(|&remaining| remaining > 0)
        };
        let mut switches = loads.chunks(before.stride).zip(&self.now);
        if switches.any(is_left) {
            return Err(Inconclusive::Tally);
        }
        let mut renumbered = vec![0u32; after.channels()];
        for (renumbered, then) in renumbered.chunks_mut(after.stride).zip(&self.then) {
            if let Some(then) = then {
                let then = &loads[then.index() * before.stride..];
                renumbered[..common_stride].copy_from_slice(&then[..common_stride]);
            }
        }
        Ok(renumbered)
    }
}
