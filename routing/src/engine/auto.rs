//! `auto`: the engine that suits the fabric.
//!
//! The routing carries the chosen engine, as it carries the ranking, and the next plan passes it in
//! again: a fault never changes the engine.

use std::sync::Arc;

use rsm_ids::Guid;

use super::fabric_tree::has_ranks;
use super::{Engine, EngineError, EngineKind, Options, Routing, UpDn, nue};
use crate::quality::link_uses;
use crate::tables::Tables;
use crate::topology::Topology;

/// Picks an engine and says why.
///
/// A fabric with ranks, however irregular, gets [`FabricTree`](super::FabricTree). On any other
/// fabric `auto` computes the tables of each engine in `CANDIDATES` and takes those with the lowest
/// maximum link load. It also computes tables of [`Nue`](super::Nue) on one VL that follow an order
/// of the switches, and takes them only where their maximum link load is lower by a quarter,
/// because a fault changes most of their entries. Tables of `nue` that follow no order are offered
/// to the operator in the reason and never chosen: switches drop packets whenever such tables are
/// replaced, as after each fault. A fabric above 2^24 pairs of a switch and a channel gets `updn`
/// without a comparison, which would take too long. The choice stays until the fabric grows or
/// other roots are given: faults do not change the engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

/// The candidate engines for a fabric without ranks. The engine with the smaller repairs comes
/// first and wins a tie. Routes of both follow an order of the switches, so that old and new tables
/// can be mixed.
const CANDIDATES: [EngineKind; 2] = [EngineKind::FabricTree, EngineKind::UpDn];

/// The factor by which the maximum link load of an engine must exceed that of another before the
/// other one is worth its larger repairs.
const WORTH_LARGER_REPAIRS: f64 = 1.1;

/// The factor as in [`WORTH_LARGER_REPAIRS`], for an engine that computes all routes again in each
/// repair.
const WORTH_WHOLE_REPAIRS: f64 = 1.25;

/// The largest number of pairs of a switch and a channel at which engines are compared: the time
/// grows with it, to some four seconds on two cores at this bound. A bound on the clock would make
/// the choice depend on the load of the machine.
const MOST_WORK: usize = 1 << 24;

/// The engine that [`Auto`] chose, and the fabric for which it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoChoice {
    engine: EngineKind,
    /// The reason for the operator, a clause that begins with "because".
    why: String,
    /// The number of switches at the time: a larger fabric may want another engine.
    switches: usize,
    cables: usize,
    /// The GUIDs of the roots given at the time.
    roots: Vec<Guid>,
}

impl AutoChoice {
    fn new(engine: EngineKind, why: String, topology: &Topology, options: &Options) -> AutoChoice {
        AutoChoice {
            engine,
            why,
            switches: topology.switch_count(),
            cables: topology.link_count(),
            roots: options.root_guids.clone(),
        }
    }

    /// Whether the choice was made for this fabric, which may have lost parts since.
    fn holds(&self, topology: &Topology, options: &Options) -> bool {
        topology.switch_count() <= self.switches
            && topology.link_count() <= self.cables
            && options.root_guids == self.roots
            && !(options.shortest_only && self.engine == EngineKind::Nue)
    }

    /// Computes the routes of the chosen engine.
    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        match self.engine {
            EngineKind::Nue => nue::in_order(topology, options),
            engine => engine.engine().route(topology, options, previous),
        }
    }

    fn said(self: Arc<Self>, routing: Routing) -> Routing {
        Routing {
            reason: format!(
                "auto chose {} {}; {}",
                self.engine, self.why, routing.reason
            ),
            choice: Some(self),
            ..routing
        }
    }
}

impl Engine for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn guarantee(&self) -> &'static str {
        UpDn.guarantee()
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        let kept = options.previous_choice.as_ref();
        if let Some(kept) = kept.filter(|choice| choice.holds(topology, options))
            && let Ok(routing) = kept.route(topology, options, previous)
        {
            return Ok(kept.clone().said(routing));
        }
        let (engine, why, routing) = if has_ranks(topology, options) {
            let engine = EngineKind::FabricTree;
            let why = "because the switches stand in ranks".to_owned();
            let routing = engine.engine().route(topology, options, previous)?;
            (engine, why, routing)
        } else if topology.switch_count() * topology.group_count() > MOST_WORK {
            let why = "because it is free of credit loops on any fabric; others were not tried on \
                       a fabric of this size";
            let routing = UpDn.route(topology, options, previous)?;
            (EngineKind::UpDn, why.to_owned(), routing)
        } else {
            best(topology, options, previous)?
        };
        let choice = AutoChoice::new(engine, why, topology, options);
        Ok(Arc::new(choice).said(routing))
    }
}

