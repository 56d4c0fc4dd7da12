//! The agent's answers for NVIDIA's attributes of virtual ports.

use rsm_ids::Lid;
use rsm_mad::wire::attr::{
    Attribute, GuidInfo, PKeyTable, PortState, VNodeDescription, VNodeInfo, VPortGuidInfo,
    VPortInfo, VPortPKeyTable, VPortState, VirtualizationInfo,
};
use rsm_mad::wire::header::{AttrId, MadHeader, Method, Status};
use rsm_mad::wire::smp::SMP_DATA_LEN;

use super::{Handled, Request};
use crate::fabric::{VPort, VPorts};
use crate::personality::Habit;

type Data = [u8; SMP_DATA_LEN];

/// The P_Key of a virtual port after power-on: full membership of the default partition.
const FRESH_P_KEY: [u8; 2] = [0xFF, 0xFF];

/// A block without entries.
const EMPTY: Data = [0; SMP_DATA_LEN];

/// The attributes of virtual ports.
pub(super) const ATTRIBUTES: [AttrId; 7] = [
    VirtualizationInfo::ID,
    VPortInfo::ID,
    VNodeInfo::ID,
    VPortState::ID,
    VNodeDescription::ID,
    VPortGuidInfo::ID,
    VPortPKeyTable::ID,
];

