//! Footprints of plans: the parts of the hardware that changed up to a plan, which a standby reads
//! again.
//!
//! ```text
//! master: Sets sent, nodes that differ ──▶ Footprint ── at the end of a push ──▶ Footprints
//!                                                                                   │ store
//! standby: the parts to read again ◀── since the plan that it has read ◀────────────┘
//! ```
//!
//! A standby that reads these parts again knows the subnet as the master left it, and needs only a
//! few Gets after a small change. If footprints are missing between the last plan that the standby
//! has read and the latest plan, the standby reads the whole subnet.

use std::collections::VecDeque;
use std::sync::Arc;

use rsm_ids::{PortKey, PortNum};

use crate::fabric::{Fabric, Node};
use crate::{Parts, WrittenPart};

/// Maximum number of parts in one footprint; if a footprint has more, a standby reads the whole
/// subnet. Reading the maximum number of parts one by one costs a tenth of reading a subnet of
/// 11,000 hosts.
pub const PARTS_MAX: usize = 32_768;

/// Maximum number of footprints in the list. A standby reads the list once per second.
const FOOTPRINTS_MAX: usize = 256;

/// Maximum number of parts in all footprints of the list.
const LIST_PARTS_MAX: usize = 4 * PARTS_MAX;

/// The parts that changed from one plan to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// Number of the earlier plan; `None` for the first footprint of a master, which covers the
    /// whole subnet.
    pub since: Option<u64>,
    /// The number of the later plan.
    pub plan: u64,
    /// The parts that the master changed after the earlier plan, up to the later plan. `None` if
    /// there are more than [`PARTS_MAX`] parts, or if adaptive routing changed, whose tables only a
    /// full sweep reads.
    pub parts: Option<Parts>,
}

/// The last footprints, oldest first. Clones share the list.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Footprints(Arc<VecDeque<Arc<Footprint>>>);

impl Footprints {
    /// Builds the list from stored footprints, in any order.
    pub fn restored(mut all: Vec<Footprint>) -> Footprints {
        all.sort_by_key(|footprint| footprint.plan);
        Footprints(Arc::new(all.into_iter().map(Arc::new).collect()))
    }

    /// Number of the last plan; `None` if there are no footprints.
    pub fn last(&self) -> Option<u64> {
        self.0.back().map(|footprint| footprint.plan)
    }

    /// The footprints, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Footprint> {
        self.0.iter().map(|footprint| &**footprint)
    }

    /// Whether `other` shares this list; the content is not compared.
    pub fn is_same(&self, other: &Footprints) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The parts that the master changed after plan `read`, and the number of the last plan in the
    /// list. `None` if the list has no later plan, or if the standby must read the whole subnet:
    /// the footprints do not reach back to `read`, or do not list all parts, or list too many.
    pub fn since(&self, read: u64) -> Option<(u64, Parts)> {
        let mut parts = Parts::default();
        let mut covered = read;
        let new = self.iter().filter(|footprint| footprint.plan > read);
        for footprint in new {
            if footprint.since? > covered {
                return None;
            }
            parts.extend(footprint.parts.as_ref()?);
            if parts.len() > PARTS_MAX {
                return None;
            }
            covered = footprint.plan;
        }
        (covered > read).then_some((covered, parts))
    }

    /// Adds the next footprint, and removes the oldest ones beyond the limits.
    fn push(&mut self, footprint: Footprint) {
        let all = Arc::make_mut(&mut self.0);
        all.push_back(Arc::new(footprint));
        let size = |footprint: &Footprint| footprint.parts.as_ref().map_or(0, Parts::len);
        let mut parts: usize = all.iter().map(|footprint| size(footprint)).sum();
        while all.len() > FOOTPRINTS_MAX || parts > LIST_PARTS_MAX {
            let Some(oldest) = all.pop_front() else { break };
            parts -= size(&oldest);
        }
    }
}

/// Collects the parts of the next footprint, on the master.
#[derive(Debug, Default)]
pub struct FootprintRecorder {
    footprints: Footprints,
    /// The model at the last footprint; `None` before the first one.
    fabric: Option<Arc<Fabric>>,
    /// Parts set since the last footprint; `None` if there are too many, or if adaptive routing was
    /// set.
    written: Option<Parts>,
    /// Number of the last plan handed to the store.
    stored_plan: u64,
}

impl FootprintRecorder {
    /// The last footprints.
    pub fn footprints(&self) -> &Footprints {
        &self.footprints
    }

    /// Resets the recorder when this manager becomes master: the first footprint covers the whole
    /// subnet.
    pub fn begin(&mut self) {
        *self = FootprintRecorder::default();
    }

    /// Records that plan `plan` was handed to the store.
    pub fn record_stored_plan(&mut self, plan: u64) {
        self.stored_plan = plan;
    }

    /// Whether a plan handed to the store has no footprint yet.
    pub fn is_behind(&self) -> bool {
        self.footprints
            .last()
            .is_none_or(|last| last < self.stored_plan)
    }

    /// Records that a Set of `part` is about to be sent.
    pub fn note_set(&mut self, part: WrittenPart) {
        let Some(written) = &mut self.written else {
            return;
        };
        match part {
            WrittenPart::Port(port) => {
                written.ports.insert(port);
            }
            WrittenPart::Block(switch, block) => {
                written.blocks.insert((switch, block));
            }
            WrittenPart::Masks(switch, block) => {
                written.masks.insert((switch, block));
            }
            // A takeover with adaptive routing reads the whole subnet in any case.
            WrittenPart::AdaptiveRouting => {
                self.written = None;
                return;
            }
        }
        if written.len() > PARTS_MAX {
            self.written = None;
        }
    }

