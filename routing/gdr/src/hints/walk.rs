use rsm_ids::{Lid, PortNum};

use rsm_routing::tables::Tables;
use rsm_routing::topology::{SwitchIdx, Topology};

/// The path of packets to a LID, as the switches forward them now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ForwardingPath {
    /// Every switch on the path with the port by which packets leave it; the last port leads to the
    /// destination.
    pub hops: Vec<(SwitchIdx, PortNum)>,
}

/// The reason why there is no path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum RouteError {
    /// A switch has no entry for the LID.
    #[error("the tables of a switch have no port for the LID")]
    Dropped,
    /// A switch forwards to a port without a cable, or to a wrong node.
    #[error("a switch forwards to a port that leads elsewhere")]
    Astray,
    /// Packets go round in a loop.
    #[error("the tables make a loop")]
    Loop,
    /// No port has the LID.
    #[error("no port has the LID")]
    Unassigned,
}

/// Follows the tables from a switch to a LID, and passes every hop to `hop`.
pub(crate) fn walk(
    topology: &Topology,
    tables: &Tables,
    from: SwitchIdx,
    lid: Lid,
    mut hop: impl FnMut(SwitchIdx, PortNum),
) -> Result<(), RouteError> {
    let destination = topology.destination_of(lid).ok_or(RouteError::Unassigned)?;
    let mut at = from;
    // A path without a loop visits each switch at most once.
    for _ in 0..topology.switch_count() {
        let port = tables.lft(at).port(lid).ok_or(RouteError::Dropped)?;
        hop(at, port);
        if at == destination.switch {
            return match port == destination.port {
                true => Ok(()),
                false => Err(RouteError::Astray),
            };
        }
        (at, _) = topology.peer(at, port).ok_or(RouteError::Astray)?;
    }
    Err(RouteError::Loop)
}

impl ForwardingPath {
    /// Finds the path from a switch to a LID.
    ///
    /// # Errors
    /// The tables have no path to the LID.
    pub fn find(
        topology: &Topology,
        tables: &Tables,
        from: SwitchIdx,
        lid: Lid,
    ) -> Result<ForwardingPath, RouteError> {
        let mut route = ForwardingPath::default();
        walk(topology, tables, from, lid, |switch, port| {
            route.hops.push((switch, port))
        })?;
        Ok(route)
    }
}
