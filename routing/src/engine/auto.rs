//! `auto`: the engine that suits the fabric.
//!
//! The routing contains the chosen engine and the ranking, and the next plan gets both as inputs,
//! so that a fault never changes the engine.

use std::sync::Arc;

use rsm_ids::Guid;

use super::fabric_tree::has_ranks;
use super::{Dor, Engine, EngineError, EngineKind, Options, Routing, Torus, UpDn, nue};
use crate::quality::link_uses;
use crate::tables::Tables;
use crate::topology::Topology;

/// Chooses an engine, and states the reason.
///
/// A fabric that has ranks, however irregular, gets [`FabricTree`](super::FabricTree). On any other
/// fabric `auto` computes the tables of `CANDIDATES`, and takes the tables with the lowest maximum
/// link load. `auto` also computes two kinds of tables with costlier repairs, and takes them only
/// if the maximum link load of the others is higher by more than a quarter: [`Nue`](super::Nue) on
/// one VL by an order of the switches, whose repairs compute all routes; and [`Dor`](super::Dor),
/// which follows no such order. The reason also names the loads of `nue` without an order, and of
/// [`Torus`](super::Torus), which needs service levels; `auto` never chooses these.
///
/// On a fabric with more than 2^24 pairs of a switch and a channel, `auto` compares `updn` only
/// with `dor` and with `nue`, whose paths to each switch are so few that they take only seconds,
/// and which must have less than a quarter of the maximum link load. The choice stays until the
/// fabric grows or other roots are given: faults do not change the engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

/// The candidate engines for a fabric without ranks. The engine with the smaller repairs comes
/// first, and wins ties. Routes of both engines follow an order of the switches, so that mixtures
/// of old and new tables are safe.
const CANDIDATES: [EngineKind; 2] = [EngineKind::FabricTree, EngineKind::UpDn];

/// The factor by which the maximum link load of earlier candidates must exceed that of a candidate
/// with larger repairs for that candidate to win.
const WORTH_LARGER_REPAIRS: f64 = 1.1;

/// The factor, as [`WORTH_LARGER_REPAIRS`], for an engine whose repairs compute all routes or make
/// switches drop packets.
const WORTH_WHOLE_REPAIRS: f64 = 1.25;

/// The factor, as [`WORTH_LARGER_REPAIRS`], for an engine that takes seconds for all routes.
const WORTH_SECONDS: f64 = 4.0;

/// The maximum number of pairs of a switch and a channel with which all engines are compared. The
/// comparison then takes about four seconds on two cores. The limit is no time, because the choice
/// must not depend on the load of the machine.
const MOST_WORK: usize = 1 << 24;

/// The maximum number of channels that all searches of `nue` together may examine on a larger
/// fabric: about five seconds.
const MOST_SEARCHED: usize = 1 << 29;

/// The maximum number of pairs of switches for which `dor` and `torus` are tried on a larger
/// fabric: each pair takes some bytes of memory.
const MOST_PAIRS: usize = 1 << 27;

/// The engine that [`Auto`] chose, and the size of the fabric and the roots for which it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoChoice {
    engine: EngineKind,
    /// The reason for the operator: a clause that begins with "because".
    why: String,
    /// The maximum number of paths to each switch that `nue` computes.
    paths: usize,
    /// The number of switches of the fabric: a larger fabric may need another engine.
    switches: usize,
    /// The number of cables of the fabric.
    cables: usize,
    /// The given root GUIDs.
    roots: Vec<Guid>,
}

impl AutoChoice {
    /// Whether the choice still applies: the fabric has not grown, and the options still permit it.
    fn holds(&self, topology: &Topology, options: &Options) -> bool {
        topology.switch_count() <= self.switches
            && topology.link_count() <= self.cables
            && options.root_guids == self.roots
            && (!options.shortest_only || takes_shortest_paths_of_an_order(self.engine))
    }

    /// Computes the routes of the chosen engine.
    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        match self.engine {
            EngineKind::Nue => nue::in_order(topology, options, self.paths),
            engine => engine.engine().route(topology, options, previous),
        }
    }

    /// The routing of the chosen engine, with this choice and its reason.
    pub(super) fn said(self: Arc<Self>, routing: Routing) -> Routing {
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
        let chosen = if has_ranks(topology, options) {
            let engine = EngineKind::FabricTree;
            Chosen {
                why: "because the switches stand in ranks".to_owned(),
                routing: engine.engine().route(topology, options, previous)?,
                engine,
                paths: nue::MAX_COLUMNS,
            }
        } else {
            best(topology, options, previous)?
        };
        let choice = AutoChoice {
            engine: chosen.engine,
            why: chosen.why,
            paths: chosen.paths,
            switches: topology.switch_count(),
            cables: topology.link_count(),
            roots: options.root_guids.clone(),
        };
        Ok(Arc::new(choice).said(chosen.routing))
    }
}

