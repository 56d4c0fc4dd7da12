//! The operations with which hosts create and change virtual ports, and packets between virtual
//! ports.

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::Notice;
use rsm_mad::wire::attr::{
    Attribute, GuidInfo, NoticeType, PKey, QosConfigSl, VPORT_LOCAL_CHANGE, VPORT_STATE_CHANGE,
    VPortInfo, VPortLocalChange, VPortStateChange, VirtualizationInfo,
};

use crate::causes::PacketLoss;
use crate::config::VPortLids;
use crate::counters::DropReason;
use crate::error::SimError;
use crate::fabric::VPort;
use crate::probe::PAYLOAD;
use crate::route::Traffic;
use crate::sim::Sim;
use crate::tally::Load;

/// The address of a virtual port: the node and port of the host, and the index of the virtual port.
pub type VPortAt = (Guid, PortNum, u16);

/// The state of a virtual port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VPortView {
    /// The VPortInfo of the virtual port, as its agent reports it.
    pub info: VPortInfo,
    /// Whether the host allows the virtual port to come up.
    pub is_wanted: bool,
}

/// The result of sending a packet between virtual ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VPortProbe {
    /// The packet reached the virtual port.
    Delivered,
    /// The source is not Active, or not a member of the partition.
    NotSent,
    /// The packet did not reach a port that holds the LID.
    PacketLoss(DropReason),
    /// The port that the packet reached has no Active virtual port with the GUID of the packet's
    /// DGID.
    NoSuchGid,
    /// The virtual port does not belong to the partition.
    PKey,
}

impl Sim {
    /// Creates a virtual port at a host's port, or changes the GUID of an existing virtual port.
    /// The host allows the virtual port to come up. The port reports the change to the manager.
    ///
    /// # Errors
    /// There is no such end port, or the port belongs to a switch.
    pub fn set_vport(
        &mut self,
        (node, port, index): VPortAt,
        guid: Guid,
        lids: VPortLids,
    ) -> Result<(), SimError> {
        let at = self.find_host_port(node, port)?;
        let is_up = self.fabric.port(at).is_up();
        let config = self.config.clone();
        let vports = self.fabric.vports_mut(at, &config);
        let existing = vports.vports.get_mut(&index).map(|vport| {
            vport.info.set_port_guid(guid);
            vport.node.set_node_guid(guid);
        });
        if existing.is_none() {
            let vport = VPort::new(guid, lids, index, &config);
            vports.vports.insert(index, vport);
            vports.info.set_vport_state_change(true);
        }
        vports.follow_link(is_up);
        if existing.is_some() {
            let vports = self.fabric.vports_mut(at, &config);
            vports.info.set_vport_state_change(true);
            self.report_vport_change(at, index);
        } else {
            self.report_vport_states(at);
        }
        Ok(())
    }

    /// Removes a virtual port, which frees its index. The port reports the change to the manager.
    ///
    /// # Errors
    /// There is no such end port, or the port belongs to a switch.
    pub fn remove_vport(&mut self, (node, port, index): VPortAt) -> Result<(), SimError> {
        let at = self.find_host_port(node, port)?;
        let vports = self.fabric.vports.get_mut(&at);
        let removed = vports.and_then(|vports| {
            vports.info.set_vport_state_change(true);
            vports.vports.remove(&index)
        });
        if removed.is_some() {
            self.report_vport_states(at);
        }
        Ok(())
    }

    /// Allows a virtual port to come up, or takes it down, as its host does. The port reports the
    /// change to the manager.
    ///
    /// # Errors
    /// There is no such end port, or the port belongs to a switch.
    pub fn want_vport(
        &mut self,
        (node, port, index): VPortAt,
        is_wanted: bool,
    ) -> Result<(), SimError> {
        let at = self.find_host_port(node, port)?;
        let is_up = self.fabric.port(at).is_up();
        let Some(vports) = self.fabric.vports.get_mut(&at) else {
            return Ok(());
        };
        if let Some(vport) = vports.vports.get_mut(&index) {
            vport.is_wanted = is_wanted;
        }
        if vports.follow_link(is_up) {
            self.report_vport_states(at);
        }
        Ok(())
    }

