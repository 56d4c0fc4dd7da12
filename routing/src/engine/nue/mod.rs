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

/// Finds paths within a channel dependency graph that stays acyclic, so no fabric gets a credit
/// loop, with any number of VLs (after Domke, Hoefler and Matsuoka, "Routing on the dependency
/// graph", HPDC'16). Most paths are shortest paths; some take detours.
///
/// The dependency graph of a VL is an order of its channels, chosen before the paths. In this
/// order, all turns of a spanning tree, which reaches every switch, and most turns of balanced
/// shortest paths are legal. From most switches, several paths lead to a switch with several hosts.
///
/// If some balanced shortest paths are illegal in such an order, one VL may instead follow an
/// up*/down* order of the switches, found depth first. The engine prefers the order of the
/// switches, because tables that follow it replace each other without dropping packets. The engine
/// takes the order of channels only if the maximum channel load by switch order is more than a
/// tenth higher. The order of the switches is kept through faults.
///
/// - *Guarantee*: complete, loop-free and credit-loop-free on every fabric.
/// - *Needs*: one VL, unless [`Nue::VLS`] asks for more. With k VLs, the GUID of a destination
///   switch determines its layer, one of k, so a fault changes no service level; a path has the
///   SL of its destination's layer. More VLs permit shorter paths; but an answer has the SL of its
///   request instead of the SL of the answer's destination, and the proof does not cover such
///   answers. Only a single VL is safe with all programs.
/// - *Complexity*: for n switches with c columns each, e pairs of neighbours and t turns,
///   O(n · c · e) for the paths and O(t · log t) for the order of each VL. A column that reaches
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
        prepare::check_data_vls(self.name(), vls, options)?;
        if vls == 1 {
            return Ok(route_on_one_vl(topology, options)?.best().clone());
        }
        prepare::in_pool(options, || {
            let columns = route_layers(topology, vls);
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

/// The factor by which the maximum channel load of routes by an order of the switches may exceed
/// the maximum channel load of routes by an order of channels. The higher load is worth its cost,
/// because repairs of routes by an order of the switches drop no packets.
const ORDER_LOAD_FACTOR: f64 = 1.1;

/// The routes on one VL: by an order of the switches, by an order of channels alone, or by both.
pub(super) struct SingleVlRoutes {
    /// The routes by an order of the switches; `None` if not computed.
    ordered: Option<LoadedRouting>,
    /// The routes by an order of channels alone; `None` if not computed.
    by_channels: Option<LoadedRouting>,
}

/// The routes on one VL with their load.
struct LoadedRouting {
    routing: Routing,
    /// The maximum channel load.
    max_load: u64,
}

impl SingleVlRoutes {
    /// The routes by an order of the switches; `None` if there are none.
    pub(super) fn into_ordered(self) -> Option<Routing> {
        self.ordered.map(|loaded| loaded.routing)
    }

    /// The routes that the engine returns: the routes by an order of the switches, unless their
    /// load exceeds the load of the other routes by more than [`ORDER_LOAD_FACTOR`].
    pub(super) fn best(&self) -> &Routing {
        let is_preferred = |ordered: &LoadedRouting, by_channels: &LoadedRouting| {
            ordered.max_load as f64 <= by_channels.max_load as f64 * ORDER_LOAD_FACTOR
        };
        match (&self.ordered, &self.by_channels) {
            (Some(ordered), Some(by_channels)) if is_preferred(ordered, by_channels) => {
                &ordered.routing
            }
            (_, Some(loaded)) | (Some(loaded), None) => &loaded.routing,
            (None, None) => unreachable!("there are routes on every fabric"),
        }
    }
}

/// Computes the routes on one VL. An earlier order of the switches is kept, and no other order is
/// tried then.
///
/// # Errors
/// The errors of [`Engine::route`].
pub(super) fn route_on_one_vl(
    topology: &Topology,
    options: &Options,
) -> Result<SingleVlRoutes, EngineError> {
    prepare::check_capacities(topology)?;
    let earlier = options.previous_ranking.as_ref();
    prepare::in_pool(options, || {
        let channels = Channels::of(topology);
        if let Some(order) = depth_first::kept(topology, earlier) {
            let ordered = route_by_switches(topology, &order, earlier, MAX_COLUMNS);
            return SingleVlRoutes {
                ordered: Some(ordered),
                by_channels: None,
            };
        }
        let switches: Vec<SwitchIdx> = topology.indices().collect();
        let (order, illegal_traffic) = Router::new(topology, &channels).channel_order(&switches);
        let by_channels = || {
            Some(route_by_channels(
                topology,
                topology,
                &channels,
                &order,
                MAX_COLUMNS,
            ))
        };
        if illegal_traffic == 0 {
            return SingleVlRoutes {
                ordered: None,
                by_channels: by_channels(),
            };
        }
        let ordered = || {
            let order = depth_first::searched(topology);
            Some(route_by_switches(topology, &order, earlier, MAX_COLUMNS))
        };
        let (ordered, by_channels) = rayon::join(ordered, by_channels);
        SingleVlRoutes {
            ordered,
            by_channels,
        }
    })
}

/// Computes the routes on one VL by an order of the switches (the earlier order, if the options
/// have one), with at most `max_columns` paths to each switch.
///
/// # Errors
/// The errors of [`Engine::route`].
pub(super) fn route_in_switch_order(
    topology: &Topology,
    options: &Options,
    max_columns: usize,
) -> Result<Routing, EngineError> {
    prepare::check_capacities(topology)?;
    let earlier = options.previous_ranking.as_ref();
    prepare::in_pool(options, || {
        route_in_current_pool(topology, earlier, max_columns)
    })
}

/// Computes the routes by an order of the switches, in the current thread pool, with at most
/// `max_columns` paths to each switch.
pub(super) fn route_in_current_pool(
    topology: &Topology,
    earlier: Option<&Ranking>,
    max_columns: usize,
) -> Routing {
    let order = depth_first::order(topology, earlier);
    route_by_switches(topology, &order, earlier, max_columns).routing
}

/// The routes by an order of the switches; `earlier` is the ranking to continue. Absent hosts count
/// as present, so hosts that leave and return change no other path.
fn route_by_switches(
    topology: &Topology,
    order: &Order,
    earlier: Option<&Ranking>,
    max_columns: usize,
) -> LoadedRouting {
    let known = known_fabric(topology, earlier);
    let channels = Channels::of(topology).with_hosts(&columns::ends(topology, &known));
    let up_and_down = ChannelOrder::up_and_down(&channels, order);
    let loaded = route_by_channels(topology, &known, &channels, &up_and_down, max_columns);
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
            ..loaded.routing
        },
        ..loaded
    }
}