/// A candidate's tables, and the maximum link load that they cause.
struct Tried {
    engine: EngineKind,
    /// The factor by which the maximum link load of the candidates before may exceed this one's.
    worth: f64,
    fullest: f64,
    routing: Routing,
}

/// The candidate with the lowest maximum link load, and the reason.
fn best(
    topology: &Topology,
    options: &Options,
    previous: Option<&Tables>,
) -> Result<(EngineKind, String, Routing), EngineError> {
    let tried_as = |engine: EngineKind, worth: f64, routing: Routing| Tried {
        engine,
        worth,
        fullest: fullest_link(topology, &routing.tables),
        routing,
    };
    let candidates = CANDIDATES.into_iter().map(|engine| {
        let routing = engine.engine().route(topology, options, previous)?;
        Ok(tried_as(engine, WORTH_LARGER_REPAIRS, routing))
    });
    let mut tried: Vec<Result<Tried, EngineError>> = candidates.collect();
    if tried.iter().all(Result::is_err)
        && let Some(Err(error)) = tried.pop()
    {
        // Where paths are too long for these engines, nue's paths are no shorter.
        return Err(error);
    }
    // An engine that does not fit the fabric is no candidate and is not offered.
    let anew = Options {
        previous_ranking: None,
        ..options.clone()
    };
    let nue = nue::on_one_lane(topology, &anew).ok();
    let offered = nue.as_ref().map(|nue| Offered::of(topology, nue.best()));
    let ordered = nue.and_then(nue::OneLane::into_ordered);
    let ordered = ordered.filter(|_| !options.shortest_only);
    tried.extend(ordered.map(|nue| Ok(tried_as(EngineKind::Nue, WORTH_WHOLE_REPAIRS, nue))));
    let loads: Vec<String> = tried
        .iter()
        .flatten()
        .map(|tried| format!("{:.0} with {}", tried.fullest, tried.engine))
        .collect();
    let mut why = format!("by the paths on the fullest link: {}", loads.join(", "));
    let lightest = tried.into_iter().reduce(|best, next| match (best, next) {
        (Ok(best), Ok(next)) if next.fullest * next.worth < best.fullest => Ok(next),
        (Err(_), Ok(next)) => Ok(next),
        (best, _) => best,
    });
    let lightest = lightest.expect("there are candidates")?;
    if let Some(offered) = offered {
        why += &offered.sentence(lightest.fullest);
    }
    Ok((lightest.engine, why, lightest.routing))
}

/// The maximum link load with the engine `nue` instead.
struct Offered {
    fullest: f64,
    /// Whether its routes follow an order of the switches.
    is_ordered: bool,
}

impl Offered {
    fn of(topology: &Topology, nue: &Routing) -> Offered {
        Offered {
            fullest: fullest_link(topology, &nue.tables),
            is_ordered: nue.ranking.is_some(),
        }
    }

    /// The end of the reason's sentence, or nothing unless the offer's maximum link load is clearly
    /// below `fullest`.
    fn sentence(&self, fullest: f64) -> String {
        if self.fullest * WORTH_LARGER_REPAIRS >= fullest {
            return String::new();
        }
        let price = if self.is_ordered {
            "move most routes at each repair"
        } else {
            "drop packets during each repair"
        };
        let lighter = self.fullest;
        format!("; routing.engine = \"nue\" would have {lighter:.0}, and {price}")
    }
}

/// The maximum link load in paths; a path on a slower link counts for more, by the ratio of the
/// fastest rate to the link's.
fn fullest_link(topology: &Topology, tables: &Tables) -> f64 {
    let uses = link_uses(topology, tables);
    let fastest = uses.iter().map(|link| link.rate).max().unwrap_or(1);
    let load = |paths: u64, rate: u32| paths as f64 * f64::from(fastest) / f64::from(rate.max(1));
    let loads = uses.iter().map(|link| load(link.paths, link.rate));
    loads.fold(0.0, f64::max)
}