    /// Writes a block of the GUID table of a virtual port, as its host does; the first GUID of
    /// block 0 does not change. The port reports the change to the manager. Nothing happens if
    /// there is no such virtual port.
    ///
    /// # Errors
    /// There is no such end port, or the port belongs to a switch.
    pub fn set_vport_guids(
        &mut self,
        (node, port, index): VPortAt,
        block: u8,
        guids: [Guid; GuidInfo::ENTRIES],
    ) -> Result<(), SimError> {
        let at = self.find_host_port(node, port)?;
        let vports = self.fabric.vports.get_mut(&at);
        let Some(vport) = vports.and_then(|vports| vports.vports.get_mut(&index)) else {
            return Ok(());
        };
        let mut info = GuidInfo::default();
        info.set_guids(guids);
        vport.tables.guids.insert(block.into(), *info.as_data());
        self.report_vport_change(at, index);
        Ok(())
    }

    /// A block of the GUID table of a virtual port; `None` if there is no such virtual port.
    ///
    /// # Errors
    /// There is no such end port, or the port belongs to a switch.
    pub fn vport_guids(
        &self,
        (node, port, index): VPortAt,
        block: u8,
    ) -> Result<Option<[Guid; GuidInfo::ENTRIES]>, SimError> {
        let at = self.find_host_port(node, port)?;
        let vports = self.fabric.vports.get(&at);
        let vport = vports.and_then(|vports| vports.vports.get(&index));
        Ok(vport.map(|vport| GuidInfo::from_data(&vport.guid_block(block.into())).guids()))
    }

    /// The virtual ports of a host's port, by index.
    ///
    /// # Errors
    /// There is no such end port, or the port belongs to a switch.
    pub fn vports(&self, node: Guid, port: PortNum) -> Result<Vec<(u16, VPortView)>, SimError> {
        let at = self.find_host_port(node, port)?;
        let vports = self
            .fabric
            .vports
            .get(&at)
            .into_iter()
            .flat_map(|vports| &vports.vports);
        Ok(vports
            .map(|(&index, vport)| {
                let view = VPortView {
                    info: vport.info,
                    is_wanted: vport.is_wanted,
                };
                (index, view)
            })
            .collect())
    }

    /// The VirtualizationInfo of a host's port; `None` if the port has no virtual ports.
    ///
    /// # Errors
    /// There is no such end port, or the port belongs to a switch.
    pub fn virtualization_info(
        &self,
        node: Guid,
        port: PortNum,
    ) -> Result<Option<VirtualizationInfo>, SimError> {
        let at = self.find_host_port(node, port)?;
        Ok(self.fabric.vports.get(&at).map(|vports| vports.info))
    }

    /// The QoSConfigSL of a host's port, or of its virtual port with index `vport`; all zero if
    /// nothing was set or there is no such virtual port.
    ///
    /// # Errors
    /// There is no such end port, or the port belongs to a switch.
    pub fn rate_limits(
        &self,
        (node, port): (Guid, PortNum),
        vport: Option<u16>,
    ) -> Result<QosConfigSl, SimError> {
        let at = self.find_host_port(node, port)?;
        let tables = match vport {
            None => self.fabric.port(at).tables.as_deref(),
            Some(index) => {
                let vports = self.fabric.vports.get(&at);
                let vport = vports.and_then(|vports| vports.vports.get(&index));
                vport.map(|vport| &vport.tables)
            }
        };
        let data = tables.and_then(|tables| tables.rate_limits);
        Ok(data.map_or_else(QosConfigSl::default, |data| *QosConfigSl::from_data(&data)))
    }

