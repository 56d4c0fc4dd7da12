//! `nue`: any graph, any number of lanes, and never a credit loop.

use super::balance::{self, Balance, Guide, MAX_COLUMNS};
use super::channels::Channels;
use super::columns::{self, Column};
use super::dependencies::{ChannelOrder, Tree, add_turns};
use super::{Engine, EngineError, EngineOption, Options, Routing, prepare};
use crate::lanes::{Lanes, ServiceLevels};
use crate::tables::Tables;
use crate::topology::{SwitchIdx, Topology};

/// Paths that are found within a channel dependency graph that is kept acyclic, so that there is no
/// credit loop on any graph, with any number of virtual lanes from one on (after Domke, Hoefler and
/// Matsuoka, "Routing on the dependency graph", HPDC'16). Mostly shortest paths, some with detours.
///
/// The dependency graph of a lane is an order of its channels, chosen before the paths: it contains
/// the turns of a spanning tree, by which every switch is reached, and most turns of balanced
/// shortest paths. A switch with several hosts has several paths from most places.
///
/// - *Guarantee*: complete, loop-free and credit-loop-free on every fabric.
/// - *Needs*: one lane, as long as [`Nue::VLS`] says no other. With k lanes the destination
///   switches are dealt out to k layers by their GUIDs, so that a fault changes no service level; a
///   path's SL is that of its destination's layer. More lanes leave more freedom, and shorter
///   paths; but an answer has the SL of its request rather than that of its own destination, and
///   the proof does not cover it. Only one lane is safe with any programs.
/// - *Complexity*: for n switches with c columns each, e pairs of neighbours and t turns,
///   O(n · c · e) for the paths and O(t · log t) for the order of each lane. A column that reaches
///   switches by detours takes up to O(t) more.
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
            let columns = route(topology, vls);
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
            Ok(Routing::unranked(self.name(), reason(vls), tables, lanes))
        })?
    }
}

/// Columns to all switches on `vls` layers.
pub(super) fn route(topology: &Topology, vls: u8) -> Vec<Vec<Column>> {
    let channels = Channels::of(topology);
    let mut router = Router::new(topology, &channels);
    let mut columns = vec![Vec::new(); topology.switch_count()];
    for number in 0..vls {
        let is_in_layer = |switch: &SwitchIdx| layer_of(topology, *switch, vls) == number;
        let destinations: Vec<SwitchIdx> = topology.indices().filter(is_in_layer).collect();
        for (destination, found) in router.layer(&destinations) {
            columns[destination.index()] = found;
        }
    }
    columns
}

/// Columns to some destinations that close no cycle among themselves.
pub(super) fn route_some(
    topology: &Topology,
    destinations: &[SwitchIdx],
) -> Vec<(SwitchIdx, Vec<Column>)> {
    let channels = Channels::of(topology);
    Router::new(topology, &channels).layer(destinations)
}

/// How many free columns of a destination show what paths it wants.
const WANTED_COLUMNS: usize = 2;

/// Finds the columns of one layer after the other.
struct Router<'a> {
    topology: &'a Topology,
    channels: &'a Channels,
    tree: Tree,
    /// Layers share the links.
    balance: Balance<'a>,
}

impl<'a> Router<'a> {
    fn new(topology: &'a Topology, channels: &'a Channels) -> Router<'a> {
        Router {
            topology,
            channels,
            tree: Tree::new(topology, channels),
            balance: Balance::new(topology, channels),
        }
    }

    /// The columns of the destinations of a layer.
    fn layer(&mut self, destinations: &[SwitchIdx]) -> Vec<(SwitchIdx, Vec<Column>)> {
        let order = self.order(destinations);
        balance::columns(
            &mut self.balance,
            destinations,
            MAX_COLUMNS,
            Guide::Follow(&order),
        )
    }

    /// The order that suits the traffic to some destinations: most of its balanced shortest paths
    /// are legal.
    fn order(&self, destinations: &[SwitchIdx]) -> ChannelOrder {
        let ways = balance::ways(self.channels, destinations, WANTED_COLUMNS);
        let mut free = Balance::new(self.topology, self.channels);
        let columns = free.columns(&ways, Guide::Free);
        let mut wanted = vec![0; self.channels.turns()];
        for (way, column) in ways.iter().zip(&columns) {
            let mut flows = self.channels.flows(column);
            flows.iter_mut().for_each(|flow| *flow *= way.hosts);
            let next = self.channels.next(column);
            add_turns(self.channels, &next, &flows, &mut wanted);
        }
        ChannelOrder::around(self.topology, self.channels, &self.tree, wanted)
    }
}

/// The layer of a destination: of its GUID alone, so that it outlives every fault. Mixed as by
/// SplitMix64, for GUIDs of one kind of switch differ in few bits.
fn layer_of(topology: &Topology, switch: SwitchIdx, vls: u8) -> u8 {
    let mut mixed = topology.switch(switch).guid.0;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % u64::from(vls)) as u8
}

fn reason(vls: u8) -> String {
    let mut reason = format!(
        "nue: mostly shortest paths that close no credit loop, on {}",
        match vls {
            1 => "one lane".to_owned(),
            _ => format!("{vls} lanes by destination"),
        }
    );
    if vls > 1 {
        reason +=
            "; answers on a connection have the level of what they answer, and are not covered";
        reason += prepare::FIXED_LEVELS;
    }
    reason
}
