//! Remembers the switches that hold their planned multicast tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::Lid;
use rsm_model::mft_image::HeldMasks;
use rsm_routing::mcast::{BasisDelta, Mft};
use rsm_routing::topology::{SwitchIdx, Topology};

/// Held and planned table of each switch, by the number of the switch; `None` if the two tables
/// differ. Tables at the same addresses need no second comparison.
#[derive(Debug)]
pub(super) struct Agreed(Vec<Option<(Arc<Mft>, Arc<Mft>)>>);

impl Agreed {
    /// A record without comparisons, for this many switches.
    pub(super) fn none(switches: usize) -> Agreed {
        Agreed(vec![None; switches])
    }

    /// Compares the tables in `held` and `planned`, by switch number. `delta` maps the switch
    /// numbers of `self` to the new numbers. Also returns the multicast LIDs whose entries differ.
    pub(super) fn follow(
        &self,
        delta: &BasisDelta,
        held: &[Arc<Mft>],
        planned: &[Arc<Mft>],
    ) -> (Agreed, BTreeSet<Lid>) {
        let mut differing = BTreeSet::new();
        let mut agree = |(switch, (held, planned)): (u32, (&Arc<Mft>, &Arc<Mft>))| {
            let known = delta.earlier(SwitchIdx(switch));
            let known = known.and_then(|old| self.0[old.index()].as_ref());
            let is_known = known
                .is_some_and(|known| Arc::ptr_eq(&known.0, held) && Arc::ptr_eq(&known.1, planned));
            let agrees = is_known || held == planned;
            if !agrees {
                differing.extend(held.differing(planned));
            }
            agrees.then(|| (held.clone(), planned.clone()))
        };
        let agreed = (0..)
            .zip(held.iter().zip(planned))
            .map(&mut agree)
            .collect();
        (Agreed(agreed), differing)
    }
}

/// The table that each switch of `topology` holds, by its number; empty if it is not known.
pub(super) fn held_by_switch(topology: &Topology, held: &HeldMasks) -> Vec<Arc<Mft>> {
    let empty = Arc::new(Mft::default());
    let mut held = held.by_switch.iter().peekable();
    let switches = topology.switches().iter();
    // Both lists are in the order of GUIDs.
    switches
        .map(|switch| {
            while held.next_if(|(guid, _)| **guid < switch.guid).is_some() {}
            let found = held.next_if(|(guid, _)| **guid == switch.guid);
            found.map_or_else(|| empty.clone(), |(_, masks)| masks.clone())
        })
        .collect()
}
