//! `auto`: the engine that suits the fabric.
//!
//! The routing carries the choice, as it carries the ranking, and the next plan hands it in again:
//! a fault never changes the engine.

use std::sync::Arc;

use rsm_ids::Guid;

use super::fabric_tree::has_ranks;
use super::{Engine, EngineError, EngineKind, Options, Routing, UpDn, nue};
use crate::quality::link_uses;
use crate::tables::Tables;
use crate::topology::Topology;

/// Picks an engine, and says which and why.
///
/// A fabric that has ranks, however irregular, gets [`FabricTree`](super::FabricTree). On any other
/// fabric `auto` computes the tables of `CANDIDATES`, and takes those with the lightest fullest
/// link. It also computes those of [`Nue`](super::Nue) on one lane that follow an order of the
/// switches, and takes them where their fullest link is lighter by a quarter: a fault changes most
/// of their entries. It offers those of `nue` that follow no order, and does not choose them: where
/// they are replaced, as after each fault, switches drop packets. A fabric above 2^24 pairs of a
/// switch and a channel gets `updn` without a comparison, which would take long. The choice stays
/// until the fabric grows or other roots are given: faults do not change the engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

/// The engines for a fabric without ranks, the one with the smaller repairs first: it wins where
/// they are alike. Their routes follow an order of the switches, by which old and new tables can
/// stand side by side.
const CANDIDATES: [EngineKind; 2] = [EngineKind::FabricTree, EngineKind::UpDn];

/// How much fuller the fullest link of an engine may be than that of another one before the other
/// one is worth its larger repairs.
const WORTH_LARGER_REPAIRS: f64 = 1.1;

/// The same where a repair computes all routes anew.
const WORTH_WHOLE_REPAIRS: f64 = 1.25;

/// The most pairs of a switch and a channel with which several engines are compared: their time
/// grows with them, some four seconds on two cores here. A bound on the clock would make the choice
/// depend on the load of the machine.
const MOST_WORK: usize = 1 << 24;

/// The engine that [`Auto`] chose, and the fabric that it chose it for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoChoice {
    engine: EngineKind,
    /// "because …", for the operator.
    why: String,
    /// The size of the fabric: a larger one may want another engine.
    switches: usize,
    cables: usize,
    /// The root GUIDs given at the time.
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

    /// Whether it was made for this fabric, which may have lost parts since.
    fn holds(&self, topology: &Topology, options: &Options) -> bool {
        topology.switch_count() <= self.switches
            && topology.link_count() <= self.cables
            && options.root_guids == self.roots
            && !(options.shortest_only && self.engine == EngineKind::Nue)
    }

    /// The routes of the engine that was chosen.
    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        match self.engine {
            EngineKind::Nue => nue::in_order(topology, options, nue::MAX_COLUMNS),
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

/// A candidate's tables, and the paths on their fullest link.
struct Tried {
    engine: EngineKind,
    /// How much fuller the fullest link of those before may be.
    worth: f64,
    fullest: f64,
    routing: Routing,
}

/// The candidate with the lightest fullest link, and the reason.
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
        // Where paths are too long for these engines, those of nue are no shorter.
        return Err(error);
    }
    // An engine that does not fit is no candidate, and offers nothing.
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

/// The load with the engine `nue` instead.
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

    /// The end of a sentence, where its fullest link is clearly lighter than `fullest`.
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

/// The most paths on a link, those on slower links counted as often as the fastest link is faster.
fn fullest_link(topology: &Topology, tables: &Tables) -> f64 {
    let uses = link_uses(topology, tables);
    let fastest = uses.iter().map(|link| link.rate).max().unwrap_or(1);
    let load = |paths: u64, rate: u32| paths as f64 * f64::from(fastest) / f64::from(rate.max(1));
    let loads = uses.iter().map(|link| load(link.paths, link.rate));
    loads.fold(0.0, f64::max)
}
