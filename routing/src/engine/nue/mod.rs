//! `nue`: routes any graph on any number of VLs without credit loops.

pub(super) mod depth_first;

pub(super) use super::balance::MAX_COLUMNS;
use super::balance::{self, Balance, Guide};
use super::channels::Channels;
use super::columns::{self, Column};
use super::dependencies::{ChannelOrder, Tree, add_turns};
use super::fabric_tree::known_fabric;
use super::{Engine, EngineError, EngineOption, Options, Ranking, Routing, prepare, updn};
use crate::lanes::{Lanes, ServiceLevels};
use crate::tables::Tables;
use crate::topology::{Order, SwitchIdx, Topology};

/// Finds paths within a channel dependency graph that stays acyclic, so that there is no credit
/// loop on any graph, with one VL or more (after Domke, Hoefler and Matsuoka, "Routing on the
/// dependency graph", HPDC'16). Most paths are shortest paths; some take detours.
///
/// The dependency graph of a VL is an order of its channels, chosen before the paths. The order
/// contains the turns of a spanning tree, which reaches every switch, and most turns of balanced
/// shortest paths. From most switches, several paths lead to a switch with several hosts.
///
/// If some balanced shortest paths are illegal in such an order, one VL may instead follow an
/// up*/down* order of the switches, found depth first. The engine takes that order unless the order
/// of channels lowers the maximum channel load by more than a tenth, because tables that follow an
/// order of the switches replace each other without dropping packets. The order is kept through
/// faults.
///
/// - *Guarantee*: complete, loop-free and credit-loop-free on every fabric.
/// - *Needs*: one VL, unless [`Nue::VLS`] asks for more. With k VLs, the GUIDs of destination
///   switches spread them over k layers, so that a fault changes no service level; a path has the
///   SL of its destination's layer. More VLs permit shorter paths; but an answer has the SL of its
///   request instead of its own destination's SL, and the proof does not cover such answers.
///   Only a single VL is safe with all programs.
/// - *Complexity*: for n switches with c columns each, e pairs of neighbours and t turns,
///   O(n · c · e) for the paths and O(t · log t) for the order of each lane. A column that reaches
///   switches by detours takes up to O(t) more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nue;

impl Nue {
    /// The number of VLs over which destinations are spread.
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
        prepare::check_capacities(topology)?;
        let vls = options.engine_options.get(&Nue::VLS);
        prepare::check_lanes(self.name(), vls, options)?;
        if vls == 1 {
            return Ok(on_one_lane(topology, options)?.best().clone());
        }
        prepare::in_pool(options, || {
            let columns = route(topology, vls);
            let levels = topology
                .indices()
                .map(|s| layer_of(topology, s, vls))
                .collect();
            let lanes = Lanes::layers(topology, ServiceLevels::ByDestination(levels), vls);
            let tables = columns::tables(topology, &columns);
            Ok(Routing::unranked(self.name(), reason(vls), tables, lanes))
        })?
    }
}

/// The factor by which the maximum channel load of routes that follow an order of the switches may
/// exceed that of other routes. The order justifies the load, because repairs then drop no packets.
const ORDER_LOAD_FACTOR: f64 = 1.1;

/// The routes on one VL: by an order of the switches, by an order of channels alone, or one of
/// each.
pub(super) struct OneLane {
    /// The routes by an order of the switches.
    ordered: Option<LoadedRouting>,
    /// The routes by an order of channels alone.
    free: Option<LoadedRouting>,
}

/// The routes on one VL with their load.
struct LoadedRouting {
    routing: Routing,
    /// The maximum channel load.
    max_load: u64,
}

impl OneLane {
    /// The routes by an order of the switches; `None` if there are none.
    pub(super) fn into_ordered(self) -> Option<Routing> {
        self.ordered.map(|found| found.routing)
    }

    /// The routes that the engine returns: those by an order of the switches unless
    /// [`ORDER_LOAD_FACTOR`] rules them out.
    pub(super) fn best(&self) -> &Routing {
        let is_preferred = |ordered: &LoadedRouting, free: &LoadedRouting| {
            ordered.max_load as f64 <= free.max_load as f64 * ORDER_LOAD_FACTOR
        };
        match (&self.ordered, &self.free) {
            (Some(ordered), Some(free)) if is_preferred(ordered, free) => &ordered.routing,
            (_, Some(found)) | (Some(found), None) => &found.routing,
            (None, None) => unreachable!("there are routes on every fabric"),
        }
    }
}

/// Computes the routes on one VL. If there is an earlier order of the switches, no other order is
/// tried.
///
/// # Errors
/// The errors of [`Engine::route`].
pub(super) fn on_one_lane(topology: &Topology, options: &Options) -> Result<OneLane, EngineError> {
    prepare::check_capacities(topology)?;
    let earlier = options.previous_ranking.as_ref();
    prepare::in_pool(options, || {
        let channels = Channels::of(topology);
        if let Some(order) = depth_first::kept(topology, earlier) {
            let ordered = by_switches(topology, &order, earlier, MAX_COLUMNS);
            return OneLane {
                ordered: Some(ordered),
                free: None,
            };
        }
        let all: Vec<SwitchIdx> = topology.indices().collect();
        let (order, refused) = Router::new(topology, &channels).order(&all);
        let free = || {
            Some(by_channels(
                topology,
                topology,
                &channels,
                &order,
                MAX_COLUMNS,
            ))
        };
        if refused == 0 {
            return OneLane {
                ordered: None,
                free: free(),
            };
        }
        let ordered = || {
            let order = depth_first::searched(topology);
            Some(by_switches(topology, &order, earlier, MAX_COLUMNS))
        };
        let (ordered, free) = rayon::join(ordered, free);
        OneLane { ordered, free }
    })
}

