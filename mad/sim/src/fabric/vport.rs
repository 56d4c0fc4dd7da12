//! The virtual ports of a host's port.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{
    CapabilityMask2, PortInfo, PortState, VNodeDescription, VNodeInfo, VPortInfo,
    VirtualizationInfo,
};
use rsm_mad::wire::smp::SMP_DATA_LEN;

use super::Fabric;
use super::port::PortTables;
use crate::config::{SimConfig, VPortLids};

/// The virtual ports of a physical port. Index 0 is the physical function.
#[derive(Debug, Clone, Default)]
pub(crate) struct VPorts {
    /// The answer to Get(VirtualizationInfo), except for VPortIndexTop.
    pub(crate) info: VirtualizationInfo,
    /// The virtual ports, by index.
    pub(crate) vports: BTreeMap<u16, VPort>,
}

/// A virtual port.
#[derive(Debug, Clone, Default)]
pub(crate) struct VPort {
    pub(crate) info: VPortInfo,
    pub(crate) node: VNodeInfo,
    pub(crate) description: VNodeDescription,
    pub(crate) tables: PortTables,
    /// Whether the host allows the virtual port to come up.
    pub(crate) is_wanted: bool,
}

impl VPort {
    /// A virtual port with this GUID, as its host creates it.
    pub(crate) fn new(guid: Guid, lids: VPortLids, index: u16, config: &SimConfig) -> VPort {
        let mut vport = VPort {
            is_wanted: true,
            ..VPort::default()
        };
        let by_index = match lids {
            // Pairs of virtual ports share a LID: an odd index uses the LID of the index before it.
            VPortLids::ByIndex if index > 0 && index % 2 == 1 => index - 1,
            _ => 0,
        };
        let is_required = match lids {
            VPortLids::Own => true,
            VPortLids::ByIndex => index.is_multiple_of(2),
            VPortLids::Base => false,
        };
        vport
            .info
            .set_state(PortState::Down)
            .set_guid_cap(config.vport_guid_cap)
            .set_port_guid(guid)
            .set_lid_required(index > 0 && is_required)
            .set_lid_by_vport_index(by_index);
        vport
            .node
            .set_partition_cap(config.partition_cap)
            .set_local_port_num(PortNum(1))
            .set_num_ports(1)
            .set_node_guid(guid);
        vport.description = VNodeDescription::new(format!("vport {index}").as_bytes());
        vport
    }

    /// Resets the state, the LID and the tables, which a manager sets.
    fn reset(&mut self) {
        self.info.set_state(PortState::Down).set_lid(Lid::NONE);
        self.tables = PortTables::default();
    }

    /// A block of the GUID table of the virtual port. The first GUID of block 0 is the virtual
    /// port's own.
    pub(crate) fn guid_block(&self, block: u32) -> [u8; SMP_DATA_LEN] {
        let held = self.tables.guids.get(&block).copied();
        let mut data = held.unwrap_or([0; SMP_DATA_LEN]);
        if block == 0 {
            data[..8].copy_from_slice(&self.info.port_guid().0.to_be_bytes());
        }
        data
    }

    /// Whether a manager has brought the virtual port to the state Active.
    pub(crate) fn is_active(&self) -> bool {
        self.info.state() == PortState::Active
    }
}

impl VPorts {
    /// The highest index in use.
    pub(crate) fn top(&self) -> u16 {
        self.vports.keys().next_back().copied().unwrap_or(0)
    }

    /// Sets all states according to the state of the port and the manager's enable bits. `is_up`
    /// states whether the link is physically up. Returns whether any state changed.
    pub(crate) fn follow_link(&mut self, is_up: bool) -> bool {
        let may_be_up = is_up && self.info.enabled();
        let mut changed = false;
        for vport in self.vports.values_mut() {
            let is_down = vport.info.state() == PortState::Down;
            if may_be_up && vport.is_wanted == is_down {
                let state = match vport.is_wanted {
                    true => PortState::Init,
                    false => PortState::Down,
                };
                vport.info.set_state(state);
                changed = true;
            } else if !may_be_up && !is_down {
                vport.info.set_state(PortState::Down);
                changed = true;
            }
        }
        if changed {
            self.info.set_vport_state_change(true);
        }
        changed
    }

    /// Makes PortInfo show that the port has virtual ports.
    pub(crate) fn add_capability(&self, info: &mut PortInfo) {
        let claimed = CapabilityMask2::IS_VIRTUALIZATION_SUPPORTED;
        info.set_capability_mask2(info.capability_mask2() | claimed);
    }

    /// Resets everything that a manager sets, at the port and at its virtual ports.
    pub(crate) fn reset(&mut self) {
        self.info.set_enabled(false).set_vport_state_change(false);
        self.vports.values_mut().for_each(VPort::reset);
    }
}

impl Fabric {
    /// The virtual ports of a port; an empty set is created if the port has none.
    pub(crate) fn vports_mut(&mut self, port: u32, config: &SimConfig) -> &mut VPorts {
        let create = || {
            let mut vports = VPorts::default();
            vports.info.set_vport_cap(config.vport_cap);
            vports
        };
        let vports = self.vports.entry(port).or_insert_with(create);
        vports.add_capability(&mut self.ports[port as usize].info);
        vports
    }

    /// Creates the virtual ports of the configuration at the ports of a new adapter.
    pub(crate) fn add_vports(&mut self, node: u32, config: &SimConfig) {
        if self.node(node).is_switch() || config.vports == 0 {
            return;
        }
        for port in self.node(node).ports() {
            let own = self.port(port).guid;
            let vports = self.vports_mut(port, config);
            for index in 0..config.vports {
                let guid = match index {
                    0 => own,
                    // The GUIDs of generated hosts leave these bits free.
                    _ => Guid(own.0 ^ u64::from(index) << 44),
                };
                let vport = VPort::new(guid, config.vport_lids, index, config);
                vports.vports.insert(index, vport);
            }
        }
    }

    /// Whether the port accepts packets to this LID: the port itself or a virtual port that is not
    /// Down holds the LID. The adapter shows the LID of a virtual port that is Down, but accepts no
    /// packets to that LID.
    pub(crate) fn holds(&self, port: u32, lid: Lid) -> bool {
        self.port(port).holds(lid)
            || lid != Lid::NONE
                && self.vports.get(&port).is_some_and(|vports| {
                    let mut all = vports.vports.values();
                    all.any(|vport| {
                        vport.info.lid() == lid && vport.info.state() != PortState::Down
                    })
                })
    }
}
