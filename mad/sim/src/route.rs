//! Follows a LID-routed packet by the tables of the switches.

use rsm_ids::Lid;
use rsm_mad::wire::MAD_LEN;
use rsm_mad::wire::attr::{PKey, PortState};

use crate::counters::DropReason;
use crate::fabric::{Fabric, NONE};

/// The maximum number of switches that a packet crosses before it counts as looping. In hardware, a
/// switch drops such a packet after a timeout.
pub(crate) const MAX_SWITCHES: u32 = 64;

/// The kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// An SMP, which travels on VL15 and passes every link that is up.
    Management,
    /// A data packet, which needs Active links, operational VLs, and links with a sufficient MTU.
    Data {
        sl: u8,
        payload: u16,
        /// The P_Key, if switches enforce partitions for it.
        key: Option<PKey>,
    },
}

impl Traffic {
    /// The payload in bytes; for an SMP, the payload of a datagram.
    pub(crate) fn payload(self) -> u16 {
        match self {
            Traffic::Management => MAD_LEN as u16,
            Traffic::Data { payload, .. } => payload,
        }
    }

    /// The P_Key that ports on the path check; `None` if no port checks a key.
    pub(crate) fn key(self) -> Option<PKey> {
        match self {
            Traffic::Management => None,
            Traffic::Data { key, .. } => key,
        }
    }
}

/// The result of following a packet: the place of its delivery or loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalkResult {
    /// The port that holds the DLID, or the port at which the packet was lost: the exit port if the
    /// node has an exit port for the packet, else the entry port.
    pub(crate) port: u32,
    /// The number of links that the packet crossed.
    pub(crate) hops: u32,
    /// The reason why the packet was lost; `Ok` if it was delivered.
    pub(crate) result: Result<(), DropReason>,
}

/// Follows a packet from an end port to the port that holds `dlid`.
///
/// `cross` decides for each link whether the packet crosses it; its argument is the port through
/// which the packet leaves.
pub(crate) fn follow(
    fabric: &Fabric,
    start: u32,
    dlid: Lid,
    traffic: Traffic,
    mut cross: impl FnMut(u32) -> Result<(), DropReason>,
) -> WalkResult {
    let mut at = start;
    let mut hops = 0u32;
    let walk_result = |port, hops, result| WalkResult { port, hops, result };
    if fabric.holds(start, dlid) {
        return walk_result(start, hops, Ok(()));
    }
    loop {
        let node = fabric.node_of(at);
        let exit = match &node.switch {
            None if hops == 0 => at,
            None => {
                let result = if fabric.holds(at, dlid) {
                    Ok(())
                } else {
                    Err(DropReason::WrongPort)
                };
                return walk_result(at, hops, result);
            }
            Some(switch) => {
                if hops > MAX_SWITCHES {
                    return walk_result(at, hops, Err(DropReason::Loop));
                }
                let Some(number) = switch.exit(dlid) else {
                    return walk_result(at, hops, Err(DropReason::NoRoute));
                };
                if number == 0 {
                    let port0 = node.first_port;
                    let result = if fabric.port(port0).holds(dlid) {
                        Ok(())
                    } else {
                        Err(DropReason::WrongPort)
                    };
                    return walk_result(port0, hops, result);
                }
                let Some(exit) = node.port(number) else {
                    return walk_result(at, hops, Err(DropReason::NoSuchPort));
                };
                exit
            }
        };
        let passed = pass(fabric, at, exit, traffic).and_then(|()| cross(exit));
        if let Err(reason) = passed {
            return walk_result(exit, hops, Err(reason));
        }
        at = fabric.port(exit).peer;
        hops += 1;
        let enforces = fabric.port(at).info.partition_enforcement_inbound();
        if enforces && is_foreign(fabric, at, traffic) {
            return walk_result(at, hops, Err(DropReason::PKey));
        }
    }
}

/// Whether a port belongs to a switch, enforces partitions, and is outside the packet's partition.
fn is_foreign(fabric: &Fabric, port: u32, traffic: Traffic) -> bool {
    let Some(key) = traffic.key() else {
        return false;
    };
    fabric.node_of(port).is_switch() && fabric.port(port).p_key_index(key).is_none()
}

/// Checks that a packet which entered a node through `entry` can leave through `exit`, and that the
/// other end of that link accepts it.
pub(crate) fn pass(
    fabric: &Fabric,
    entry: u32,
    exit: u32,
    traffic: Traffic,
) -> Result<(), DropReason> {
    let port = fabric.port(exit);
    if port.peer == NONE || !port.is_up() {
        return Err(DropReason::LinkDown);
    }
    let Traffic::Data { sl, payload, .. } = traffic else {
        return Ok(());
    };
    // Data packets leave through Active ports, and enter through Armed and Active ports (IBA
    // 7.2.7).
    let peer_state = fabric.port(port.peer).info.port_state();
    if port.info.port_state() != PortState::Active
        || !matches!(peer_state, PortState::Armed | PortState::Active)
    {
        return Err(DropReason::PortState);
    }
    if port
        .info
        .neighbor_mtu()
        .bytes()
        .is_none_or(|mtu| payload > mtu)
    {
        return Err(DropReason::Mtu);
    }
    let input = if entry == exit {
        0
    } else {
        fabric.port(entry).number
    };
    let vl = port.virtual_lane(input, sl);
    let num_vls = port.info.operational_vls().data_vls().unwrap_or(1);
    if vl >= num_vls {
        return Err(DropReason::VirtualLane);
    }
    if port.info.partition_enforcement_outbound() && is_foreign(fabric, exit, traffic) {
        return Err(DropReason::PKey);
    }
    Ok(())
}
