//! `auto`: the engine that suits the fabric.
//!
//! The routing carries the chosen engine, as it carries the ranking, and the next plan passes it in
//! again: a fault never changes the engine.

use std::sync::Arc;

use rsm_ids::Guid;

use super::fabric_tree::has_ranks;
use super::{Dor, Engine, EngineError, EngineKind, Options, Routing, Torus, UpDn, nue};
use crate::quality::link_uses;
use crate::tables::Tables;
use crate::topology::Topology;

/// Picks an engine and says why.
///
/// A fabric that has ranks, however irregular, gets [`FabricTree`](super::FabricTree). On any other
/// fabric `auto` computes the tables of `CANDIDATES`, and takes those with the lightest fullest
/// link. It also computes those of [`Nue`](super::Nue) on one lane that follow an order of the
/// switches, whose repairs compute all routes anew, and those of [`Dor`](super::Dor), which follow
/// no such order: it takes them where their fullest link is lighter by a quarter. It names those of
/// `nue` that follow no order, and of [`Torus`](super::Torus), which need service levels, and does
/// not choose them.
///
/// On a fabric above 2^24 pairs of a switch and a channel only `updn` and those routes are compared
/// that take seconds: `nue` with as few paths to each switch as that takes, where its fullest link
/// has less than a quarter of the load. The choice stays until the fabric grows or other roots are
/// given: faults do not change the engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

/// The candidate engines for a fabric without ranks. The engine with the smaller repairs comes
/// first and wins a tie. Routes of both follow an order of the switches, so that old and new tables
/// can be mixed.
const CANDIDATES: [EngineKind; 2] = [EngineKind::FabricTree, EngineKind::UpDn];

/// The factor by which the maximum link load of an engine must exceed that of another before the
/// other one is worth its larger repairs.
const WORTH_LARGER_REPAIRS: f64 = 1.1;

/// The factor as in [`WORTH_LARGER_REPAIRS`], for an engine whose repair computes all routes anew or
/// makes switches drop packets.
const WORTH_WHOLE_REPAIRS: f64 = 1.25;

/// The factor as in [`WORTH_LARGER_REPAIRS`], for an engine that takes seconds for all routes.
const WORTH_SECONDS: f64 = 4.0;

/// The most pairs of a switch and a channel with which all engines are compared: their time grows
/// with them, some four seconds on two cores here. A bound on the clock would make the choice
/// depend on the load of the machine.
const MOST_WORK: usize = 1 << 24;

/// The most channels that `nue` may look at on a larger fabric, in all its searches together: some
/// five seconds.
const MOST_SEARCHED: usize = 1 << 29;

/// The most pairs of switches for which `dor` and `torus` are tried, which take some bytes for each.
const MOST_PAIRS: usize = 1 << 27;

/// The engine that [`Auto`] chose, and the fabric that it chose it for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoChoice {
    engine: EngineKind,
    /// The reason for the operator, a clause that begins with "because".
    why: String,
    /// How many paths to a switch `nue` may compute.
    paths: usize,
    /// The size of the fabric: a larger one may want another engine.
    switches: usize,
    cables: usize,
    /// The GUIDs of the roots given at the time.
    roots: Vec<Guid>,
}

