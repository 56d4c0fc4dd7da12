//! `dor` and `torus`: dimension-order routing on meshes, tori and HyperX.

mod hops;

use std::sync::Arc;

use super::columns::{self, Column};
use super::shape::{Coordinates, RowCables};
use super::{Engine, EngineError, Options, Routing, nue, prepare};
use crate::lanes::{Lanes, Mapping, PairLevels, Row, ServiceLevels};
use crate::tables::Tables;
use crate::topology::{PortUse, SwitchIdx, Topology};
use crate::verify::verify_lanes;
use hops::Grid;

/// Dimension order: a packet goes to its position in the first dimension, then in the second, and
/// so on.
///
/// - *Guarantee*: shortest paths without a credit loop, on meshes, hypercubes (rings of four are
///   hypercubes) and HyperX, where packets take one hop in each dimension. For other fabrics, the
///   error names a switch or link that does not fit.
/// - *Needs*: one VL; packets may have any service level.
/// - *Around faults*: in a full row, a packet goes through a third switch of the row; at any other
///   break, packets continue in a later dimension first. If that does not help, or closes a cycle,
///   the routes are those of [`nue`](super::Nue) on one VL, and the reason says so.
/// - *Complexity*: O(n²) for n switches, and a proof if some part is broken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dor;

/// Dimension order on tori and meshes of any number of dimensions, with a dateline in each ring.
///
/// - *Guarantee*: shortest paths without a credit loop on an intact torus; around any broken links
///   of a ring, and around a failed switch, paths keep their service levels.
/// - *Needs*: two VLs for the datelines, or one on a mesh; with several dimensions, one more VL for
///   turns around a failed switch, if links have it. A service level for each pair of switches,
///   with one bit for each ring dimension whose dateline the path crosses: at most four bits.
///   Meshes need no service levels.
/// - *Around faults*: in a broken ring, packets go round the other way; at a missing corner, they
///   turn one switch earlier, and take the third VL when they turn back to the dimension that they
///   left. If that does not suffice (several faults cut a place off in its row and its ring, or
///   there is no VL for these turns), [`nue`](super::Nue) routes on one VL, and the reason says so.
/// - *Complexity*: O(n²) for n switches, and a proof if some part is broken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Torus;

/// The maximum number of rings: a service level has four bits.
const MAX_RINGS: usize = 4;

/// The number of VLs of a ring: one before its dateline, and one beyond it.
const RING_VLS: u8 = 2;

impl Engine for Dor {
    fn name(&self) -> &'static str {
        "dor"
    }

    fn guarantee(&self) -> &'static str {
        "shortest paths without loops or credit loops on meshes, hypercubes and HyperX, on one \
         virtual lane; other fabrics are refused"
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        _previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        prepare::check_capacities(topology)?;
        let coordinates = find(self.name(), topology, options)?;
        let coordinates = without_rings_of_three(coordinates);
        let mut rows = coordinates.rows.iter();
        if let Some(ring) = rows.position(|&row| row == RowCables::Ring) {
            let size = coordinates.sizes[ring];
            let reason = format!("it has rings of {size}, which need the lanes of torus");
            return Err(unfit(self.name(), reason));
        }
        let grid = Grid::new(topology, &coordinates);
        let lanes = Lanes::default();
        route(self.name(), topology, options, &coordinates, &grid, lanes)
    }
}

impl Engine for Torus {
    fn name(&self) -> &'static str {
        "torus"
    }

    fn guarantee(&self) -> &'static str {
        "shortest paths without loops or credit loops on tori and meshes, with service levels that no \
         broken link and no single broken switch changes; other fabrics are refused"
    }

    fn route(
        &self,
        topology: &Topology,
        options: &Options,
        _previous: Option<&Tables>,
    ) -> Result<Routing, EngineError> {
        prepare::check_capacities(topology)?;
        let coordinates = find(self.name(), topology, options)?;
        let grid = Grid::new(topology, &coordinates);
        let rings = grid.rings();
        if rings > MAX_RINGS {
            let reason =
                format!("it has {rings} ring dimensions, where service levels hold {MAX_RINGS}");
            return Err(unfit(self.name(), reason));
        }
        let straight_vls = if rings > 0 { RING_VLS } else { 1 };
        prepare::check_data_vls(self.name(), straight_vls, options)?;
        // Packets turn back to an earlier dimension only if there are several.
        let turns_back = grid.dimensions() > 1 && prepare::has_data_vls(straight_vls + 1, options);
        let vls = straight_vls + u8::from(turns_back);
        let lanes = match vls {
            1 => Lanes::default(),
            vls => lanes(topology, &grid, vls),
        };
        route(self.name(), topology, options, &coordinates, &grid, lanes)
    }
}

/// Coordinates in which rings of three are full rows: all their switches are neighbours, so that no
/// packet passes one of them on its way to another.
fn without_rings_of_three(found: Arc<Coordinates>) -> Arc<Coordinates> {
    let mut full = Coordinates::clone(&found);
    for (row, &size) in full.rows.iter_mut().zip(&full.sizes) {
        if size == 3 && *row == RowCables::Ring {
            *row = RowCables::Full;
        }
    }
    if full == *found {
        found
    } else {
        Arc::new(full)
    }
}

