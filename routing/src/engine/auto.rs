//! `auto`: the engine that suits the fabric.

use std::sync::Arc;

use rsm_ids::Guid;

use super::fabric_tree::has_ranks;
use super::{Engine, EngineError, EngineKind, Nue, Options, Routing, UpDn};
use crate::quality::link_uses;
use crate::tables::Tables;
use crate::topology::Topology;

/// Picks an engine, and says which and why.
///
/// A fabric that has ranks, however irregular, gets [`FabricTree`](super::FabricTree). On any other
/// fabric `auto` computes the tables of [`CANDIDATES`], all of which are free of credit loops on
/// one virtual lane, and takes those with the lightest fullest link. The choice stays until the
/// fabric grows or other roots are given: faults do not change the engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

/// The engines for a fabric without ranks, in the order in which the first of equals wins: repairs
/// of `fabric-tree` and `updn` move few routes, those of the others most of them.
const CANDIDATES: [EngineKind; 4] = [
    EngineKind::FabricTree,
    EngineKind::UpDn,
    EngineKind::Dor,
    EngineKind::Nue,
];

/// How much fuller the fullest link of an engine may be than that of a later candidate before the
/// later one is worth its larger repairs.
const WORTH_LARGER_REPAIRS: f64 = 1.1;

/// The most pairs of a switch and a channel with which nue takes part: its time grows with them,
/// some two seconds on two cores here, and each fault costs as much again. A bound on the clock
/// would make the choice depend on the load of the machine.
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
            && let Ok(routing) = attempt(kept.engine, topology, options, previous)
        {
            return Ok(kept.clone().said(routing));
        }
        let (engine, why, routing) = if has_ranks(topology, options) {
            let engine = EngineKind::FabricTree;
            let why = "because the switches stand in ranks".to_owned();
            (engine, why, attempt(engine, topology, options, previous)?)
        } else {
            best(topology, options, previous)?
        };
        let choice = AutoChoice::new(engine, why, topology, options);
        Ok(Arc::new(choice).said(routing))
    }
}

fn attempt(
    engine: EngineKind,
    topology: &Topology,
    options: &Options,
    previous: Option<&Tables>,
) -> Result<Routing, EngineError> {
    if engine != EngineKind::Nue {
        return engine.engine().route(topology, options, previous);
    }
    // The option is of the engine by name: `auto` needs no lanes.
    let one_lane = Options {
        engine_options: options.engine_options.clone().with(&Nue::VLS, 1),
        ..options.clone()
    };
    Nue.route(topology, &one_lane, previous)
}

/// A candidate's tables, and the paths on their fullest link.
struct Tried {
    engine: EngineKind,
    fullest: f64,
    routing: Routing,
}

/// The candidate with the lightest fullest link, and the reason.
fn best(
    topology: &Topology,
    options: &Options,
    previous: Option<&Tables>,
) -> Result<(EngineKind, String, Routing), EngineError> {
    let is_affordable = topology.switch_count() * topology.group_count() <= MOST_WORK;
    let candidates = CANDIDATES.into_iter();
    let candidates = candidates.filter(|&engine| engine != EngineKind::Nue || is_affordable);
    let tried = candidates.map(|engine| {
        let routing = attempt(engine, topology, options, previous)?;
        Ok(Tried {
            engine,
            fullest: fullest_link(topology, &routing.tables),
            routing,
        })
    });
    let tried: Vec<Result<Tried, EngineError>> = tried.collect();
    let loads: Vec<String> = tried
        .iter()
        .flatten()
        .map(|tried| format!("{:.0} with {}", tried.fullest, tried.engine))
        .collect();
    let mut why = format!("by the paths on the fullest link: {}", loads.join(", "));
    if !is_affordable {
        why += "; nue would take long on a fabric of this size and was not tried";
    }
    let lightest = tried.into_iter().reduce(|best, next| match (best, next) {
        (Ok(best), Ok(next)) if next.fullest * WORTH_LARGER_REPAIRS < best.fullest => Ok(next),
        (Err(_), Ok(next)) => Ok(next),
        (best, _) => best,
    });
    let lightest = lightest.expect("there are candidates")?;
    Ok((lightest.engine, why, lightest.routing))
}

/// The most paths on a link, those on slower links counted as often as the fastest link is faster.
fn fullest_link(topology: &Topology, tables: &Tables) -> f64 {
    let uses = link_uses(topology, tables);
    let fastest = uses.iter().map(|link| link.rate).max().unwrap_or(1);
    let load = |paths: u64, rate: u32| paths as f64 * f64::from(fastest) / f64::from(rate.max(1));
    let loads = uses.iter().map(|link| load(link.paths, link.rate));
    loads.fold(0.0, f64::max)
}
