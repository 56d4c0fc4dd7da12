//! Nodes, switches and ports as last seen.

use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::attr::{
    ArInfo, ExtendedPortInfo, FecMode, NodeDescription, NodeInfo, NodeType, PortInfo,
    PortPhysicalState, PortState, SwitchInfo,
};

use super::adaptive_image::AdaptiveImage;
use super::image::Image;
use super::lft_image::LftImage;
use super::managed::ManagedBlocks;
use super::mft_image::MftImage;
use super::p_keys::PKeyImage;
use super::sl2vl_image::SlToVlImage;
use super::vports::PortVPorts;

/// The largest RespTimeValue that rsm waits for: 4.3 s. Real devices report up to 19 (2.1 s). With
/// a value of 31, a request to a port that does not answer would fail only after hours.
const RESP_TIME_VALUE_MAX: u8 = 20;

/// Number of sweeps, light or full, in which a node may leave all Gets unanswered before routes
/// avoid it.
///
/// Repairs between sweeps do not count, because they are not evenly spaced in time.
pub const MISSES_TOLERATED: u8 = 3;

/// State of a switch, as last answered or set.
#[derive(Clone, Debug)]
pub struct InventorySwitch {
    /// SwitchInfo as last answered.
    pub info: SwitchInfo,
    /// The forwarding table.
    pub lft: LftImage,
    /// The multicast forwarding table.
    pub mft: MftImage,
    /// The SLtoVLMappingTables that routes need.
    pub sl2vl: SlToVlImage,
    /// Whether the switch acknowledged a MulticastFDBTop and did not keep it.
    pub forgets_multicast_top: bool,
    /// ARInfo, if the switch has it and may hold tables of an earlier manager; else `None`.
    pub(super) ar_info: Option<ArInfo>,
    /// Groups and entries of adaptive routing, and whether they are in force.
    pub adaptive: AdaptiveImage,
    /// Whether the switch refused to turn adaptive routing off.
    pub keeps_adaptive_routing: bool,
    /// Whether the core has decided, since this manager became master, if the switch's tables are
    /// valid.
    pub taken_over: bool,
}

impl InventorySwitch {
    /// A switch that answered `info`, with unknown tables.
    pub fn new(info: SwitchInfo) -> InventorySwitch {
        InventorySwitch {
            info,
            lft: LftImage::default(),
            mft: MftImage::default(),
            sl2vl: SlToVlImage::default(),
            forgets_multicast_top: false,
            ar_info: None,
            adaptive: AdaptiveImage::unread(),
            keeps_adaptive_routing: false,
            taken_over: false,
        }
    }

    /// ARInfo, as [`Hardware::put_ar_info`](super::Hardware::put_ar_info) recorded it.
    pub fn ar_info(&self) -> Option<ArInfo> {
        self.ar_info
    }
}

/// One port as last seen.
#[derive(Clone, Debug, Default)]
pub struct InventoryPort {
    /// PortInfo as last answered; `None` until the first answer.
    pub info: Option<PortInfo>,
    /// The port's GUID; for a switch's external ports, the node's GUID.
    pub guid: Guid,
    /// Other end of the cable, found by NodeInfo through it.
    pub peer: Option<PortKey>,
    /// Number of the sweep that last confirmed `peer`.
    pub peer_epoch: u32,
    /// Other end of the former cable at this port; `None` if there was none.
    pub peer_before: Option<PortKey>,
    /// The P_KeyTable; `None` while it is not known. Shared copy-on-write.
    pub p_keys: Option<Arc<PKeyImage>>,
    /// The managed attributes, as far as their blocks are known.
    pub managed: Image<ManagedBlocks>,
    /// ExtendedPortInfo; `None` if it was not read since the link came up.
    pub extended: Option<Box<ExtendedPortInfo>>,
    /// Error correction; `None` if it was not read since the link came up, `Some(None)` if the port
    /// does not state it.
    pub error_correction: Option<Option<FecMode>>,
    /// Virtual ports; `None` if VirtualizationInfo was not answered. Shared copy-on-write.
    pub vports: Option<Arc<PortVPorts>>,
}

impl InventoryPort {
    /// Records an answered PortInfo of port `number` in the form of [`InventoryPort::shown`].
    /// Returns the former one.
    pub fn answered(&mut self, number: PortNum, info: &PortInfo) -> Option<PortInfo> {
        self.info.replace(InventoryPort::shown(number, info))
    }

