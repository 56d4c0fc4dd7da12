//! The agent's answers for SLtoVLMappingTable and VLArbitrationTable (IBA 14.2.5.8, 14.2.5.9).

use rsm_ids::PortNum;
use rsm_mad::wire::attr::{Attribute, SlToVlMapping, VlArbitration, VlArbitrationBlock};
use rsm_mad::wire::header::Status;
use rsm_mad::wire::smp::SMP_DATA_LEN;

use super::{Handled, Request};
use crate::fabric::default_lane;
use crate::personality::Habit;

type Data = [u8; SMP_DATA_LEN];

/// The number of bytes of an SLtoVLMappingTable: 4 bits for each SL. The rest of the attribute is
/// reserved.
const MAPPING_LEN: usize = SlToVlMapping::ENTRIES / 2;

impl Request<'_> {
    /// Whether port 0 of this switch sends data packets itself, and therefore has these tables.
    fn has_enhanced_port0(&self) -> bool {
        let switch = &self.fabric.node(self.node).switch;
        switch
            .as_ref()
            .is_some_and(|switch| switch.info.enhanced_port0())
    }

    /// Whether the switch accepts one SLtoVLMappingTable for several ports.
    fn accepts_all_ports(&self) -> bool {
        let switch = &self.fabric.node(self.node).switch;
        switch
            .as_ref()
            .is_some_and(|switch| switch.info.optimized_sl_to_vl_mapping_programming() != 0)
    }

    /// The ports that a port field of a modifier selects; `None` in the field stands for all ports.
    /// Fails with `INVALID_FIELD` for a port that the switch lacks, or if it does not accept one
    /// table for all ports.
    fn mapping_ports(
        &self,
        field: Option<PortNum>,
    ) -> Result<std::ops::RangeInclusive<u8>, Status> {
        let num_ports = self.fabric.node(self.node).num_ports;
        match field {
            None if self.accepts_all_ports() && !self.has(Habit::NoOptimizedSlToVl) => {
                Ok(0..=num_ports)
            }
            Some(port) if port.0 <= num_ports => Ok(port.0..=port.0),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Answers SubnGet(SLtoVLMappingTable); a table that was never set has the default mapping.
    pub(super) fn get_sl_to_vl(&mut self, modifier: u32, data: &mut Data) -> Handled {
        if self.has(Habit::NoSlToVl) {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        let (port, input) = if self.is_switch() {
            let input = SlToVlMapping::modifier_input(modifier);
            let output = SlToVlMapping::modifier_output(modifier);
            let (Some(input), Some(output)) = (input, output) else {
                return Err(Status::INVALID_FIELD);
            };
            self.mapping_ports(Some(input))?;
            (self.table_port(output.0)?, input.0)
        } else {
            (self.entry, 0)
        };
        let tables = self.fabric.port(port).tables.as_ref();
        let row = tables.and_then(|tables| tables.sl_to_vl.get(&input));
        let mut mapping = SlToVlMapping::default();
        mapping.set_vls(std::array::from_fn(|sl| default_lane(sl as u8)));
        *data = *mapping.as_data();
        if let Some(row) = row {
            data[..MAPPING_LEN].copy_from_slice(row);
        }
        Ok(())
    }

    /// Answers SubnSet(SLtoVLMappingTable), for one or all pairs of ports.
    pub(super) fn set_sl_to_vl(&mut self, modifier: u32, data: &mut Data) -> Handled {
        if self.has(Habit::NoSlToVl) {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        let mut row = [0; MAPPING_LEN];
        row.copy_from_slice(&data[..MAPPING_LEN]);
        data[MAPPING_LEN..].fill(0);
        if !self.is_switch() {
            let port = self.fabric.port_mut(self.entry);
            port.tables_mut().sl_to_vl.insert(0, row);
            return Ok(());
        }
        let inputs = self.mapping_ports(SlToVlMapping::modifier_input(modifier))?;
        let outputs = self.mapping_ports(SlToVlMapping::modifier_output(modifier))?;
        for output in outputs {
            let port = self.table_port(output)?;
            let tables = self.fabric.port_mut(port).tables_mut();
            tables
                .sl_to_vl
                .extend(inputs.clone().map(|input| (input, row)));
        }
        Ok(())
    }

    /// The index of the port, the block number, and the number of bytes of the block that the
    /// port's table has. Fails for a block beyond the table.
    fn arbitration_block(&self, modifier: u32) -> Result<(u32, u8, usize), Status> {
        if self.has(Habit::NoVlArbitration) {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        let number = VlArbitration::modifier_port(modifier).0;
        if self.is_switch() && number == 0 && !self.has_enhanced_port0() {
            return Err(Status::INVALID_FIELD);
        }
        let port = self.table_port(number)?;
        let block = VlArbitration::modifier_block(modifier).ok_or(Status::INVALID_FIELD)?;
        let info = &self.fabric.port(port).info;
        let (capacity, entries_before) = match block {
            VlArbitrationBlock::LowPriorityLower => (info.vl_arbitration_low_cap(), 0),
            VlArbitrationBlock::LowPriorityUpper => (info.vl_arbitration_low_cap(), 32),
            VlArbitrationBlock::HighPriorityLower => (info.vl_arbitration_high_cap(), 0),
            VlArbitrationBlock::HighPriorityUpper => (info.vl_arbitration_high_cap(), 32),
        };
        let entries =
            usize::from(capacity.saturating_sub(entries_before)).min(VlArbitration::ENTRIES);
        if entries == 0 {
            return Err(Status::INVALID_FIELD);
        }
        Ok((port, block as u8, entries * size_of::<u16>()))
    }

    /// Answers SubnGet(VLArbitrationTable); a block that was never set has zeroes.
    pub(super) fn get_vl_arbitration(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let (port, block, _) = self.arbitration_block(modifier)?;
        let tables = self.fabric.port(port).tables.as_ref();
        *data = tables
            .and_then(|tables| tables.vl_arbitration.get(&block))
            .copied()
            .unwrap_or([0; SMP_DATA_LEN]);
        Ok(())
    }

    /// Answers SubnSet(VLArbitrationTable).
    pub(super) fn set_vl_arbitration(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let (port, block, len) = self.arbitration_block(modifier)?;
        // The agent does not keep entries beyond the table.
        data[len..].fill(0);
        let tables = self.fabric.port_mut(port).tables_mut();
        tables.vl_arbitration.insert(block, *data);
        Ok(())
    }
}
