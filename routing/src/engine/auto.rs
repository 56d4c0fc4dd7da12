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
/// fabric `auto` computes the tables of [`CANDIDATES`], and takes those with the lightest fullest
/// link. It offers `nue`, which it does not choose: its routes follow no order of the switches, so
/// that switches drop packets while its tables are replaced, as after each fault. A fabric above
/// 2^24 pairs of a switch and a channel gets `updn` without a comparison, which would take long. The
/// choice stays until the fabric grows or other roots are given: faults do not change the engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

/// The engines for a fabric without ranks, the one with the smaller repairs first: it wins where
/// they are alike. Their routes follow an order of the switches, by which old and new tables can
/// stand side by side.
const CANDIDATES: [EngineKind; 2] = [EngineKind::FabricTree, EngineKind::UpDn];

/// How much fuller the fullest link of an engine may be than that of another one before the other
/// one is worth its larger repairs.
const WORTH_LARGER_REPAIRS: f64 = 1.1;

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
            && let Ok(routing) = kept.engine.engine().route(topology, options, previous)
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
    fullest: f64,
    routing: Routing,
}

/// The candidate with the lightest fullest link, and the reason.
fn best(
    topology: &Topology,
    options: &Options,
    previous: Option<&Tables>,
) -> Result<(EngineKind, String, Routing), EngineError> {
    let tried = CANDIDATES.into_iter().map(|engine| {
        let routing = engine.engine().route(topology, options, previous)?;
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
    let lightest = tried.into_iter().reduce(|best, next| match (best, next) {
        (Ok(best), Ok(next)) if next.fullest * WORTH_LARGER_REPAIRS < best.fullest => Ok(next),
        (Err(_), Ok(next)) => Ok(next),
        (best, _) => best,
    });
    let lightest = lightest.expect("there are candidates")?;
    why += &offer(topology, options, lightest.fullest);
    Ok((lightest.engine, why, lightest.routing))
}

/// The load with nue, as the end of a sentence, where that is clearly lighter than `fullest`.
fn offer(topology: &Topology, options: &Options, fullest: f64) -> String {
    let one_lane = Options {
        engine_options: options.engine_options.clone().with(&Nue::VLS, 1),
        ..options.clone()
    };
    // An engine that does not fit offers nothing.
    let Ok(nue) = Nue.route(topology, &one_lane, None) else {
        return String::new();
    };
    let lighter = fullest_link(topology, &nue.tables);
    if lighter * WORTH_LARGER_REPAIRS >= fullest {
        return String::new();
    }
    format!(
        "; routing.engine = \"nue\" would have {lighter:.0}, and drop packets during each repair"
    )
}

/// The most paths on a link, those on slower links counted as often as the fastest link is faster.
fn fullest_link(topology: &Topology, tables: &Tables) -> f64 {
    let uses = link_uses(topology, tables);
    let fastest = uses.iter().map(|link| link.rate).max().unwrap_or(1);
    let load = |paths: u64, rate: u32| paths as f64 * f64::from(fastest) / f64::from(rate.max(1));
    let loads = uses.iter().map(|link| load(link.paths, link.rate));
    loads.fold(0.0, f64::max)
}
