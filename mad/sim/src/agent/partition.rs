//! The agent's answers for P_KeyTable (IBA 14.2.5.7).

use rsm_mad::transport::PortEvent;
use rsm_mad::wire::attr::PKeyTable;
use rsm_mad::wire::header::Status;
use rsm_mad::wire::smp::SMP_DATA_LEN;

use super::{Effect, Handled, Request};

/// The only key in a table after power-on: full membership of the default partition (IBA 10.9.1.2).
const DEFAULT_P_KEY: [u8; 2] = [0xFF, 0xFF];

impl Request<'_> {
    /// The port, the block number, and the number of bytes of the block that the port has. Fails
    /// for a block beyond the table.
    fn p_key_block(&self, modifier: u32) -> Result<(u32, u16, usize), Status> {
        let number = PKeyTable::modifier_port(modifier).0;
        let port = self.table_port(number)?;
        let node = self.fabric.node(self.node);
        let capacity = match &node.switch {
            Some(switch) if number != 0 => switch.info.partition_enforcement_cap(),
            _ => node.info.partition_cap(),
        };
        let block = PKeyTable::modifier_block(modifier);
        let entries = usize::from(capacity)
            .saturating_sub(usize::from(block) * PKeyTable::ENTRIES)
            .min(PKeyTable::ENTRIES);
        if entries == 0 {
            return Err(Status::INVALID_FIELD);
        }
        Ok((port, block, entries * size_of::<u16>()))
    }

    pub(super) fn get_p_keys(&mut self, modifier: u32, data: &mut [u8; SMP_DATA_LEN]) -> Handled {
        let (port, block, _) = self.p_key_block(modifier)?;
        let tables = self.fabric.port(port).tables.as_ref();
        *data = match tables.and_then(|tables| tables.p_keys.get(&block)) {
            Some(written) => *written,
            None => {
                let mut fresh = [0; SMP_DATA_LEN];
                if block == 0 {
                    fresh[..2].copy_from_slice(&DEFAULT_P_KEY);
                }
                fresh
            }
        };
        Ok(())
    }

    pub(super) fn set_p_keys(&mut self, modifier: u32, data: &mut [u8; SMP_DATA_LEN]) -> Handled {
        let (port, block, len) = self.p_key_block(modifier)?;
        // The agent does not keep keys beyond the table.
        data[len..].fill(0);
        let before = self
            .fabric
            .port_mut(port)
            .tables_mut()
            .p_keys
            .insert(block, *data);
        if port == self.address && before != Some(*data) {
            self.effects
                .push(Effect::Event(port, PortEvent::PkeyChanged));
        }
        Ok(())
    }
}