/// Whether the routes of a candidate engine are the shortest paths of an order of the switches.
fn takes_shortest_paths_of_an_order(engine: EngineKind) -> bool {
    CANDIDATES.contains(&engine)
}

/// A choice with its routes.
struct Chosen {
    engine: EngineKind,
    why: String,
    paths: usize,
    routing: Routing,
}

/// A candidate's tables, with their maximum link load in paths.
struct Candidate {
    engine: EngineKind,
    /// The factor by which the maximum link load of the earlier candidates must exceed this one's
    /// for this one to win.
    worth: f64,
    fullest: f64,
    routing: Routing,
}

impl Candidate {
    fn new(topology: &Topology, engine: EngineKind, worth: f64, routing: Routing) -> Candidate {
        Candidate {
            engine,
            worth,
            fullest: fullest_link(topology, &routing.tables),
            routing,
        }
    }
}

/// Chooses the candidate with the lowest maximum link load, with regard to the factors of the
/// engines.
fn best(
    topology: &Topology,
    options: &Options,
    previous: Option<&Tables>,
) -> Result<Chosen, EngineError> {
    let is_large = topology
        .switch_count()
        .saturating_mul(topology.group_count())
        > MOST_WORK;
    let candidates: &[EngineKind] = if is_large {
        &[EngineKind::UpDn]
    } else {
        &CANDIDATES
    };
    let route = |&engine: &EngineKind| {
        let routing = engine.engine().route(topology, options, previous)?;
        Ok(Candidate::new(
            topology,
            engine,
            WORTH_LARGER_REPAIRS,
            routing,
        ))
    };
    let mut tried: Vec<Result<Candidate, EngineError>> = candidates.iter().map(route).collect();
    if tried.iter().all(Result::is_err)
        && let Some(Err(error)) = tried.pop()
    {
        // Paths of nue are no shorter: return the error of an engine whose paths are too long.
        return Err(error);
    }
    let without_ranking = Options {
        previous_ranking: None,
        ..options.clone()
    };
    let others = if is_large {
        Others::of_large(topology, &without_ranking)
    } else {
        Others::of(topology, &without_ranking)
    };
    if !options.shortest_only {
        tried.extend(others.candidates.into_iter().map(Ok));
    }
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
    for suggested in &others.suggested {
        why += &suggested.sentence(lightest.fullest);
    }
    why += &others.note;
    Ok(Chosen {
        engine: lightest.engine,
        why,
        paths: others.paths,
        routing: lightest.routing,
    })
}

/// Engines that are compared with the candidates for their load, but have other costs.
struct Others {
    /// The engines that may be chosen.
    candidates: Vec<Candidate>,
    /// The engines that the reason names and `auto` never chooses.
    suggested: Vec<SuggestedEngine>,
    /// The maximum number of paths to each switch that `nue` computes.
    paths: usize,
    /// The end of the reason's sentence: the engines that were not tried.
    note: String,
}

impl Others {
    /// Tries the engines; engines that do not fit the fabric are left out.
    fn of(topology: &Topology, options: &Options) -> Others {
        let nue = nue::on_one_lane(topology, options).ok();
        let suggested = nue
            .as_ref()
            .map(|nue| SuggestedEngine::nue(topology, nue.best()));
        let ordered = nue.and_then(nue::OneLane::into_ordered);
        let ordered = ordered
            .map(|nue| Candidate::new(topology, EngineKind::Nue, WORTH_WHOLE_REPAIRS, nue))
            .into_iter();
        Others {
            candidates: ordered.chain(dimension_order(topology, options)).collect(),
            suggested: suggested
                .into_iter()
                .chain(SuggestedEngine::torus(topology, options))
                .collect(),
            paths: nue::MAX_COLUMNS,
            note: String::new(),
        }
    }