impl Request<'_> {
    /// The virtual ports of the port. Fails if the device has no virtual ports, or refuses their
    /// attributes.
    fn vports(&self) -> Result<&VPorts, Status> {
        if self.has(Habit::RefusesVPorts) {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        let vports = self.fabric.vports.get(&self.entry);
        vports.ok_or(Status::UNSUPPORTED_METHOD_ATTRIBUTE)
    }

    fn vports_mut(&mut self) -> Result<&mut VPorts, Status> {
        self.vports()?;
        let vports = self.fabric.vports.get_mut(&self.entry);
        vports.ok_or(Status::UNSUPPORTED_METHOD_ATTRIBUTE)
    }

    /// The virtual port with this index. Fails if the index is not in use.
    fn vport(&self, index: u16) -> Result<&VPort, Status> {
        let vport = self.vports()?.vports.get(&index);
        vport.ok_or(Status::INVALID_FIELD)
    }

    pub(super) fn get_vport_attribute(
        &mut self,
        attribute: AttrId,
        modifier: u32,
        data: &mut Data,
    ) -> Handled {
        let index = VPortInfo::modifier_index(modifier);
        match attribute {
            VirtualizationInfo::ID => {
                let vports = self.vports()?;
                let mut info = vports.info;
                info.set_vport_index_top(vports.top());
                *data = *info.as_data();
            }
            VPortState::ID => *data = *self.vport_states(modifier)?.as_data(),
            VPortInfo::ID => *data = *self.vport(index)?.info.as_data(),
            VNodeInfo::ID => *data = *self.vport(index)?.node.as_data(),
            VNodeDescription::ID => *data = *self.vport(index)?.description.as_data(),
            VPortGuidInfo::ID => {
                let (index, block) = self.guid_block_of(modifier)?;
                let vport = self.vport(index)?;
                check_guid_block(vport, block)?;
                *data = vport.guid_block(block);
            }
            _ => {
                let (index, block) = p_key_block_of(modifier);
                let vport = self.vport(index)?;
                p_keys_in(vport, block)?;
                *data = match vport.tables.p_keys.get(&block) {
                    Some(written) => *written,
                    None => {
                        let mut fresh = EMPTY;
                        if block == 0 {
                            fresh[..2].copy_from_slice(&FRESH_P_KEY);
                        }
                        fresh
                    }
                };
            }
        }
        Ok(())
    }

    /// The index and block of a modifier of VPortGUIDInfo.
    fn guid_block_of(&self, modifier: u32) -> Result<(u16, u32), Status> {
        if self.has(Habit::RefusesVPortGuids) || self.has(Habit::NoVPortGuids) {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        let index = match self.has(Habit::ForeignVPortGuids) {
            true => 0,
            false => VPortGuidInfo::modifier_index(modifier),
        };
        Ok((index, VPortGuidInfo::modifier_block(modifier).into()))
    }

    /// A block of the states of all virtual ports.
    fn vport_states(&self, block: u32) -> Result<VPortState, Status> {
        let vports = self.vports()?;
        if block > u32::from(VPortState::block_of(vports.top())) {
            return Err(Status::INVALID_FIELD);
        }
        let mut states = VPortState::default();
        for (&index, vport) in &vports.vports {
            if u32::from(VPortState::block_of(index)) == block {
                let entry = usize::from(index) % VPortState::ENTRIES;
                states.set_state(entry, vport.info.state());
            }
        }
        Ok(states)
    }

    pub(super) fn set_vport_attribute(
        &mut self,
        attribute: AttrId,
        modifier: u32,
        data: &mut Data,
    ) -> Handled {
        match attribute {
            VirtualizationInfo::ID => self.set_virtualization_info(data),
            VPortInfo::ID => self.set_vport_info(VPortInfo::modifier_index(modifier), data),
            VPortGuidInfo::ID => {
                let (index, block) = self.guid_block_of(modifier)?;
                check_guid_block(self.vport(index)?, block)?;
                let vports = self.vports_mut()?;
                let vport = vports.vports.get_mut(&index).ok_or(Status::INVALID_FIELD)?;
                vport.tables.guids.insert(block, *data);
                Ok(())
            }
            VPortPKeyTable::ID => {
                let (index, block) = p_key_block_of(modifier);
                let bytes = p_keys_in(self.vport(index)?, block)? * size_of::<u16>();
                data[bytes..].fill(0);
                let vports = self.vports_mut()?;
                let vport = vports.vports.get_mut(&index).ok_or(Status::INVALID_FIELD)?;
                vport.tables.p_keys.insert(block, *data);
                Ok(())
            }
            _ => Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE),
        }
    }

    fn set_virtualization_info(&mut self, data: &mut Data) -> Handled {
        let wanted = *VirtualizationInfo::from_data(data);
        let is_up = self.fabric.port(self.entry).is_up();
        let vports = self.vports_mut()?;
        if wanted.revision() != 0 {
            return Err(Status::INVALID_FIELD);
        }
        if wanted.clears_state_change() {
            vports.info.set_vport_state_change(false);
        }
        vports.info.set_enabled(wanted.enabled());
        // The virtual ports come up, and their state bits then show it.
        vports.follow_link(is_up);
        let mut info = vports.info;
        info.set_vport_index_top(vports.top());
        *data = *info.as_data();
        Ok(())
    }

    fn set_vport_info(&mut self, index: u16, data: &mut Data) -> Handled {
        let wanted = *VPortInfo::from_data(data);
        let port_state = self.fabric.port(self.entry).info.port_state();
        let vports = self.vports_mut()?;
        let is_enabled = vports.info.enabled();
        let vport = vports.vports.get_mut(&index).ok_or(Status::INVALID_FIELD)?;
        let lid = wanted.lid();
        let fits = lid == Lid::NONE || lid.is_unicast() && vport.info.lid_required();
        let new_state = match (vport.info.state(), wanted.state()) {
            (_, PortState::NoChange) => Some(vport.info.state()),
            (held, wanted) if held == wanted => Some(held),
            (PortState::Init, PortState::Armed) => Some(PortState::Armed),
            (PortState::Init | PortState::Armed, PortState::Active)
                if is_enabled && port_state == PortState::Active =>
            {
                Some(PortState::Active)
            }
            _ => None,
        };
        let (true, Some(state)) = (fits, new_state) else {
            return Err(Status::INVALID_FIELD);
        };
        vport.info.set_state(state).set_lid(lid);
        *data = *vport.info.as_data();
        Ok(())
    }

    /// Whether the agent leaves a request for an attribute of virtual ports unanswered.
    pub(super) fn is_deaf_to_vports(&self, header: &MadHeader) -> bool {
        let is_set = header.method() == Method::SET;
        let is_guids = header.attribute() == VPortGuidInfo::ID;
        ATTRIBUTES.contains(&header.attribute())
            && (self.has(Habit::DeafToVPorts)
                || is_set && self.has(Habit::DeafToVPortSets)
                || is_guids && self.has(Habit::DeafToVPortGuids))
    }
}

/// The index and block of a modifier of VPortPKeyTable.
fn p_key_block_of(modifier: u32) -> (u16, u16) {
    let index = VPortPKeyTable::modifier_index(modifier);
    (index, VPortPKeyTable::modifier_block(modifier))
}

/// The number of P_Keys that the virtual port has in the block. Fails for a block beyond the table.
fn p_keys_in(vport: &VPort, block: u16) -> Result<usize, Status> {
    let first = usize::from(block) * PKeyTable::ENTRIES;
    let keys = usize::from(vport.node.partition_cap()).saturating_sub(first);
    match keys.min(PKeyTable::ENTRIES) {
        0 => Err(Status::INVALID_FIELD),
        keys => Ok(keys),
    }
}

/// Fails for a block beyond the GUIDCap of the virtual port.
fn check_guid_block(vport: &VPort, block: u32) -> Result<(), Status> {
    let blocks = u32::from(vport.info.guid_cap()).div_ceil(GuidInfo::ENTRIES as u32);
    if block < blocks {
        Ok(())
    } else {
        Err(Status::INVALID_FIELD)
    }
}
