//! `nue`: any graph, any number of lanes, and never a credit loop.

mod layer;

use rayon::prelude::*;

use super::columns::{self, Column};
use super::{Engine, EngineError, EngineOption, Options, Routing, prepare};
use crate::lanes::{Lanes, ServiceLevels};
use crate::tables::Tables;
use crate::topology::{SwitchIdx, Topology};

/// Paths that are found within a channel dependency graph that is kept acyclic, so that there is no
/// credit loop on any graph, with any number of virtual lanes from one on (Domke, Hoefler and
/// Matsuoka, "Routing on the dependency graph", HPDC'16). Mostly shortest paths, some with detours.
///
/// - *Guarantee*: complete, loop-free and credit-loop-free on every fabric.
/// - *Needs*: one lane, as long as [`Nue::VLS`] says no other. With k lanes the destination
///   switches are dealt out to k layers by their GUIDs, so that a fault changes no service level; a
///   path's SL is that of its destination's layer. More lanes leave more freedom, and shorter
///   paths; but an answer has the SL of its request rather than that of its own destination, and
///   the proof does not cover it. Only one lane is safe with any programs.
/// - *Complexity*: for n switches, e pairs of neighbours and t turns, O(n · e · log e) for the
///   paths, and for each turn at most one search among the channels between its ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nue;

impl Nue {
    /// How many lanes destinations are spread over.
    pub const VLS: EngineOption = EngineOption {
        name: "nue_vls",
        doc: &[
            "How many lanes `nue` spreads destinations over. With one no service level matters; more give",
            "shorter paths to programs that ask for theirs.",
        ],
        min: 1,
        max: 8,
        default: 1,
        opensm: Some("nue_max_num_vls"),
    };
}

impl Engine for Nue {
    fn name(&self) -> &'static str {
        "nue"
    }

    fn guarantee(&self) -> &'static str {
        "free of loops and of credit loops on any fabric, with any number of virtual lanes from one \
         on; every connected pair is reached, some by detours"
    }

    fn options(&self) -> &'static [EngineOption] {
        const { &[Nue::VLS] }
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        _previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        prepare::capacities(topology)?;
        let vls = options.engine_options.get(&Nue::VLS);
        prepare::lanes(self.name(), vls, options)?;
        prepare::in_pool(options, || {
            let (columns, on_tree) = route(topology, vls);
            let lanes = if vls == 1 {
                Lanes::default()
            } else {
                let levels = topology
                    .indices()
                    .map(|s| layer_of(topology, s, vls))
                    .collect();
                Lanes::layers(topology, ServiceLevels::ByDestination(levels), vls)
            };
            let tables = columns::tables(topology, &columns);
            let reason = reason(topology, vls, on_tree);
            Ok(Routing::unranked(self.name(), reason, tables, lanes))
        })?
    }
}

/// A column for each switch on `vls` layers, and how many of them lie on a spanning tree alone.
pub(super) fn route(topology: &Topology, vls: u8) -> (Vec<Vec<Column>>, usize) {
    let layers: Vec<layer::Layer> = (0..vls)
        .into_par_iter()
        .map(|number| {
            let mut destinations: Vec<SwitchIdx> = topology
                .indices()
                .filter(|&switch| layer_of(topology, switch, vls) == number)
                .collect();
            // Destinations with many hosts come first, while most turns are still free.
            destinations.sort_by_key(|&switch| std::cmp::Reverse(topology.hosts(switch)));
            layer::route(topology, &destinations, layer::Cycles::Avoided)
        })
        .collect();
    let mut columns = vec![Vec::new(); topology.switch_count()];
    let mut on_tree = 0;
    for layer in layers {
        on_tree += layer.on_tree;
        for (destination, column) in layer.columns {
            columns[destination.index()] = vec![column];
        }
    }
    (columns, on_tree)
}

/// Columns of some destinations that close no cycle among themselves.
pub(super) fn route_some(
    topology: &Topology,
    destinations: &[SwitchIdx],
) -> Vec<(SwitchIdx, Column)> {
    layer::route(topology, destinations, layer::Cycles::Avoided).columns
}

/// Columns of shortest paths to all switches, balanced, with any cycles they close.
pub(super) fn route_freely(topology: &Topology) -> Vec<Column> {
    let all: Vec<SwitchIdx> = topology.indices().collect();
    let columns = layer::route(topology, &all, layer::Cycles::Ignored).columns;
    columns.into_iter().map(|(_, column)| column).collect()
}

/// The layer of a destination: of its GUID alone, so that it outlives every fault. Mixed as by
/// SplitMix64, for GUIDs of one kind of switch differ in few bits.
fn layer_of(topology: &Topology, switch: SwitchIdx, vls: u8) -> u8 {
    let mut mixed = topology.switch(switch).guid.0;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % u64::from(vls)) as u8
}

fn reason(topology: &Topology, vls: u8, on_tree: usize) -> String {
    let mut reason = format!(
        "nue: mostly shortest paths that close no credit loop, on {}",
        match vls {
            1 => "one lane".to_owned(),
            _ => format!("{vls} lanes by destination"),
        }
    );
    if on_tree > 0 {
        let switches = topology.switch_count();
        reason += &format!("; {on_tree} of {switches} switches are reached along a spanning tree");
    }
    if vls > 1 {
        reason +=
            "; answers on a connection have the level of what they answer, and are not covered";
        reason += prepare::FIXED_LEVELS;
    }
    reason
}