    /// Sets the QoSConfigSL of a host's port, as another manager has left it.
    ///
    /// # Errors
    /// There is no such end port, or the port belongs to a switch.
    pub fn set_rate_limits(
        &mut self,
        (node, port): (Guid, PortNum),
        config: &QosConfigSl,
    ) -> Result<(), SimError> {
        let at = self.find_host_port(node, port)?;
        let tables = self.fabric.port_mut(at).tables_mut();
        tables.rate_limits = Some(*config.as_data());
        Ok(())
    }

    /// Sends a data packet with a global route header from a virtual port to a LID and a GUID, in a
    /// partition. Like a packet of [`Sim::probe`], the packet takes no time and changes only
    /// counters.
    ///
    /// # Errors
    /// The source's port does not exist or has no address.
    pub fn probe_vport(
        &self,
        (node, port, index): VPortAt,
        dlid: Lid,
        to: Guid,
        key: PKey,
    ) -> Result<VPortProbe, SimError> {
        let start = self.find_host_port(node, port)?;
        let vport = |at: &u32| self.fabric.vports.get(at);
        let source = vport(&start).and_then(|vports| vports.vports.get(&index));
        let may_send = source
            .is_some_and(|source| source.is_active() && source.tables.p_key_index(key).is_some());
        if !may_send {
            return Ok(VPortProbe::NotSent);
        }
        let traffic = Traffic::Data {
            sl: 0,
            payload: PAYLOAD,
            key: None,
        };
        let walk_result = self.walk_from(start, dlid, traffic, Load::global(PAYLOAD));
        if let Err(reason) = walk_result.result {
            return Ok(VPortProbe::PacketLoss(reason));
        }
        let mut target = vport(&walk_result.port)
            .into_iter()
            .flat_map(|v| v.vports.values());
        let Some(target) = target.find(|v| v.is_active() && v.info.port_guid() == to) else {
            return Ok(VPortProbe::NoSuchGid);
        };
        Ok(match target.tables.p_key_index(key) {
            Some(_) => VPortProbe::Delivered,
            None => {
                self.performance
                    .walks
                    .lose(&PacketLoss::outside_partition(walk_result.port));
                VPortProbe::PKey
            }
        })
    }

    /// Updates the virtual ports after the link of their port came up or went down.
    pub(crate) fn vports_follow_link(&mut self, port: u32) {
        let is_up = self.fabric.port(port).is_up();
        if let Some(vports) = self.fabric.vports.get_mut(&port) {
            vports.follow_link(is_up);
        }
    }

    /// The index of an end port that belongs to no switch.
    fn find_host_port(&self, node: Guid, port: PortNum) -> Result<u32, SimError> {
        let at = self.fabric.find_end_port(node, port)?;
        match self.fabric.node_of(at).is_switch() {
            true => Err(SimError::NotAnEndPort { guid: node, port }),
            false => Ok(at),
        }
    }

    /// Sends trap 1146, which reports changed states of virtual ports.
    fn report_vport_states(&mut self, port: u32) {
        let lid = self.fabric.port(port).info.lid();
        let mut details = VPortStateChange::default();
        details.set_lid(lid).set_trap(VPORT_STATE_CHANGE);
        let device = self.fabric.node_of(port).info.device_id();
        let notice = Notice::nvidia(NoticeType::Informational, device, lid, &details);
        self.raise(port, notice);
    }

    /// Sends trap 1144, which reports a changed attribute of a virtual port.
    fn report_vport_change(&mut self, port: u32, index: u16) {
        let lid = self.fabric.port(port).info.lid();
        let mut details = VPortLocalChange::default();
        details
            .set_lid(lid)
            .set_other_local_changes(true)
            .set_vport_index(index)
            .set_trap(VPORT_LOCAL_CHANGE);
        let device = self.fabric.node_of(port).info.device_id();
        let notice = Notice::nvidia(NoticeType::Informational, device, lid, &details);
        self.raise(port, notice);
    }
}
