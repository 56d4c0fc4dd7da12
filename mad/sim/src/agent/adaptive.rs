//! The agent's answers for ARInfo, ARGroupTable and the adaptive linear forwarding table of NVIDIA
//! switches.

use rsm_ids::PortNum;
use rsm_mad::wire::attr::{
    ArEntry, ArGroupTable, ArInfo, ArLidState, ArLinearForwardingTable, Attribute,
};
use rsm_mad::wire::header::Status;
use rsm_mad::wire::smp::SMP_DATA_LEN;

use super::{Handled, Request};
use crate::fabric::{AdaptiveRouting, DROP};
use crate::personality::Habit;

type Data = [u8; SMP_DATA_LEN];

impl Request<'_> {
    /// The adaptive routing of the switch, and its number of ports. Fails with
    /// `UNSUPPORTED_METHOD_ATTRIBUTE` if the device has no adaptive routing.
    fn adaptive(&mut self) -> Result<(&mut AdaptiveRouting, u8), Status> {
        let node = self.fabric.node_mut(self.node);
        let num_ports = node.num_ports;
        let switch = node.switch.as_mut();
        let adaptive = switch
            .and_then(|switch| switch.adaptive.as_mut())
            .ok_or(Status::UNSUPPORTED_METHOD_ATTRIBUTE)?;
        Ok((adaptive, num_ports))
    }

    pub(super) fn get_ar_info(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let (adaptive, _) = self.adaptive()?;
        require(modifier == ArInfo::MODIFIER)?;
        *data = *adaptive.info.as_data();
        Ok(())
    }

    pub(super) fn set_ar_info(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let (adaptive, _) = self.adaptive()?;
        let mut info = *ArInfo::from_data(data);
        let held = &adaptive.info;
        let fits = info.group_top() == 0 || info.group_top() < held.group_cap();
        require(modifier == ArInfo::MODIFIER && !adaptive.is_locked && fits)?;
        info.set_group_cap(held.group_cap())
            .set_group_table_cap(held.group_table_cap())
            .set_by_sl_cap(held.by_sl_cap())
            .set_by_transport_cap(held.by_transport_cap())
            .set_fast_recovery_sup(held.fast_recovery_sup())
            .set_sub_groups_supported(held.sub_groups_supported());
        adaptive.info = info;
        *data = *info.as_data();
        Ok(())
    }

    /// The block of groups that a request names, and the block that the switch reads or writes: a
    /// switch with [`Habit::IgnoresAdaptiveBlocks`] always uses block 0.
    fn group_block(&mut self, modifier: u32) -> Result<(u16, u16), Status> {
        let ignores_blocks = self.has(Habit::IgnoresAdaptiveBlocks);
        let refuses = self.has(Habit::RefusesAdaptiveTables);
        let (adaptive, _) = self.adaptive()?;
        if refuses {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        let block = ArGroupTable::modifier_block(modifier).ok_or(Status::INVALID_FIELD)?;
        let first = usize::from(block) * ArGroupTable::ENTRIES;
        require(first < usize::from(adaptive.info.group_cap()))?;
        Ok((block, if ignores_blocks { 0 } else { block }))
    }

    pub(super) fn get_ar_groups(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let (_, block) = self.group_block(modifier)?;
        let (adaptive, _) = self.adaptive()?;
        let held = adaptive.group_table.get(&block);
        *data = *held.copied().unwrap_or_default().as_data();
        Ok(())
    }

    /// Refuses a group above GroupTop, a port that the switch does not have, ports in group 0, and
    /// an empty group that a forwarding entry names.
    pub(super) fn set_ar_groups(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let (block, stored) = self.group_block(modifier)?;
        let (adaptive, num_ports) = self.adaptive()?;
        let table = *ArGroupTable::from_data(data);
        for (index, group) in (0..ArGroupTable::ENTRIES).zip(block * 2..) {
            let ports: Vec<PortNum> = table.ports(index).collect();
            let fits = (1..=num_ports).contains(&ports.first().map_or(1, |port| port.0))
                && ports.last().is_none_or(|port| port.0 <= num_ports);
            let is_empty = ports.is_empty();
            let may_have_ports = group != 0 && group <= adaptive.info.group_top();
            let is_in_use = is_empty && group != 0 && adaptive.groups.contains(&group);
            require(fits && (is_empty || may_have_ports) && !is_in_use)?;
        }
        adaptive.group_table.insert(stored, table);
        Ok(())
    }

    pub(super) fn get_ar_entries(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let first = self.entry_block(modifier)?;
        let (adaptive, _) = self.adaptive()?;
        let mut table = ArLinearForwardingTable::default();
        for index in 0..ArLinearForwardingTable::ENTRIES {
            let group = adaptive.groups.get(first + index).copied().unwrap_or(0);
            let port = adaptive.entries.get(first + index);
            let entry = ArEntry {
                state: match group {
                    0 => ArLidState::Static,
                    _ => ArLidState::Free,
                },
                table: 0,
                port: PortNum(port.copied().unwrap_or(DROP)),
                group,
            };
            table.set_entry(index, entry);
        }
        *data = *table.as_data();
        Ok(())
    }

    /// Refuses entries that name a group without ports, another group table, or a port that the
    /// switch does not have.
    pub(super) fn set_ar_entries(&mut self, modifier: u32, data: &mut Data) -> Handled {
        let first = self.entry_block(modifier)?;
        let (adaptive, num_ports) = self.adaptive()?;
        let table = ArLinearForwardingTable::from_data(data);
        let entries: Vec<ArEntry> = (0..ArLinearForwardingTable::ENTRIES)
            .filter_map(|index| table.entry(index))
            .collect();
        for entry in &entries {
            let is_static = entry.state == ArLidState::Static && entry.group == 0;
            let is_free = entry.state == ArLidState::Free
                && entry.group <= adaptive.info.group_top()
                && !adaptive.ports(entry.group).is_empty();
            let has_port = entry.port.0 <= num_ports || entry.port.0 == DROP;
            require((is_static || is_free) && has_port && entry.table == 0)?;
        }
        let end = first + entries.len();
        if adaptive.entries.len() < end {
            adaptive.entries.resize(end, DROP);
        }
        if adaptive.groups.len() < end {
            adaptive.groups.resize(end, 0);
        }
        for (index, entry) in (first..).zip(entries) {
            adaptive.entries[index] = entry.port.0;
            adaptive.groups[index] = entry.group;
        }
        Ok(())
    }

    /// The first LID of the block of forwarding entries that a request names.
    fn entry_block(&mut self, modifier: u32) -> Result<usize, Status> {
        self.adaptive()?;
        if self.has(Habit::RefusesAdaptiveTables) {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        let block =
            ArLinearForwardingTable::modifier_block(modifier).ok_or(Status::INVALID_FIELD)?;
        let first = usize::from(block) * ArLinearForwardingTable::ENTRIES;
        require(first < 0xC000)?;
        Ok(first)
    }
}

/// Fails with `INVALID_FIELD` unless `is_valid`.
fn require(is_valid: bool) -> Handled {
    match is_valid {
        true => Ok(()),
        false => Err(Status::INVALID_FIELD),
    }
}
