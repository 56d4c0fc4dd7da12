//! Adaptive routing of a switch: groups of ports, and the table entries that name the groups.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{ArGroupTable, ArInfo};

use super::DROP;

/// The effect of a Set of LinearForwardingTable while adaptive routing is on. No public document
/// specifies the effect, so a subnet manager has to handle both kinds of switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinearWrites {
    /// The Set replaces the entries by which the switch forwards.
    TakeEffect,
    /// The switch stores the block, without effect until adaptive routing is off.
    Wait,
}

/// The number of groups of a switch with [`Habit::AdaptiveRouting`](crate::Habit::AdaptiveRouting),
/// the empty group 0 included.
const GROUPS: u16 = 2048;

/// The adaptive routing of one switch. The switch has ARInfo, and forwards by separate tables while
/// ARInfo.E is set.
#[derive(Debug, Clone)]
pub(crate) struct AdaptiveRouting {
    /// The answer to Get(ARInfo).
    pub(crate) info: ArInfo,
    /// The static port of each LID; packets to LIDs beyond the end are dropped.
    pub(crate) entries: Vec<u8>,
    /// The group of each LID. Group 0, and LIDs beyond the end, use only the static port.
    pub(crate) groups: Vec<u16>,
    /// The blocks of the group table that were ever written, by block number; the groups of other
    /// blocks are empty.
    pub(crate) group_table: BTreeMap<u16, ArGroupTable>,
    pub(crate) linear_writes: LinearWrites,
    /// Whether the agent refuses Set(ARInfo).
    pub(crate) is_locked: bool,
}

impl AdaptiveRouting {
    /// The state after power-on: disabled, without groups. Switches with an even GUID have
    /// [`LinearWrites::TakeEffect`] and switches with an odd GUID have [`LinearWrites::Wait`],
    /// because hardware may behave in either way.
    pub(crate) fn blank(switch: Guid) -> AdaptiveRouting {
        let mut info = ArInfo::default();
        info.set_group_cap(GROUPS)
            .set_by_sl_cap(true)
            .set_by_transport_cap(true)
            .set_fast_recovery_sup(true)
            .set_sub_groups_supported(1);
        AdaptiveRouting {
            info,
            entries: Vec::new(),
            groups: Vec::new(),
            group_table: BTreeMap::new(),
            linear_writes: match switch.0 % 2 {
                0 => LinearWrites::TakeEffect,
                _ => LinearWrites::Wait,
            },
            is_locked: false,
        }
    }

    /// The static ports by LID; `None` while adaptive routing is off and the linear forwarding
    /// table is in force.
    pub(crate) fn in_force(&self) -> Option<&[u8]> {
        self.info.enabled().then_some(&self.entries[..])
    }

    /// Follows a Set of LinearForwardingTable, whose first entry belongs to the LID `start`.
    pub(crate) fn on_linear_write(&mut self, start: usize, block: &[u8]) {
        if self.linear_writes == LinearWrites::Wait {
            return;
        }
        let end = start + block.len();
        if self.entries.len() < end {
            self.entries.resize(end, DROP);
        }
        self.entries[start..end].copy_from_slice(block);
    }

    /// The group of packets to `lid` on `sl` according to the entries, even while adaptive routing
    /// is off. Group 0 means that the packets use only the static port.
    pub(crate) fn group_of(&self, lid: Lid, sl: u8) -> u16 {
        let is_left_out = self.info.by_sl_en() && self.info.sl_mask() >> sl & 1 == 0;
        match self.groups.get(lid.index()) {
            Some(&group) if !is_left_out => group,
            _ => 0,
        }
    }

    /// The ports of a group.
    pub(crate) fn ports(&self, group: u16) -> Vec<PortNum> {
        let entries = ArGroupTable::ENTRIES as u16;
        let block = self.group_table.get(&(group / entries));
        block.map_or_else(Vec::new, |block| {
            block.ports(usize::from(group % entries)).collect()
        })
    }
}