    /// Tries the engines as far as they take only seconds on a large fabric.
    fn of_large(topology: &Topology, options: &Options) -> Others {
        let paths = affordable_paths(topology);
        let nue = match paths {
            0 => None,
            paths => nue::in_order(topology, options, paths).ok(),
        };
        let mut note = match paths {
            0 => "; nue was not tried on a fabric of this size, where it takes minutes: \
                  routing.engine = \"nue\" has it"
                .to_owned(),
            nue::MAX_COLUMNS => String::new(),
            paths => format!("; nue with {paths} paths to each switch, so that it takes seconds"),
        };
        let nue = nue.map(|nue| Candidate::new(topology, EngineKind::Nue, WORTH_SECONDS, nue));
        let has_room = topology.switch_count().pow(2) <= MOST_PAIRS;
        if !has_room {
            note += "; dor and torus were not tried on so many switches";
        }
        let by_place = has_room.then(|| dimension_order(topology, options));
        let suggested = has_room.then(|| SuggestedEngine::torus(topology, options));
        Others {
            candidates: nue.into_iter().chain(by_place.flatten()).collect(),
            suggested: suggested.flatten().into_iter().collect(),
            paths: paths.max(1),
            note,
        }
    }
}

/// The number of paths to each switch that `nue` can compute within [`MOST_SEARCHED`]; 0 if it
/// cannot compute one.
fn affordable_paths(topology: &Topology) -> usize {
    let searches = |paths: usize| -> usize {
        let of = |switch| topology.hosts(switch).clamp(1, paths);
        topology.indices().map(of).sum()
    };
    let is_affordable =
        |paths: &usize| searches(*paths).saturating_mul(topology.group_count()) <= MOST_SEARCHED;
    (1..=nue::MAX_COLUMNS)
        .rev()
        .find(is_affordable)
        .unwrap_or(0)
}

/// The routes of `dor`; `None` unless the fabric is a mesh, hypercube or HyperX.
fn dimension_order(topology: &Topology, options: &Options) -> Option<Candidate> {
    let dor = Dor.route(topology, options, None).ok()?;
    // In a broken grid, `dor` may return routes of `nue`, which have a ranking.
    let is_own = dor.ranking.is_none();
    is_own.then(|| Candidate::new(topology, EngineKind::Dor, WORTH_WHOLE_REPAIRS, dor))
}

/// An engine that `auto` does not choose, with its load, to be named to the operator.
struct SuggestedEngine {
    engine: EngineKind,
    fullest: f64,
    /// The cost of the engine: the end of a sentence for the operator.
    price: String,
}

impl SuggestedEngine {
    /// The routes of `nue` on one VL.
    fn nue(topology: &Topology, nue: &Routing) -> SuggestedEngine {
        // Routes that follow an order of the switches replace each other without packet loss.
        let price = match nue.ranking {
            Some(_) => "and move most routes at each repair",
            None => "and drop packets during each repair",
        };
        SuggestedEngine {
            engine: EngineKind::Nue,
            fullest: fullest_link(topology, &nue.tables),
            price: price.to_owned(),
        }
    }

    /// The routes of `torus`; `None` unless the fabric is a torus with rings.
    fn torus(topology: &Topology, options: &Options) -> Option<SuggestedEngine> {
        let torus = Torus.route(topology, options, None).ok()?;
        torus.lanes.needs_levels().then(|| SuggestedEngine {
            engine: EngineKind::Torus,
            fullest: fullest_link(topology, &torus.tables),
            price: format!(
                "on {} VLs, for programs that ask for their service levels, which NCCL does not",
                torus.lanes.vls()
            ),
        })
    }

    /// The end of a sentence for the operator; empty unless this engine's maximum link load is
    /// clearly below `fullest`.
    fn sentence(&self, fullest: f64) -> String {
        if self.fullest * WORTH_LARGER_REPAIRS >= fullest {
            return String::new();
        }
        let SuggestedEngine {
            engine,
            fullest,
            price,
        } = self;
        format!("; routing.engine = \"{engine}\" would have {fullest:.0}, {price}")
    }
}

/// The maximum link load in paths. A path on a slower link counts for more, by the ratio of the
/// fastest rate to the link's rate.
fn fullest_link(topology: &Topology, tables: &Tables) -> f64 {
    let uses = link_uses(topology, tables);
    let fastest = uses.iter().map(|link| link.rate).max().unwrap_or(1);
    let load = |paths: u64, rate: u32| paths as f64 * f64::from(fastest) / f64::from(rate.max(1));
    let loads = uses.iter().map(|link| load(link.paths, link.rate));
    loads.fold(0.0, f64::max)
}
