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
/// with `dor` and `nue`. `nue` then computes so few paths to each switch that they take only
/// seconds, and wins only with less than a quarter of the maximum link load. The choice stays until
/// the fabric grows or other roots are given: faults do not change the engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

/// The candidate engines for a fabric without ranks. The engine with the smaller repairs comes
/// first, and wins ties. Routes of both engines follow an order of the switches, so that mixtures
/// of old and new tables are safe.
const CANDIDATES: [EngineKind; 2] = [EngineKind::FabricTree, EngineKind::UpDn];

/// The factor by which the maximum link load of earlier candidates must exceed that of a candidate
/// with larger repairs for that candidate to win.
const LARGER_REPAIRS_FACTOR: f64 = 1.1;

/// The factor, as [`LARGER_REPAIRS_FACTOR`], for an engine whose repairs compute all routes or make
/// switches drop packets.
const WHOLE_REPAIRS_FACTOR: f64 = 1.25;

/// The factor, as [`LARGER_REPAIRS_FACTOR`], for an engine that takes seconds for all routes.
const SECONDS_FACTOR: f64 = 4.0;

/// The maximum number of pairs of a switch and a channel with which all engines are compared. The
/// comparison then takes about four seconds on two cores. The limit counts work instead of time,
/// because the choice must not depend on the load of the machine.
const MAX_COMPARED_PAIRS: usize = 1 << 24;

/// The maximum number of channels that all searches of `nue` together may examine on a larger
/// fabric: about five seconds.
const MAX_NUE_CHANNELS: usize = 1 << 29;

/// The maximum number of pairs of switches for which `dor` and `torus` are tried on a larger
/// fabric: each pair takes some bytes of memory.
const MAX_GRID_PAIRS: usize = 1 << 27;

/// The engine that [`Auto`] chose, and the fabric size and roots for which the choice holds.
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
            EngineKind::Nue => nue::route_in_switch_order(topology, options, self.paths),
            engine => engine.engine().route(topology, options, previous),
        }
    }

    /// The routing of the chosen engine, with this choice and its reason.
    pub(super) fn with_reason(self: Arc<Self>, routing: Routing) -> Routing {
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
            return Ok(kept.clone().with_reason(routing));
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
            choose_by_load(topology, options, previous)?
        };
        let choice = AutoChoice {
            engine: chosen.engine,
            why: chosen.why,
            paths: chosen.paths,
            switches: topology.switch_count(),
            cables: topology.link_count(),
            roots: options.root_guids.clone(),
        };
        Ok(Arc::new(choice).with_reason(chosen.routing))
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
    /// The factor by which the maximum link load of the earlier candidates must exceed that of this
    /// candidate for this candidate to win.
    required_factor: f64,
    max_load: f64,
    routing: Routing,
}

impl Candidate {
    fn new(
        topology: &Topology,
        engine: EngineKind,
        required_factor: f64,
        routing: Routing,
    ) -> Candidate {
        Candidate {
            engine,
            required_factor,
            max_load: max_link_load(topology, &routing.tables),
            routing,
        }
    }
}

/// Chooses the candidate with the lowest maximum link load. A costlier engine wins only if the load
/// is lower by the engine's factor.
fn choose_by_load(
    topology: &Topology,
    options: &Options,
    previous: Option<&Tables>,
) -> Result<Chosen, EngineError> {
    let is_large = topology
        .switch_count()
        .saturating_mul(topology.group_count())
        > MAX_COMPARED_PAIRS;
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
            LARGER_REPAIRS_FACTOR,
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
    let costlier = if is_large {
        CostlierEngines::of_large(topology, &without_ranking)
    } else {
        CostlierEngines::of(topology, &without_ranking)
    };
    if !options.shortest_only {
        tried.extend(costlier.candidates.into_iter().map(Ok));
    }
    let loads: Vec<String> = tried
        .iter()
        .flatten()
        .map(|tried| format!("{:.0} with {}", tried.max_load, tried.engine))
        .collect();
    let mut why = format!("by the paths on the fullest link: {}", loads.join(", "));
    let lightest = tried
        .into_iter()
        .reduce(|kept, next| match (kept, next) {
            (Ok(kept), Ok(next)) if next.max_load * next.required_factor < kept.max_load => {
                Ok(next)
            }
            (Err(_), Ok(next)) => Ok(next),
            (kept, _) => kept,
        })
        .expect("at least one engine is a candidate")?;
    for suggested in &costlier.suggested {
        why += &suggested.sentence(lightest.max_load);
    }
    why += &costlier.note;
    Ok(Chosen {
        engine: lightest.engine,
        why,
        paths: costlier.paths,
        routing: lightest.routing,
    })
}

/// Engines whose loads are compared with those of the candidates, but whose repairs, service levels
/// or computation cost more.
struct CostlierEngines {
    /// The engines that may be chosen.
    candidates: Vec<Candidate>,
    /// The engines that the reason names and `auto` never chooses.
    suggested: Vec<SuggestedEngine>,
    /// The maximum number of paths to each switch that `nue` computes.
    paths: usize,
    /// The end of the reason's sentence, which names the engines that were not tried.
    note: String,
}

