//! The agent's answers for NodeInfo, NodeDescription, SwitchInfo and GUIDInfo (IBA 14.2.5.2 to
//! 14.2.5.5).

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{Attribute, GuidInfo, SwitchInfo};
use rsm_mad::wire::header::Status;
use rsm_mad::wire::smp::SMP_DATA_LEN;

use super::{Handled, Request};

type Data = [u8; SMP_DATA_LEN];

impl Request<'_> {
    pub(super) fn get_node_description(&mut self, data: &mut Data) -> Handled {
        *data = *self.fabric.node(self.node).description.as_data();
        Ok(())
    }

    pub(super) fn get_node_info(&mut self, data: &mut Data) -> Handled {
        let entry = self.fabric.port(self.entry).number;
        let mut info = self.fabric.node(self.node).info;
        info.set_local_port_num(PortNum(entry))
            .set_port_guid(self.fabric.port(self.address).guid);
        *data = *info.as_data();
        Ok(())
    }

    pub(super) fn get_switch_info(&mut self, data: &mut Data) -> Handled {
        match &self.fabric.node(self.node).switch {
            Some(switch) => {
                *data = *switch.info.as_data();
                Ok(())
            }
            None => Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE),
        }
    }

    pub(super) fn set_switch_info(&mut self, data: &mut Data) -> Handled {
        let node = self.fabric.node_mut(self.node);
        let Some(switch) = &mut node.switch else {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        };
        let wanted = SwitchInfo::from_data(data);
        let info = &mut switch.info;
        if wanted.linear_fdb_top().0 >= info.linear_fdb_cap() {
            return Err(Status::INVALID_FIELD);
        }
        info.set_linear_fdb_top(wanted.linear_fdb_top())
            .set_multicast_fdb_top(wanted.multicast_fdb_top())
            .set_life_time_value(wanted.life_time_value())
            .set_default_port(wanted.default_port())
            .set_default_multicast_primary_port(wanted.default_multicast_primary_port())
            .set_default_multicast_not_primary_port(wanted.default_multicast_not_primary_port());
        // Writing one to the field clears the bit; writing zero leaves it unchanged.
        if wanted.port_state_change() {
            info.set_port_state_change(false);
        }
        *data = *info.as_data();
        Ok(())
    }

    /// The block of GUIDInfo that a modifier names. Fails for a block beyond GUIDCap.
    fn guid_block(&self, modifier: u32) -> Result<u32, Status> {
        let cap = u32::from(self.fabric.port(self.address).info.guid_cap());
        if modifier < cap.div_ceil(GuidInfo::ENTRIES as u32) {
            Ok(modifier)
        } else {
            Err(Status::INVALID_FIELD)
        }
    }

    pub(super) fn get_guid_info(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let block = self.guid_block(modifier)?;
        let port = self.fabric.port(self.address);
        let written = port
            .tables
            .as_ref()
            .and_then(|tables| tables.guids.get(&block));
        *data = match written {
            Some(block) => *block,
            None => {
                let mut guids = [Guid::ZERO; GuidInfo::ENTRIES];
                if block == 0 {
                    guids[0] = port.guid;
                }
                let mut info = GuidInfo::default();
                info.set_guids(guids);
                *info.as_data()
            }
        };
        Ok(())
    }

    pub(super) fn set_guid_info(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let block = self.guid_block(modifier)?;
        let port = self.fabric.port_mut(self.address);
        if block == 0 {
            // The first GUID is the port's own and read only.
            data[..8].copy_from_slice(&port.guid.0.to_be_bytes());
        }
        port.tables_mut().guids.insert(block, *data);
        Ok(())
    }
}