impl AutoChoice {
    /// Whether it was made for this fabric, which may have lost parts since.
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

/// Whether the routes of an engine that `auto` may choose are the shortest by an order of the
/// switches.
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

/// A candidate's tables, and the paths on their fullest link.
struct Tried {
    engine: EngineKind,
    /// The factor by which the maximum link load of the candidates before may exceed this one's.
    worth: f64,
    fullest: f64,
    routing: Routing,
}

impl Tried {
    fn new(topology: &Topology, engine: EngineKind, worth: f64, routing: Routing) -> Tried {
        Tried {
            engine,
            worth,
            fullest: fullest_link(topology, &routing.tables),
            routing,
        }
    }
}

/// The candidate with the lightest fullest link, and the reason.
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
        Ok(Tried::new(topology, engine, WORTH_LARGER_REPAIRS, routing))
    };
    let mut tried: Vec<Result<Tried, EngineError>> = candidates.iter().map(route).collect();
    if tried.iter().all(Result::is_err)
        && let Some(Err(error)) = tried.pop()
    {
        // Where paths are too long for these engines, nue's paths are no shorter.
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

/// Engines with a price beside their load.
struct Others {
    /// Engines that may be chosen.
    candidates: Vec<Tried>,
    /// Engines that the reason names and `auto` never chooses.
    offered: Vec<Offered>,
    /// How many paths to a switch `nue` may compute.
    paths: usize,
    /// The end of a sentence about engines that were not tried.
    note: String,
}

impl Others {
    /// An engine that does not fit is no candidate, and offers nothing.
    fn of(topology: &Topology, options: &Options) -> Others {
        let nue = nue::on_one_lane(topology, options).ok();
        let offered = nue.as_ref().map(|nue| Offered::nue(topology, nue.best()));
        let ordered = nue.and_then(nue::OneLane::into_ordered);
        let ordered = ordered
            .map(|nue| Tried::new(topology, EngineKind::Nue, WORTH_WHOLE_REPAIRS, nue))
            .into_iter();
        Others {
            candidates: ordered.chain(dimension_order(topology, options)).collect(),
            offered: offered
                .into_iter()
                .chain(Offered::torus(topology, options))
                .collect(),
            paths: nue::MAX_COLUMNS,
            note: String::new(),
        }
    }

    /// The engines that take seconds on a large fabric.
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
        let nue = nue.map(|nue| Tried::new(topology, EngineKind::Nue, WORTH_SECONDS, nue));
        let has_room = topology.switch_count().pow(2) <= MOST_PAIRS;
        if !has_room {
            note += "; dor and torus were not tried on so many switches";
        }
        let by_place = has_room.then(|| dimension_order(topology, options));
        let offered = has_room.then(|| Offered::torus(topology, options));
        Others {
            candidates: nue.into_iter().chain(by_place.flatten()).collect(),
            offered: offered.flatten().into_iter().collect(),
            paths: paths.max(1),
            note,
        }
    }
}

/// How many paths to each switch `nue` can compute in [`MOST_SEARCHED`]; 0 where not even one.
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

/// The routes of `dor`, where the fabric is a mesh, hypercube or HyperX.
fn dimension_order(topology: &Topology, options: &Options) -> Option<Tried> {
    let dor = Dor.route(topology, options, None).ok()?;
    // What is broken may have nue route in its place.
    let is_own = dor.ranking.is_none();
    is_own.then(|| Tried::new(topology, EngineKind::Dor, WORTH_WHOLE_REPAIRS, dor))
}

/// The load with an engine that `auto` does not choose.
struct Offered {
    engine: EngineKind,
    fullest: f64,
    /// "and …", its price.
    price: String,
}

impl Offered {
    fn nue(topology: &Topology, nue: &Routing) -> Offered {
        // Routes that follow an order of the switches can replace each other without a loss.
        let price = match nue.ranking {
            Some(_) => "and move most routes at each repair",
            None => "and drop packets during each repair",
        };
        Offered {
            engine: EngineKind::Nue,
            fullest: fullest_link(topology, &nue.tables),
            price: price.to_owned(),
        }
    }

    /// Where the fabric is a torus with rings.
    fn torus(topology: &Topology, options: &Options) -> Option<Offered> {
        let torus = Torus.route(topology, options, None).ok()?;
        torus.lanes.needs_levels().then(|| Offered {
            engine: EngineKind::Torus,
            fullest: fullest_link(topology, &torus.tables),
            price: format!(
                "on {} VLs, for programs that ask for their service levels, which NCCL does not",
                torus.lanes.vls()
            ),
        })
    }

    /// The end of a sentence, where its fullest link is clearly lighter than `fullest`.
    fn sentence(&self, fullest: f64) -> String {
        if self.fullest * WORTH_LARGER_REPAIRS >= fullest {
            return String::new();
        }
        let Offered {
            engine,
            fullest,
            price,
        } = self;
        format!("; routing.engine = \"{engine}\" would have {fullest:.0}, {price}")
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