/// The routes by an order of the channels. The tables include the hosts of `known`, which may be
/// absent now.
fn route_by_channels(
    topology: &Topology,
    known: &Topology,
    channels: &Channels,
    order: &ChannelOrder,
    max_columns: usize,
) -> LoadedRouting {
    let mut balance = Balance::new(topology, channels);
    let switches: Vec<SwitchIdx> = topology.indices().collect();
    let columns_by_switch =
        balance::columns(&mut balance, &switches, max_columns, Guide::Follow(order));
    let mut columns = vec![Vec::new(); topology.switch_count()];
    for (destination, destination_columns) in columns_by_switch {
        columns[destination.index()] = destination_columns;
    }
    let tables = columns::tables_as_known(topology, known, &columns);
    LoadedRouting {
        routing: Routing::unranked(Nue.name(), reason(1), tables, Lanes::default()),
        max_load: balance.max_load(),
    }
}

/// Computes the columns to all switches, with destinations spread over `vls` layers. Returns the
/// columns of each switch by its index.
fn route_layers(topology: &Topology, vls: u8) -> Vec<Vec<Column>> {
    let channels = Channels::of(topology);
    let mut router = Router::new(topology, &channels);
    let mut columns = vec![Vec::new(); topology.switch_count()];
    for layer in 0..vls {
        let is_in_layer = |switch: &SwitchIdx| layer_of(topology, *switch, vls) == layer;
        let destinations: Vec<SwitchIdx> = topology.indices().filter(is_in_layer).collect();
        for (destination, destination_columns) in router.layer(&destinations) {
            columns[destination.index()] = destination_columns;
        }
    }
    columns
}

/// Computes columns to some destinations. These columns together close no cycle of dependencies.
pub(super) fn route_some(
    topology: &Topology,
    destinations: &[SwitchIdx],
) -> Vec<(SwitchIdx, Vec<Column>)> {
    let channels = Channels::of(topology);
    Router::new(topology, &channels).layer(destinations)
}

/// The number of unrestricted columns per destination whose turns a channel order should permit.
const UNRESTRICTED_COLUMNS: usize = 2;

/// Computes columns layer by layer.
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
        let (order, _) = self.channel_order(destinations);
        balance::columns(
            &mut self.balance,
            destinations,
            MAX_COLUMNS,
            Guide::Follow(&order),
        )
    }

    /// Chooses a channel order in which most balanced shortest paths to `destinations` are legal.
    /// Also returns the amount of traffic of these paths on illegal turns.
    fn channel_order(&self, destinations: &[SwitchIdx]) -> (ChannelOrder, u64) {
        let planned_columns =
            balance::planned_columns(self.channels, destinations, UNRESTRICTED_COLUMNS);
        let mut unrestricted = Balance::new(self.topology, self.channels);
        let columns = unrestricted.columns(&planned_columns, Guide::Free);
        let mut turn_weights = vec![0; self.channels.turns()];
        for (planned, column) in planned_columns.iter().zip(&columns) {
            let mut flows = self.channels.flows(column);
            flows.iter_mut().for_each(|flow| *flow *= planned.hosts);
            let next = self.channels.next(column);
            add_turns(self.channels, &next, &flows, &mut turn_weights);
        }
        let all_weights = turn_weights.clone();
        let order = ChannelOrder::around(self.topology, self.channels, &self.tree, turn_weights);
        let illegal_traffic = order.refused(self.channels, &all_weights);
        (order, illegal_traffic)
    }
}

/// The layer of a destination, derived from the switch's GUID alone, so no fault changes it. The
/// GUID is mixed as in SplitMix64, because GUIDs of one switch model differ in few bits.
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
        reason += prepare::SEVERAL_SLS;
    }
    reason
}
