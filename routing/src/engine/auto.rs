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
/// A fabric that has ranks, however irregular, gets [`FabricTree`](super::FabricTree), any other one
/// [`UpDn`], and the operator learns which of [`OFFERS`] would have a clearly lighter fullest link.
/// The choice stays until the fabric grows or other roots are given: faults do not change the
/// engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auto;

/// The engines that `auto` offers for a fabric without ranks. It does not choose them: there,
/// neither replaces old tables by new ones as safely as [`UpDn`] does while a switch is silent.
const OFFERS: [EngineKind; 2] = [EngineKind::FabricTree, EngineKind::Nue];

/// How much fuller the fullest link may be than with another engine that is not worth an offer.
const WORTH_AN_OFFER: f64 = 1.1;

/// The most pairs of a switch and a channel with which offers are computed: their time grows with
/// them, some four seconds on two cores here. A bound on the clock would make them depend on the
/// load of the machine.
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
        let (engine, mut why) = if has_ranks(topology, options) {
            (
                EngineKind::FabricTree,
                "because the switches stand in ranks".to_owned(),
            )
        } else {
            let why = "because many links join switches of the same rank, and it is free of credit \
                       loops on any fabric";
            (EngineKind::UpDn, why.to_owned())
        };
        let routing = engine.engine().route(topology, options, previous)?;
        if engine == EngineKind::UpDn {
            why += &offers(topology, options, &routing.tables);
        }
        let choice = AutoChoice::new(engine, why, topology, options);
        Ok(Arc::new(choice).said(routing))
    }
}

/// The loads of the fullest link with other engines, as the end of a sentence, where they are
/// clearly lighter than with `tables`.
fn offers(topology: &Topology, options: &Options, tables: &Tables) -> String {
    if topology.switch_count() * topology.group_count() > MOST_WORK {
        return "; other engines were not tried on a fabric of this size".to_owned();
    }
    let one_lane = Options {
        engine_options: options.engine_options.clone().with(&Nue::VLS, 1),
        ..options.clone()
    };
    let fullest = fullest_link(topology, tables);
    let lighter = OFFERS.into_iter().filter_map(|engine| {
        // An engine that does not fit offers nothing.
        let routing = engine.engine().route(topology, &one_lane, None).ok()?;
        let load = fullest_link(topology, &routing.tables);
        (load * WORTH_AN_OFFER < fullest).then(|| format!("{load:.0} with {engine}"))
    });
    let lighter: Vec<String> = lighter.collect();
    if lighter.is_empty() {
        return String::new();
    }
    format!(
        "; {fullest:.0} paths are on its fullest link, {}",
        lighter.join(", ")
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