/// The error that the fabric does not fit the engine.
fn unfit(engine: &'static str, reason: String) -> EngineError {
    EngineError::Shape { engine, reason }
}

/// Finds the coordinates of the switches: the earlier ones if they still fit, else new ones, in the
/// operator's layout if that fits.
fn find(
    engine: &'static str,
    topology: &Topology,
    options: &Options,
) -> Result<Arc<Coordinates>, EngineError> {
    if topology.switch_count() == 0 {
        return Ok(Arc::default());
    }
    let previous = options.previous_coordinates.as_deref();
    let found = Coordinates::find(topology, previous)
        .map_err(|reason| unfit(engine, format!("it is no mesh, torus or HyperX: {reason}")))?;
    let is_kept = previous.is_some_and(|previous| found.contains_all_of(previous));
    let laid_out = match options.layout.as_deref() {
        // Coordinates in use stay, so that service levels stay.
        Some(layout) if !is_kept => layout.to_layout(&found).ok(),
        _ => None,
    };
    Ok(Arc::new(laid_out.unwrap_or(found)))
}

/// The part of the reason about the operator's layout; empty if there is none.
fn laid_out(options: &Options, coordinates: &Coordinates) -> String {
    match options
        .layout
        .as_deref()
        .map(|layout| layout.check(coordinates))
    {
        None => String::new(),
        Some(Ok(())) => ", laid out as its file says".to_owned(),
        Some(Err(misfit)) => format!(", not laid out by its file: {misfit}"),
    }
}

/// Computes the routes by dimension order; if too much is broken for that, the routes of `nue`.
fn route(
    engine: &'static str,
    topology: &Topology,
    options: &Options,
    coordinates: &Arc<Coordinates>,
    grid: &Grid<'_>,
    lanes: Lanes,
) -> Result<Routing, EngineError> {
    let name = coordinates.name() + &laid_out(options, coordinates);
    let by_levels = lanes.needs_levels();
    let routing = |columns: &[Vec<Column>], reason, lanes| Routing {
        coordinates: Some(coordinates.clone()),
        ..Routing::unranked(engine, reason, columns::tables(topology, columns), lanes)
    };
    prepare::in_pool(options, || {
        let columns = grid.columns();
        let mut detours_clause = String::new();
        let mut is_usable = columns.cut_off.is_none();
        if columns.around_faults > 0 {
            detours_clause = format!(", {} of them around what is broken", columns.around_faults);
            let found = columns::tables(topology, &columns.columns);
            is_usable = is_usable && verify_lanes(topology, &found, &lanes).is_sound();
        }
        if is_usable {
            let mut reason = format!("{engine}: {name}, dimension by dimension{detours_clause}");
            if by_levels {
                reason += prepare::SEVERAL_SLS;
            }
            return routing(&columns.columns, reason, lanes);
        }
        // Multicast trees also follow the order of the switches, and so reach all members.
        let reason = format!(
            "{engine}: {name} with more broken than the engine can go around; until repair routed by \
             nue, on one lane"
        );
        Routing {
            engine,
            reason,
            coordinates: Some(coordinates.clone()),
            ..nue::route_in_current_pool(
                topology,
                options.previous_ranking.as_ref(),
                nue::MAX_COLUMNS,
            )
        }
    })
}

/// The service levels and VLs of a grid. Ports to hosts have kind 0, and ports of dimension d have
/// kind d + 1. The VL depends on the dimension in which a packet goes on; the last of `vls` VLs is
/// for turns back to an earlier dimension.
fn lanes(topology: &Topology, grid: &Grid<'_>, vls: u8) -> Lanes {
    let kinds = grid.dimensions() as u8 + 1;
    let kind = |switch: SwitchIdx, port| match topology.port_use(switch, port) {
        // A grid has at most twelve dimensions.
        PortUse::Link { peer, .. } => grid.dimension(switch, peer).map_or(0, |at| at as u8 + 1),
        PortUse::Destination(_) | PortUse::Unused => 0,
    };
    let row = |input: u8, output: u8| -> Row {
        if output == 0 {
            return [0; 16];
        }
        if input > output {
            // A packet turns back to an earlier dimension only around a missing switch.
            return [vls - 1; 16];
        }
        match grid.level_bit(usize::from(output) - 1) {
            None => [0; 16],
            Some(bit) => std::array::from_fn(|level| (level >> bit & 1) as u8),
        }
    };
    let mapping = Mapping::new(topology, kinds, kind, row);
    let levels = if grid.rings() == 0 {
        ServiceLevels::Any
    } else {
        let level = |from, to| grid.level(from, to);
        ServiceLevels::ByPair(PairLevels::new(topology.switch_count(), level))
    };
    Lanes::new(levels, mapping, vls)
}
