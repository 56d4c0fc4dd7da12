//! The agent's answers for LinearForwardingTable and MulticastForwardingTable (IBA 14.2.5.10,
//! 14.2.5.12).

use rsm_mad::wire::attr::{LinearForwardingTable, MulticastForwardingTable};
use rsm_mad::wire::header::Status;
use rsm_mad::wire::smp::SMP_DATA_LEN;

use super::{Handled, Request};
use crate::fabric::{DROP, Switch};
use crate::personality::Habit;

type Data = [u8; SMP_DATA_LEN];

/// The index in the linear table at which a block starts. Fails if the switch does not have the
/// block.
fn lft_start(switch: &Switch, modifier: u32) -> Result<usize, Status> {
    let entries = LinearForwardingTable::ENTRIES as u32;
    if modifier < u32::from(switch.info.linear_fdb_cap()).div_ceil(entries) {
        Ok((modifier * entries) as usize)
    } else {
        Err(Status::INVALID_FIELD)
    }
}

/// Checks that the switch has this block of the multicast table at this position.
fn check_mft(switch: &Switch, num_ports: u8, modifier: u32) -> Handled {
    const RESERVED: u32 = 0x0FFF_FE00;
    let block = u32::from(MulticastForwardingTable::modifier_block(modifier));
    let position = MulticastForwardingTable::modifier_position(modifier);
    let blocks = u32::from(switch.info.multicast_fdb_cap())
        .div_ceil(MulticastForwardingTable::ENTRIES as u32);
    let positions = num_ports / MulticastForwardingTable::PORTS_PER_POSITION + 1;
    if block < blocks && position < positions && modifier & RESERVED == 0 {
        Ok(())
    } else {
        Err(Status::INVALID_FIELD)
    }
}

impl Request<'_> {
    /// The switch, and the number of its ports. Fails for other nodes.
    fn switch(&mut self) -> Result<(&mut Switch, u8), Status> {
        let node = self.fabric.node_mut(self.node);
        match &mut node.switch {
            Some(switch) => Ok((switch, node.num_ports)),
            None => Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE),
        }
    }

    pub(super) fn get_lft(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let (switch, _) = self.switch()?;
        let start = lft_start(switch, modifier)?;
        match switch.lft.get(start..start + data.len()) {
            Some(block) => data.copy_from_slice(block),
            None => data.fill(DROP),
        }
        Ok(())
    }

    pub(super) fn set_lft(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let up_to_top = self.has(Habit::LftUpToTop);
        let (switch, _) = self.switch()?;
        let start = lft_start(switch, modifier)?;
        if up_to_top && start > switch.info.linear_fdb_top().index() {
            return Err(Status::INVALID_FIELD);
        }
        let end = start + data.len();
        if switch.lft.len() < end {
            switch.lft.resize(end, DROP);
        }
        switch.lft[start..end].copy_from_slice(data);
        if let Some(adaptive) = &mut switch.adaptive {
            adaptive.on_linear_write(start, data);
        }
        Ok(())
    }

    pub(super) fn get_mft(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let (switch, num_ports) = self.switch()?;
        check_mft(switch, num_ports, modifier)?;
        *data = switch
            .mft
            .get(&modifier)
            .copied()
            .unwrap_or([0; SMP_DATA_LEN]);
        Ok(())
    }

    pub(super) fn set_mft(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let (switch, num_ports) = self.switch()?;
        check_mft(switch, num_ports, modifier)?;
        switch.mft.insert(modifier, *data);
        Ok(())
    }
}
