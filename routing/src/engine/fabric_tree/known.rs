//! The known fabric, and all results that do not depend on which of its parts are missing.

use std::sync::Arc;

use super::super::Options;
use super::super::paths::{Neighbours, Tile};
use super::apex::Apexes;
use super::detours::{self, Detours};
use super::even::{Exceptions, Intact, even};
use super::live::Live;
use super::numbering::Numbering;
use super::turns::SharedSlots;
use super::{Plan, fill, lids};
use crate::topology::{Order, SwitchIdx, Topology};

/// A known fabric, and the results that depend only on it.
#[derive(Clone)]
pub(super) struct KnownFabric {
    pub(super) known: Arc<Topology>,
    /// The order of the tree.
    pub(super) order: Arc<Order>,
    pub(super) neighbours: Arc<Neighbours>,
    pub(super) apexes: Arc<Apexes>,
    pub(super) numbering: Arc<Numbering>,
    pub(super) shared_slots: Arc<SharedSlots>,
    /// For each switch, the round-robin list of the ports of all its uplinks.
    pub(super) uplink_rotations: Arc<Vec<Vec<u8>>>,
    /// The exceptions to the closed form.
    pub(super) exceptions: Arc<Exceptions>,
    /// The costs while nothing is missing.
    pub(super) intact: Vec<Arc<Tile>>,
    /// The explanation, for the operator, of how the order was made and how the load was evened
    /// out.
    pub(super) reason: String,
}

/// The present parts of a known fabric, and the results for them.
#[derive(Clone, Copy)]
pub(super) struct Present<'a> {
    pub(super) topology: &'a Topology,
    pub(super) live: &'a Live,
    /// The order on which the costs are based.
    pub(super) order: &'a Order,
    pub(super) detours: &'a Detours,
    pub(super) lids: &'a [u16],
    pub(super) gone: &'a [rsm_ids::Lid],
    pub(super) tiles: &'a [Arc<Tile>],
}

impl KnownFabric {
    /// Creates a known fabric without exceptions to the closed form; [`Self::even_out`] adds them.
    pub(super) fn new(
        known: &Arc<Topology>,
        order: &Arc<Order>,
        numbering: Numbering,
        apexes: Apexes,
        intact: Vec<Arc<Tile>>,
    ) -> KnownFabric {
        let shared_slots = SharedSlots::new(known, &numbering, rotations(known, order, &numbering));
        KnownFabric {
            neighbours: Arc::new(Neighbours::new(known, order)),
            apexes: Arc::new(apexes),
            shared_slots: Arc::new(shared_slots),
            uplink_rotations: Arc::new(fill::uplink_rotations(known, order)),
            exceptions: Arc::default(),
            known: known.clone(),
            order: order.clone(),
            numbering: Arc::new(numbering),
            intact,
            reason: String::new(),
        }
    }

    /// All inputs for the tables of the present parts.
    pub(super) fn plan<'a>(&'a self, now: Present<'a>) -> Plan<'a> {
        Plan {
            known: &self.known,
            present: now.topology,
            live: now.live,
            order: now.order,
            usual_order: &self.order,
            detours: now.detours,
            numbering: &self.numbering,
            shared_slots: &self.shared_slots,
            exceptions: &self.exceptions,
            lids: now.lids,
            gone: now.gone,
            uplink_rotations: &self.uplink_rotations,
            tiles: now.tiles,
            intact_tiles: (!now.live.is_complete()).then_some(&self.intact[..]),
        }
    }

    /// Computes the exceptions that even out the load on the complete fabric. `present` holds the
    /// present parts and their detours, which are reused if no part is missing.
    pub(super) fn even_out(&mut self, options: &Options, present: Option<(&Live, &Detours)>) {
        let everything = Live::of(&self.known, &self.known).expect("nothing has gone from it");
        let is_whole = |live: &Live| live.is_complete() && live.destinations.is_full();
        let detours = match present {
            Some((live, detours)) if is_whole(live) => detours.clone(),
            _ => self.intact_detours(&everything, options.connect_roots),
        };
        let lids = lids(&self.known, &everything, &self.numbering);
        let closed_form = self.plan(Present {
            topology: &self.known,
            live: &everything,
            order: &self.order,
            detours: &detours,
            lids: &lids,
            gone: &[],
            tiles: &self.intact,
        });
        let evened = even(&Intact {
            known: &self.known,
            live: &everything,
            order: &self.order,
            numbering: &self.numbering,
            tiles: &self.intact,
            detours: &detours,
            categories: &options.categories,
            closed_form: &|| closed_form.lfts(&self.known.indices().collect::<Vec<_>>()),
        });
        self.exceptions = Arc::new(evened.exceptions);
        self.reason.push_str(&evened.explanation);
    }

    /// The detours while nothing is missing.
    fn intact_detours(&self, everything: &Live, connect_roots: bool) -> Detours {
        let detours = Detours::of(&detours::Inputs {
            known: &self.known,
            present: &self.known,
            live: everything,
            numbering: &self.numbering,
            order: &self.order,
            tiles: &self.intact,
            apexes: &self.apexes,
            connect_roots,
        });
        detours.unwrap_or_else(|| Detours::none(&self.order))
    }
}

/// The pairs of divider and number of slots that the switches use: for the rotation over all
/// uplinks of a switch, and for the rotations over the links to one neighbour.
fn rotations<'a>(
    known: &'a Topology,
    order: &'a Order,
    numbering: &'a Numbering,
) -> impl Iterator<Item = (u32, usize)> + 'a {
    let level = |switch: SwitchIdx| order.levels()[switch.index()];
    known.indices().flat_map(move |switch| {
        let divider = numbering.dividers[switch.index()];
        let up = known
            .groups(switch)
            .filter(|group| level(group.neighbour) < level(switch))
            .map(|group| group.links.len())
            .sum();
        let mut parallel: Vec<(u32, usize)> = known
            .groups(switch)
            .map(|group| {
                let neighbour = group.neighbour;
                let divider = if level(neighbour) > level(switch) {
                    numbering.downward[neighbour.index()].links
                } else {
                    divider
                };
                (divider, group.links.len())
            })
            .collect();
        parallel.sort_unstable();
        parallel.dedup();
        parallel.into_iter().chain([(divider, up)])
    })
}
