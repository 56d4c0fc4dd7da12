//! `auto`: the engine that suits the fabric.
//!
//! The routing carries the chosen engine as well as the ranking, and the next plan passes both in
//! again: a fault never changes the engine.

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
/// link load. It also computes two kinds of tables with costlier repairs, and takes them if their
/// maximum link load is lower by a quarter: [`Nue`](super::Nue) on one VL, where it follows an
/// order of the switches, because its repairs compute all routes anew; and [`Dor`](super::Dor),
/// because it follows no such order. The reason also names the tables of `nue` without an order,
/// and of [`Torus`](super::Torus), which needs service levels; `auto` never chooses these.
///
/// On a fabric with more than 2^24 pairs of a switch and a channel, `auto` compares `updn` only
/// with routes that take seconds: `nue` with as few paths to each switch as that allows, which has
/// to have less than a quarter of the maximum link load. The choice stays until the fabric grows or
/// other roots are given: faults do not change the engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

/// The candidate engines for a fabric without ranks. The engine with the smaller repairs comes
/// first and wins a tie. Routes of both engines follow an order of the switches, so that old and
/// new tables can be mixed.
const CANDIDATES: [EngineKind; 2] = [EngineKind::FabricTree, EngineKind::UpDn];

/// The factor by which the maximum link load of one engine must exceed that of another before the
/// other one is worth its larger repairs.
const WORTH_LARGER_REPAIRS: f64 = 1.1;

/// The factor in the sense of [`WORTH_LARGER_REPAIRS`] for an engine whose repairs compute all
/// routes anew or make switches drop packets.
const WORTH_WHOLE_REPAIRS: f64 = 1.25;

/// The factor in the sense of [`WORTH_LARGER_REPAIRS`] for an engine that takes seconds for all
/// routes.
const WORTH_SECONDS: f64 = 4.0;

/// The maximum number of pairs of a switch and a channel with which all engines are compared. The
/// time grows with this number, to about four seconds on two cores. A limit on the clock would make
/// the choice depend on the load of the machine.
const MOST_WORK: usize = 1 << 24;

/// The maximum number of channels that all searches of `nue` together may examine on a larger
/// fabric: about five seconds.
const MOST_SEARCHED: usize = 1 << 29;

/// The maximum number of pairs of switches for which `dor` and `torus` are tried: each pair takes
/// some bytes.
const MOST_PAIRS: usize = 1 << 27;

/// The engine that [`Auto`] chose, and the fabric for which it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoChoice {
    engine: EngineKind,
    /// The reason for the operator: a clause that begins with "because".
    why: String,
    /// The number of paths to a switch that `nue` may compute.
    paths: usize,
    /// The number of switches of the fabric: a larger fabric may need another engine.
    switches: usize,
    cables: usize,
    /// The given root GUIDs.
    roots: Vec<Guid>,
}

impl AutoChoice {
    /// Whether the choice was made for this fabric, which may have lost parts since.
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

/// The candidate with the lowest maximum link load, and the reason.
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
    let anew = Options {
        previous_ranking: None,
        ..options.clone()
    };
    let others = if is_large {
        Others::of_large(topology, &anew)
    } else {
        Others::of(topology, &anew)
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
    for offered in &others.offered {
        why += &offered.sentence(lightest.fullest);
    }
    why += &others.note;
    Ok(Chosen {
        engine: lightest.engine,
        why,
        paths: others.paths,
        routing: lightest.routing,
    })
}

/// Engines that cost more than their load shows.
struct Others {
    /// The engines that may be chosen.
    candidates: Vec<Candidate>,
    /// The engines that the reason names and `auto` never chooses.
    offered: Vec<SuggestedEngine>,
    /// The number of paths to a switch that `nue` may compute.
    paths: usize,
    /// The end of a sentence about engines that were not tried.
    note: String,
}

impl Others {
    /// Tries the engines; an engine that does not fit is neither a candidate nor offered.
    fn of(topology: &Topology, options: &Options) -> Others {
        let nue = nue::on_one_lane(topology, options).ok();
        let offered = nue
            .as_ref()
            .map(|nue| SuggestedEngine::nue(topology, nue.best()));
        let ordered = nue.and_then(nue::OneLane::into_ordered);
        let ordered = ordered
            .map(|nue| Candidate::new(topology, EngineKind::Nue, WORTH_WHOLE_REPAIRS, nue))
            .into_iter();
        Others {
            candidates: ordered.chain(dimension_order(topology, options)).collect(),
            offered: offered
                .into_iter()
                .chain(SuggestedEngine::torus(topology, options))
                .collect(),
            paths: nue::MAX_COLUMNS,
            note: String::new(),
        }
    }

    /// Tries the engines that take seconds on a large fabric.
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
        let offered = has_room.then(|| SuggestedEngine::torus(topology, options));
        Others {
            candidates: nue.into_iter().chain(by_place.flatten()).collect(),
            offered: offered.flatten().into_iter().collect(),
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
    // In a broken grid, dor may return routes of nue instead of its own.
    let is_own = dor.ranking.is_none();
    is_own.then(|| Candidate::new(topology, EngineKind::Dor, WORTH_WHOLE_REPAIRS, dor))
}

/// The load under an engine that `auto` does not choose.
struct SuggestedEngine {
    engine: EngineKind,
    fullest: f64,
    /// The price of the engine: a clause that begins with "and".
    price: String,
}

impl SuggestedEngine {
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

    /// The end of a sentence; empty unless this engine's maximum link load is clearly below
    /// `fullest`.
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