    /// An answered PortInfo of port `number` in the form that rsm keeps.
    ///
    /// LocalPortNum is cleared, because it shows the port at which the Get arrived. A base port 0
    /// has no link, and may report no state; it counts as Active while the switch answers (IBA
    /// 18.2.4.1).
    pub fn shown(number: PortNum, info: &PortInfo) -> PortInfo {
        let mut info = *info;
        info.set_local_port_num(PortNum::ZERO);
        if number == PortNum::ZERO && info.port_state() == PortState::NoChange {
            info.set_port_state(PortState::Active)
                .set_port_physical_state(PortPhysicalState::LinkUp);
        }
        info
    }

    /// Forgets the port's tables, which a reset may have cleared.
    pub fn forget_tables(&mut self) {
        self.p_keys = None;
        // The next sweep reads the blocks again that were read or written before.
        self.managed.mark_all_dirty();
    }

    /// Whether the port's link is physically up, so that SMPs pass: Init, Armed or Active.
    pub fn is_up(&self) -> bool {
        self.state()
            .is_some_and(|state| !matches!(state, PortState::Down | PortState::NoChange))
    }

    /// Whether the link passes data packets.
    pub fn is_active(&self) -> bool {
        self.state() == Some(PortState::Active)
    }

    /// Whether the link trained again since the port was in state `before`: the port fell back to
    /// Init.
    pub fn is_retrained(&self, before: Option<PortState>) -> bool {
        self.state() == Some(PortState::Init)
            && before.is_some_and(|state| state != PortState::Init)
    }

    /// The logical state as last answered.
    pub fn state(&self) -> Option<PortState> {
        self.info.as_ref().map(PortInfo::port_state)
    }
}

/// One node as last seen.
#[derive(Clone, Debug)]
pub struct InventoryNode {
    /// NodeInfo, as answered when the node was found.
    pub info: NodeInfo,
    /// NodeDescription; `None` before the first answer.
    pub description: Option<NodeDescription>,
    /// Ports by number, `0..=num_ports`; only switches use port 0.
    pub ports: Vec<InventoryPort>,
    /// State of the switch; `None` unless the node is a switch that answered SwitchInfo.
    pub switch: Option<Box<InventorySwitch>>,
    /// The shortest path known to the node.
    pub path: DirectedPath,
    /// A path that enters the node by another port; `None` if none is known.
    pub alternate: Option<DirectedPath>,
    /// Number of the sweep that last found the node.
    pub epoch: u32,
    /// Number of the sweep that found the node when it appeared, for the first time or again.
    pub first_epoch: u32,
    /// Number of successive sweeps in which the node answered nothing although its link was up.
    pub missed: u8,
}

impl InventoryNode {
    /// Switch, channel adapter or router.
    pub fn kind(&self) -> NodeType {
        self.info.node_type()
    }

    /// Whether the node is a switch.
    pub fn is_switch(&self) -> bool {
        self.kind() == NodeType::Switch
    }

    /// The NodeDescription as text; the GUID if there is none.
    /// [`Hardware::name`](super::Hardware::name) returns the operator's name.
    pub fn described(&self) -> String {
        match &self.description {
            Some(description) if !description.text().is_empty() => {
                String::from_utf8_lossy(description.text()).into_owned()
            }
            _ => self.info.node_guid().to_string(),
        }
    }

    /// The port `port`; `None` if the node does not have it.
    pub fn port(&self, port: PortNum) -> Option<&InventoryPort> {
        self.ports.get(port.index())
    }

    /// RespTimeValue as a time (IBA 14.2.5.6): that of port 0 of a switch, or of the first port of
    /// another node that answered. At most 4.3 s (RESP_TIME_VALUE_MAX); zero before an answer.
    pub fn response_time(&self) -> Duration {
        let info = self.ports.iter().find_map(|port| port.info.as_ref());
        info.map_or(Duration::ZERO, |info| {
            let value = info.resp_time_value().min(RESP_TIME_VALUE_MAX);
            Duration::from_nanos(4096 << value)
        })
    }

    /// The external ports of the node, with their numbers.
    pub fn external_ports(&self) -> impl Iterator<Item = (PortNum, &InventoryPort)> {
        (1u8..=255).map(PortNum).zip(self.ports.iter().skip(1))
    }
}
