//! `dfsssp`: balanced shortest paths, deadlock-free on as many VLs as they need.

mod layers;

use super::balance::{self, Balance, Guide, MAX_COLUMNS};
use super::channels::Channels;
use super::columns::{self, Column};
use super::dependencies::{ChannelOrder, Tree};
use super::{DEFAULT_VLS, Engine, EngineError, Options, Routing, prepare};
use crate::lanes::{Lanes, PairLevels, ServiceLevels};
use crate::tables::Tables;
use crate::topology::{SwitchIdx, Topology};
use layers::Layers;

/// Balanced shortest paths between hosts. Each pair of switches uses the first VL on which its
/// paths close no cycle with other paths (after Domke, Hoefler and Nagel, "Deadlock-free oblivious
/// routing for arbitrary topologies", IPDPS'11).
///
/// Each VL has an order of the channels that suits most of the paths not yet assigned. Pairs whose
/// paths all follow the order use this VL; the remaining pairs use later VLs.
///
/// - *Guarantee*: shortest paths without a credit loop on any graph for which the VLs suffice, and
///   otherwise an error that suggests [`nue`](super::Nue). Paths to switches without hosts follow
///   the order of the first VL, some of them by detours.
/// - *Needs*: as many VLs as the paths take, up to [`Options::max_vls`]; a service level for each
///   pair of leaf switches, which faults can change. A switch with several hosts has several paths
///   if that needs no service level, or at most one more VL.
/// - *Complexity*: for n switches, c columns of a switch, e pairs of neighbours and t turns,
///   O(n · c · e) for the paths, and O(n² · c + t · log t) for each lane.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dfsssp;

impl Engine for Dfsssp {
    fn name(&self) -> &'static str {
        "dfsssp"
    }

    fn guarantee(&self) -> &'static str {
        "shortest paths without loops or credit loops, on as many virtual lanes as that takes; fabrics \
         whose links have fewer are refused"
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        _previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        prepare::check_capacities(topology)?;
        let max_vls = options.max_vls.unwrap_or(DEFAULT_VLS).max(1);
        prepare::in_pool(options, || {
            let channels = Channels::of(topology);
            let found = route(topology, &channels, max_vls).ok_or(EngineError::TooFewLanes {
                engine: self.name(),
                needed: max_vls + 1,
                available: max_vls,
            })?;
            let vls = found.lanes.vls();
            let mut reason = format!("dfsssp: shortest paths, balanced, on {vls} lanes by pair");
            if vls > 1 {
                reason += prepare::SEVERAL_SLS;
            }
            let tables = columns::tables(topology, &found.columns);
            Ok(Routing::unranked(self.name(), reason, tables, found.lanes))
        })?
    }
}

/// The columns of each destination switch, and the VLs of their paths.
struct RoutedColumns {
    columns: Vec<Vec<Column>>,
    lanes: Lanes,
}

/// Computes columns on at most `max_vls` VLs; `None` if even one column for each switch needs more.
/// A switch with several hosts gets several columns if these need no more VLs than one column, or
/// one VL more if one column already needs several. Where [`MAX_COLUMNS`] columns need more VLs, as
/// on a tree that lacks links, [`FEWER_COLUMNS`] may suffice.
fn route(topology: &Topology, channels: &Channels, max_vls: u8) -> Option<RoutedColumns> {
    let found = attempt(topology, channels, 1, max_vls)?;
    let has_several = topology.indices().any(|switch| topology.hosts(switch) > 1);
    if !has_several {
        return Some(found);
    }
    // If one VL suffices, pairs need no service level, and it stays so.
    let lanes = match found.lanes.vls() {
        1 => 1,
        several => max_vls.min(several + 1),
    };
    let mut several = [MAX_COLUMNS, FEWER_COLUMNS].into_iter();
    let spread = several
        .find_map(|columns_per_switch| attempt(topology, channels, columns_per_switch, lanes));
    Some(spread.unwrap_or(found))
}

/// The number of columns to try after [`MAX_COLUMNS`]: they spread the load nearly as well.
const FEWER_COLUMNS: usize = 4;

/// The maximum number of times that the paths, and then the order of the first VL, are adapted to
/// each other.
const FITTINGS: usize = 2;

/// Computes `columns_per_switch` columns to each switch with that many hosts, on at most `max_vls`
/// VLs; `None` if the paths need more VLs.
fn attempt(
    topology: &Topology,
    channels: &Channels,
    columns_per_switch: usize,
    max_vls: u8,
) -> Option<RoutedColumns> {
    let (leaves, others): (Vec<SwitchIdx>, Vec<SwitchIdx>) = topology
        .indices()
        .partition(|&switch| topology.hosts(switch) > 0);
    let mut columns = vec![Vec::new(); topology.switch_count()];
    let route = |destinations: &[SwitchIdx], guide: Guide<'_>, columns: &mut [Vec<Column>]| {
        let mut balance = Balance::new(topology, channels);
        for (to, found) in balance::columns(&mut balance, destinations, columns_per_switch, guide) {
            columns[to.index()] = found;
        }
    };
    let tree = Tree::new(topology, channels);
    let wanted = |columns: &[Vec<Column>]| layers::wanted(channels, columns, |_, _| 1);
    route(&leaves, Guide::Free, &mut columns);
    let mut order = ChannelOrder::around(topology, channels, &tree, wanted(&columns));
    for _ in 0..FITTINGS {
        if layers::follow(channels, &columns, &order) {
            break;
        }
        route(&leaves, Guide::Prefer(&order), &mut columns);
        order = order.refitted(channels, &tree, wanted(&columns));
    }
    route(&others, Guide::Follow(&order), &mut columns);
    let lanes = lanes(topology, channels, &columns, max_vls, &order)?;
    Some(RoutedColumns { columns, lanes })
}

/// Assigns the paths of `columns` to VLs; `None` if they need more than `max_vls`. `first_order` is
/// the order of the first VL.
fn lanes(
    topology: &Topology,
    channels: &Channels,
    columns: &[Vec<Column>],
    max_vls: u8,
    first_order: &ChannelOrder,
) -> Option<Lanes> {
    let layers = Layers::new(channels, columns, max_vls, first_order)?;
    let level = |from: SwitchIdx, to: SwitchIdx| layers.level(from, to);
    let levels = PairLevels::new(topology.switch_count(), level);
    Some(match layers.count() {
        1 => Lanes::default(),
        count => Lanes::layers(topology, ServiceLevels::ByPair(levels), count),
    })
}
