use rsm_ids::{Lid, PortNum};

use rsm_routing::tables::Tables;
use rsm_routing::topology::{SwitchIdx, Topology};

/// The way of packets to a LID as the switches forward them now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ForwardingPath {
    /// Every switch on the way and the port they leave it by; the last one leads to the
    /// destination.
    pub hops: Vec<(SwitchIdx, PortNum)>,
}

/// Why there is no way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum RouteError {
    /// A switch has no entry for the LID.
    #[error("the tables of a switch have no port for the LID")]
    Dropped,
    /// A switch forwards to a port without a cable, or into a wrong node.
    #[error("a switch forwards to a port that leads elsewhere")]
    Astray,
    /// Packets go round in cycles.
    #[error("the tables make a loop")]
    Loop,
    /// No port has the LID.
    #[error("no port has the LID")]
    Unassigned,
}

/// Follows the tables from a switch to a LID, handing every hop to `hop`.
pub(crate) fn walk(
    topology: &Topology,
    tables: &Tables,
    from: SwitchIdx,
    lid: Lid,
    mut hop: impl FnMut(SwitchIdx, PortNum),
) -> Result<(), RouteError> {
    let destination = topology.destination_of(lid).ok_or(RouteError::Unassigned)?;
    let mut at = from;
    // No way without a loop visits more switches than there are.
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
    /// The way from a switch to a LID.
    ///
    /// # Errors
    /// Why the tables give no way to the LID.
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
