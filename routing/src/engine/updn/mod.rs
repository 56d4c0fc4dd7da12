//! `updn`: up*/down* routing over any graph, without credit loops.
//!
//! All switches have one order ([`order`](super::order)), so that each link has a direction up. A
//! packet goes up, then down, and never up again: no credit loop can exist. A switch that has a
//! path down to a destination takes it, whatever the path up costs, because the packet may have
//! come from above. This module chooses the order.

mod candidates;
mod connect_roots;
mod dnup;
mod kept;
mod score;

pub(super) use candidates::{Unreached, kept_sentence};
pub use dnup::DnUp;
pub(super) use kept::remember;

use super::choose::Choice;
use super::fabric_tree::Apexes;
use super::paths::{self, Costs};
use super::spread::Spread;
use super::{AbsentRoots, Engine, EngineError, Options, Ranking, Routing, prepare};
use crate::lanes::Lanes;
use crate::tables::Tables;
use crate::topology::{Order, SwitchIdx, Topology};

/// Up*/down* over any graph: connects every pair and excludes credit loops.
///
/// With several roots, the ranking that is best for hosts may leave pairs of switches without a
/// path, if these carry no traffic of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpDn;

impl Engine for UpDn {
    fn name(&self) -> &'static str {
        "updn"
    }

    fn guarantee(&self) -> &'static str {
        "free of loops and of credit loops on any fabric, on one virtual lane; every connected pair \
         that starts or ends at a channel adapter or router is reached"
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        let roots = find_roots(topology, options)?;
        route(
            self.name(),
            topology,
            options,
            previous,
            &roots,
            |earlier| {
                let columns = by_index(topology);
                candidates::choose(topology, &roots, earlier, Unreached::Joined, &columns)
            },
        )
    }
}

/// Computes up*/down* tables on the ranking that `choose` returns; its argument is the earlier
/// ranking, if there is one.
fn route(
    engine: &'static str,
    topology: &Topology,
    options: &Options,
    previous: Option<&Tables>,
    roots: &[SwitchIdx],
    choose: impl FnOnce(Option<&super::Ranking>) -> Ranked + Send,
) -> Result<Routing, EngineError> {
    prepare::check_capacities(topology)?;
    prepare::in_pool(options, || {
        let earlier = options.previous_ranking.as_ref();
        let ranked = choose(earlier);
        if ranked.unreached > 0
            && let Some(switch) = paths::overlong(topology, &ranked.costs.tiles)
        {
            return Err(prepare::path_too_long(topology, switch));
        }
        let spread = Spread::new(topology, ranked.order.levels(), &options.listed);
        let choice = Choice {
            topology,
            tiles: &ranked.costs.tiles,
            order: Some(&ranked.order),
            spread: &spread,
            previous,
        };
        let origin = (&ranked.order, &*ranked.origin);
        Ok(Routing {
            tables: choice.tables(),
            engine,
            reason: format!("{engine}: {}", ranked.reason),
            ranks: Some(ranked.order.levels().to_vec()),
            ranking: Some(kept::remember(topology, origin, roots, earlier)),
            coordinates: None,
            lanes: Lanes::default(),
            choice: None,
        })
    })?
}

/// An order of the switches of a fabric, chosen now or kept.
pub(super) struct Rank {
    pub(super) order: Order,
    /// The explanation of how the order was made: "ranked …".
    pub(super) origin: String,
    /// The explanation together with the score, for the operator.
    pub(super) reason: String,
    /// The apexes whose detours complete the order, if any do.
    pub(super) mending: Option<Apexes>,
    /// The costs under the order; `None` if the order was kept.
    pub(super) costs: Option<Costs>,
}

/// A function that returns the switches to which costs are computed, column by column, for an order
/// of the switches.
pub(super) type Columns<'a> = &'a (dyn Fn(&Order) -> Vec<SwitchIdx> + Sync);

/// All switches as columns in the order of their indices, whatever the order.
fn by_index(topology: &Topology) -> impl Fn(&Order) -> Vec<SwitchIdx> + Sync {
    |_| topology.indices().collect()
}

/// Returns the earlier order if it has every switch of `topology`, else the best one.
pub(super) fn rank(
    topology: &Topology,
    roots: &[SwitchIdx],
    earlier: Option<&Ranking>,
    unreached: Unreached,
    columns: Columns<'_>,
) -> Rank {
    if let Some(earlier) = earlier
        && let Some(fitted) = kept::fit(topology, roots, earlier)
        && fitted.newcomers == 0
    {
        return Rank {
            mending: unreached.mending(topology, &fitted.order),
            origin: earlier.reason.clone(),
            reason: candidates::kept_sentence(topology, &fitted.order, &earlier.reason),
            order: fitted.order,
            costs: None,
        };
    }
    let ranked = candidates::choose(topology, roots, earlier, unreached, columns);
    // Find apexes also for an order that connects the roots itself, because a kept order has them.
    let mending = ranked
        .mending
        .or_else(|| unreached.mending(topology, &ranked.order));
    Rank {
        mending,
        order: ranked.order,
        origin: ranked.origin,
        reason: ranked.reason,
        costs: Some(ranked.costs),
    }
}

/// The given roots that the fabric has, without duplicates.
///
/// # Errors
/// [`EngineError::UnknownRoots`] if the fabric lacks some roots and the options refuse that.
pub(super) fn find_roots(
    topology: &Topology,
    options: &Options,
) -> Result<Vec<SwitchIdx>, EngineError> {
    let mut roots = Vec::with_capacity(options.root_guids.len());
    let mut unknown = Vec::new();
    for &guid in &options.root_guids {
        match topology.switch_by_guid(guid) {
            Some(switch) => roots.push(switch),
            None => unknown.push(guid),
        }
    }
    if !unknown.is_empty() && options.absent_roots == AbsentRoots::Refuse {
        unknown.sort_unstable();
        unknown.dedup();
        return Err(EngineError::UnknownRoots { guids: unknown });
    }
    roots.sort_unstable();
    roots.dedup();
    Ok(roots)
}

/// The chosen order, with the costs under it.
struct Ranked {
    order: Order,
    /// The apexes whose detours complete the order, if any do.
    mending: Option<Apexes>,
    costs: Costs,
    /// The number of pairs with an end port that have no path.
    unreached: u64,
    /// The explanation of how the order was made: "ranked …".
    origin: String,
    /// The explanation together with the score, for the operator.
    reason: String,
}