/// Computes the routes on one VL by an order of the switches (an earlier order, if there is one),
/// with at most `max_columns` paths to each switch.
///
/// # Errors
/// The errors of [`Engine::route`].
pub(super) fn in_order(
    topology: &Topology,
    options: &Options,
    max_columns: usize,
) -> Result<Routing, EngineError> {
    prepare::check_capacities(topology)?;
    let earlier = options.previous_ranking.as_ref();
    prepare::in_pool(options, || ordered(topology, earlier, max_columns))
}

/// Computes the routes by an order of the switches, in the current thread pool.
pub(super) fn ordered(
    topology: &Topology,
    earlier: Option<&Ranking>,
    max_columns: usize,
) -> Routing {
    let order = depth_first::order(topology, earlier);
    by_switches(topology, &order, earlier, max_columns).routing
}

/// The routes by an order of the switches; `earlier` is the ranking to continue. Absent hosts count
/// as present, so that hosts that leave and return change no other path.
fn by_switches(
    topology: &Topology,
    order: &Order,
    earlier: Option<&Ranking>,
    max_columns: usize,
) -> LoadedRouting {
    let known = known_fabric(topology, earlier);
    let channels = Channels::of(topology).with_hosts(&columns::ends(topology, &known));
    let up_and_down = ChannelOrder::up_and_down(&channels, order);
    let found = by_channels(topology, &known, &channels, &up_and_down, max_columns);
    let origin = (order, depth_first::REASON);
    LoadedRouting {
        routing: Routing {
            reason: format!(
                "{}, up and down the switches {}",
                reason(1),
                depth_first::REASON
            ),
            ranking: Some(Ranking {
                known: Some(known),
                ..updn::remember(topology, origin, &[], earlier)
            }),
            ..found.routing
        },
        ..found
    }
}

/// The routes by an order of the channels. The tables include the hosts of `known`, which may be
/// absent now.
fn by_channels(
    topology: &Topology,
    known: &Topology,
    channels: &Channels,
    order: &ChannelOrder,
    max_columns: usize,
) -> LoadedRouting {
    let mut balance = Balance::new(topology, channels);
    let all: Vec<SwitchIdx> = topology.indices().collect();
    let found = balance::columns(&mut balance, &all, max_columns, Guide::Follow(order));
    let mut columns = vec![Vec::new(); topology.switch_count()];
    for (destination, found) in found {
        columns[destination.index()] = found;
    }
    let tables = columns::tables_as_known(topology, known, &columns);
    LoadedRouting {
        routing: Routing::unranked(Nue.name(), reason(1), tables, Lanes::default()),
        max_load: balance.max_load(),
    }
}

/// Computes columns to all switches, on `vls` layers.
fn route(topology: &Topology, vls: u8) -> Vec<Vec<Column>> {
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

/// Computes columns to some destinations that close no cycle among themselves.
pub(super) fn route_some(
    topology: &Topology,
    destinations: &[SwitchIdx],
) -> Vec<(SwitchIdx, Vec<Column>)> {
    let channels = Channels::of(topology);
    Router::new(topology, &channels).layer(destinations)
}

/// The number of unrestricted columns per destination from which the wanted turns are taken.
const WANTED_COLUMNS: usize = 2;

/// Finds the columns layer by layer.
struct Router<'a> {
    topology: &'a Topology,
    channels: &'a Channels,
    tree: Tree,
    /// The loads of the links, common to all layers.
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

    /// Computes the columns of the destinations of a layer.
    fn layer(&mut self, destinations: &[SwitchIdx]) -> Vec<(SwitchIdx, Vec<Column>)> {
        let (order, _) = self.order(destinations);
        balance::columns(
            &mut self.balance,
            destinations,
            MAX_COLUMNS,
            Guide::Follow(&order),
        )
    }

    /// Chooses a channel order for traffic to some destinations in which most of their balanced
    /// shortest paths are legal. Also returns the amount of traffic on illegal turns.
    fn order(&self, destinations: &[SwitchIdx]) -> (ChannelOrder, u64) {
        let planned_columns = balance::planned_columns(self.channels, destinations, WANTED_COLUMNS);
        let mut free = Balance::new(self.topology, self.channels);
        let columns = free.columns(&planned_columns, Guide::Free);
        let mut wanted = vec![0; self.channels.turns()];
        for (planned, column) in planned_columns.iter().zip(&columns) {
            let mut flows = self.channels.flows(column);
            flows.iter_mut().for_each(|flow| *flow *= planned.hosts);
            let next = self.channels.next(column);
            add_turns(self.channels, &next, &flows, &mut wanted);
        }
        let traffic = wanted.clone();
        let order = ChannelOrder::around(self.topology, self.channels, &self.tree, wanted);
        let refused = order.refused(self.channels, &traffic);
        (order, refused)
    }
}

/// The layer of a destination, derived from its GUID alone, so that no fault changes it. The GUID
/// is mixed as in SplitMix64, because GUIDs of one switch model differ in few bits.
fn layer_of(topology: &Topology, switch: SwitchIdx, vls: u8) -> u8 {
    let mut mixed = topology.switch(switch).guid.0;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % u64::from(vls)) as u8
}

/// The explanation of the routes, for the operator.
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