impl CostlierEngines {
    /// Tries the engines; engines that do not fit the fabric are left out.
    fn of(topology: &Topology, options: &Options) -> CostlierEngines {
        let nue = nue::route_on_one_vl(topology, options).ok();
        let suggested = nue
            .as_ref()
            .map(|nue| SuggestedEngine::nue(topology, nue.best()));
        let ordered = nue
            .and_then(nue::SingleVlRoutes::into_ordered)
            .map(|nue| Candidate::new(topology, EngineKind::Nue, WHOLE_REPAIRS_FACTOR, nue))
            .into_iter();
        CostlierEngines {
            candidates: ordered.chain(dimension_order(topology, options)).collect(),
            suggested: suggested
                .into_iter()
                .chain(SuggestedEngine::torus(topology, options))
                .collect(),
            paths: nue::MAX_COLUMNS,
            note: String::new(),
        }
    }

    /// Tries the engines that take only seconds on a large fabric.
    fn of_large(topology: &Topology, options: &Options) -> CostlierEngines {
        let paths = affordable_paths(topology);
        let nue = match paths {
            0 => None,
            paths => nue::route_in_switch_order(topology, options, paths).ok(),
        };
        let mut note = match paths {
            0 => "; nue was not tried on a fabric of this size, where it takes minutes: \
                  routing.engine = \"nue\" has it"
                .to_owned(),
            nue::MAX_COLUMNS => String::new(),
            paths => format!("; nue with {paths} paths to each switch, so that it takes seconds"),
        };
        let nue = nue.map(|nue| Candidate::new(topology, EngineKind::Nue, SECONDS_FACTOR, nue));
        let has_room = topology.switch_count().pow(2) <= MAX_GRID_PAIRS;
        if !has_room {
            note += "; dor and torus were not tried on so many switches";
        }
        let dor = has_room.then(|| dimension_order(topology, options));
        let suggested = has_room.then(|| SuggestedEngine::torus(topology, options));
        CostlierEngines {
            candidates: nue.into_iter().chain(dor.flatten()).collect(),
            suggested: suggested.flatten().into_iter().collect(),
            paths: paths.max(1),
            note,
        }
    }
}

/// The number of paths to each switch that `nue` can compute within [`MAX_NUE_CHANNELS`]; 0 if it
/// cannot compute one.
fn affordable_paths(topology: &Topology) -> usize {
    let searches = |paths: usize| -> usize {
        let paths_to = |switch| topology.hosts(switch).clamp(1, paths);
        topology.indices().map(paths_to).sum()
    };
    let is_affordable =
        |paths: &usize| searches(*paths).saturating_mul(topology.group_count()) <= MAX_NUE_CHANNELS;
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
    is_own.then(|| Candidate::new(topology, EngineKind::Dor, WHOLE_REPAIRS_FACTOR, dor))
}

/// An engine that `auto` does not choose, with its load, to be named to the operator.
struct SuggestedEngine {
    engine: EngineKind,
    max_load: f64,
    /// The drawback of the engine: the end of a sentence for the operator.
    drawback: String,
}

impl SuggestedEngine {
    /// The routes of `nue` on one VL.
    fn nue(topology: &Topology, nue: &Routing) -> SuggestedEngine {
        // Routes that follow an order of the switches replace each other without packet loss.
        let drawback = match nue.ranking {
            Some(_) => "and move most routes at each repair",
            None => "and drop packets during each repair",
        };
        SuggestedEngine {
            engine: EngineKind::Nue,
            max_load: max_link_load(topology, &nue.tables),
            drawback: drawback.to_owned(),
        }
    }

    /// The routes of `torus`; `None` unless the fabric is a torus with rings.
    fn torus(topology: &Topology, options: &Options) -> Option<SuggestedEngine> {
        let torus = Torus.route(topology, options, None).ok()?;
        torus.lanes.needs_levels().then(|| SuggestedEngine {
            engine: EngineKind::Torus,
            max_load: max_link_load(topology, &torus.tables),
            drawback: format!(
                "on {} VLs, for programs that ask for their service levels, which NCCL does not",
                torus.lanes.vls()
            ),
        })
    }

    /// The end of a sentence for the operator; empty unless this engine's maximum link load is
    /// clearly below `max_load`.
    fn sentence(&self, max_load: f64) -> String {
        if self.max_load * LARGER_REPAIRS_FACTOR >= max_load {
            return String::new();
        }
        let SuggestedEngine {
            engine,
            max_load,
            drawback,
        } = self;
        format!("; routing.engine = \"{engine}\" would have {max_load:.0}, {drawback}")
    }
}

/// The maximum link load in paths. A path on a slower link counts for more, by the ratio of the
/// fastest rate to the link's rate.
fn max_link_load(topology: &Topology, tables: &Tables) -> f64 {
    let uses = link_uses(topology, tables);
    let fastest = uses.iter().map(|link| link.rate).max().unwrap_or(1);
    let load = |paths: u64, rate: u32| paths as f64 * f64::from(fastest) / f64::from(rate.max(1));
    let loads = uses.iter().map(|link| load(link.paths, link.rate));
    loads.fold(0.0, f64::max)
}