    /// Records that the hardware holds plan `plan`, and that `fabric` is the model of it.
    pub fn conclude(&mut self, plan: u64, fabric: &Arc<Fabric>) {
        let before = self.fabric.replace(fabric.clone());
        let mut parts = self.written.replace(Parts::default());
        if let (Some(parts), Some(before)) = (&mut parts, &before) {
            for (before, now) in before.differing(fabric) {
                add_differing_ports(parts, before, now);
            }
        }
        let parts = parts.filter(|parts| before.is_some() && parts.len() <= PARTS_MAX);
        let since = self.footprints.last().filter(|_| before.is_some());
        self.footprints.push(Footprint { since, plan, parts });
    }
}

/// Adds the ports that differ between `before` and `now`, and port 0 if the node's own attributes
/// differ.
fn add_differing_ports(parts: &mut Parts, before: Option<&Node>, now: Option<&Node>) {
    // A vanished node shows at the ports of its neighbors.
    let Some(now) = now else { return };
    let Some(before) = before else {
        parts.ports.insert(PortKey::new(now.guid, PortNum::ZERO));
        return;
    };
    if before.info != now.info || before.switch != now.switch || before.reported() != now.reported()
    {
        parts.ports.insert(PortKey::new(now.guid, PortNum::ZERO));
    }
    for (number, port) in (0..=u8::MAX).map(PortNum).zip(&now.ports) {
        if before.ports.get(number.index()) != Some(port) {
            parts.ports.insert(PortKey::new(now.guid, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rsm_ids::Guid;

    use super::*;

    fn footprint(since: Option<u64>, plan: u64, block: Option<u16>) -> Footprint {
        let parts = block.map(|block| Parts {
            blocks: BTreeSet::from([(Guid(1), block)]),
            ..Parts::default()
        });
        Footprint { since, plan, parts }
    }

    fn blocks(all: &Footprints, read: u64) -> Option<(u64, Vec<u16>)> {
        let (plan, parts) = all.since(read)?;
        Some((plan, parts.blocks.iter().map(|&(_, block)| block).collect()))
    }

    #[test]
    fn since_returns_all_changes_or_none() {
        let all = Footprints::restored(vec![
            footprint(Some(7), 9, Some(2)),
            footprint(Some(4), 7, Some(1)),
            footprint(None, 4, None),
            footprint(Some(9), 12, Some(2)),
        ]);
        assert_eq!(blocks(&all, 4), Some((12, vec![1, 2])));
        // The standby began to read while the next plan was being written.
        assert_eq!(blocks(&all, 5), Some((12, vec![1, 2])));
        assert_eq!(blocks(&all, 9), Some((12, vec![2])));
        assert_eq!(blocks(&all, 12), None, "nothing is new");
        assert_eq!(blocks(&all, 3), None, "the first one is of everything");
        let broken = vec![
            footprint(Some(4), 7, Some(1)),
            footprint(Some(9), 12, Some(2)),
        ];
        assert_eq!(blocks(&Footprints::restored(broken), 4), None);
        let whole = vec![footprint(Some(4), 7, Some(1)), footprint(Some(7), 9, None)];
        assert_eq!(blocks(&Footprints::restored(whole), 4), None);
    }

    #[test]
    fn footprints_contain_the_sets_since_the_previous_one_and_the_first_contains_no_list() {
        let fabric = Arc::new(Fabric::default());
        let mut recorder = FootprintRecorder::default();
        let set = |block| WrittenPart::Block(Guid(1), block);
        recorder.note_set(set(1));
        recorder.conclude(3, &fabric);
        recorder.note_set(set(2));
        recorder.conclude(5, &fabric);
        recorder.conclude(6, &fabric);
        assert_eq!(blocks(recorder.footprints(), 3), Some((6, vec![2])));
        assert_eq!(blocks(recorder.footprints(), 5), Some((6, vec![])));
        assert_eq!(blocks(recorder.footprints(), 2), None);
        recorder.note_set(WrittenPart::AdaptiveRouting);
        recorder.conclude(8, &fabric);
        assert_eq!(blocks(recorder.footprints(), 6), None);
        recorder.conclude(9, &fabric);
        assert_eq!(blocks(recorder.footprints(), 8), Some((9, vec![])));
        recorder.begin();
        recorder.conclude(10, &fabric);
        assert_eq!(blocks(recorder.footprints(), 9), None);
    }

    #[test]
    fn too_many_parts_require_a_full_read_and_old_footprints_are_removed() {
        let fabric = Arc::new(Fabric::default());
        let mut recorder = FootprintRecorder::default();
        recorder.conclude(1, &fabric);
        for block in 0..=PARTS_MAX {
            recorder.note_set(WrittenPart::Block(Guid(block as u64), 0));
        }
        recorder.conclude(2, &fabric);
        assert_eq!(recorder.footprints().since(1), None);
        for plan in 3..2000 {
            recorder.conclude(plan, &fabric);
        }
        assert_eq!(recorder.footprints().iter().count(), FOOTPRINTS_MAX);
        assert_eq!(recorder.footprints().since(2), None);
        assert!(recorder.footprints().since(1900).is_some());
    }
}
