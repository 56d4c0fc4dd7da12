//! Adaptive routing of switches: groups of ports, entries that name them, and their effect.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{ArGroupTable, ArInfo};

use crate::error::SimError;
use crate::fabric::DROP;
use crate::sim::Sim;

/// The effect of a Set of LinearForwardingTable while adaptive routing is on. No public document
/// specifies it, so that a subnet manager has to handle either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinearWrites {
    /// The Set replaces the entries that the switch forwards by.
    TakeEffect,
    /// The switch stores the block, without effect until adaptive routing is off.
    Wait,
}

/// How many groups a switch with [`Habit::AdaptiveRouting`](crate::Habit::AdaptiveRouting) has, the
/// empty one included.
const GROUPS: u16 = 2048;

/// Adaptive routing of one switch. The switch has ARInfo, and forwards by tables of its own while
/// ARInfo.E is set.
#[derive(Debug, Clone)]
pub(crate) struct AdaptiveRouting {
    pub(crate) info: ArInfo,
    /// Static port by LID; LIDs beyond are dropped.
    pub(crate) entries: Vec<u8>,
    /// Group by LID; 0, and LIDs beyond: the static port alone.
    pub(crate) groups: Vec<u16>,
    /// Blocks of the group table, if ever written; other groups are empty.
    pub(crate) group_table: BTreeMap<u16, ArGroupTable>,
    pub(crate) linear_writes: LinearWrites,
    /// The agent refuses Set(ARInfo).
    pub(crate) locked: bool,
}

impl AdaptiveRouting {
    /// After power-on: off, without groups. Half of the switches treat Sets of the linear table in
    /// each way while adaptive routing is on, because either may be true of hardware.
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
            locked: false,
        }
    }

    /// The table in force for packets without a choice, if it is not the linear one.
    pub(crate) fn in_force(&self) -> Option<&[u8]> {
        self.info.enabled().then_some(&self.entries[..])
    }

    /// A block of the linear table was written, from the entry `start` on.
    pub(crate) fn linear_written(&mut self, start: usize, block: &[u8]) {
        if self.linear_writes == LinearWrites::Wait {
            return;
        }
        let end = start + block.len();
        if self.entries.len() < end {
            self.entries.resize(end, DROP);
        }
        self.entries[start..end].copy_from_slice(block);
    }

    /// The group of packets to `lid` on `sl` by the entries, whether or not groups are in use.
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

impl Sim {
    /// Turns adaptive routing of a switch on, as another manager left it: the switch answers ARInfo
    /// with E set, and forwards by `entries` (exit port by LID), which Get(LinearForwardingTable)
    /// does not show. A loss of power ends it.
    ///
    /// # Errors
    /// There is no such node, or it is no switch.
    pub fn set_adaptive_routing(
        &mut self,
        switch: Guid,
        entries: Vec<u8>,
        linear_writes: LinearWrites,
    ) -> Result<(), SimError> {
        let mut info = ArInfo::default();
        info.set_enabled(true).set_fast_recovery_enabled(true);
        let adaptive = AdaptiveRouting {
            info,
            entries,
            groups: Vec::new(),
            group_table: BTreeMap::new(),
            linear_writes,
            locked: false,
        };
        *self.adaptive_mut(switch)? = Some(adaptive);
        Ok(())
    }

    /// Makes a switch with adaptive routing refuse Set(ARInfo), like firmware that leaves it to
    /// another manager.
    ///
    /// # Errors
    /// There is no such node, or it is no switch.
    pub fn lock_adaptive_routing(&mut self, switch: Guid) -> Result<(), SimError> {
        if let Some(adaptive) = self.adaptive_mut(switch)? {
            adaptive.locked = true;
        }
        Ok(())
    }

    /// Whether adaptive routing of a switch is on.
    ///
    /// # Errors
    /// There is no such node, or it is no switch.
    pub fn routes_adaptively(&mut self, switch: Guid) -> Result<bool, SimError> {
        let adaptive = self.adaptive_mut(switch)?;
        Ok(adaptive
            .as_ref()
            .is_some_and(|adaptive| adaptive.info.enabled()))
    }

    /// ARInfo of a switch; `None` where it has no adaptive routing.
    ///
    /// # Errors
    /// There is no such node, or it is no switch.
    pub fn ar_info(&self, switch: Guid) -> Result<Option<ArInfo>, SimError> {
        Ok(self.adaptive(switch)?.map(|adaptive| adaptive.info))
    }

    /// The ports of a group of a switch; none where it does not have the group.
    ///
    /// # Errors
    /// There is no such node, or it is no switch.
    pub fn ar_group(&self, switch: Guid, group: u16) -> Result<Vec<PortNum>, SimError> {
        let adaptive = self.adaptive(switch)?;
        Ok(adaptive.map_or_else(Vec::new, |adaptive| adaptive.ports(group)))
    }

    /// The static port and the group of a LID in the adaptive linear forwarding table of a switch:
    /// port 255 where the entry drops, group 0 where it names none.
    ///
    /// # Errors
    /// There is no such node, or it is no switch.
    pub fn ar_entry(&self, switch: Guid, lid: Lid) -> Result<(PortNum, u16), SimError> {
        let Some(adaptive) = self.adaptive(switch)? else {
            return Ok((PortNum(DROP), 0));
        };
        let port = adaptive.entries.get(lid.index()).copied().unwrap_or(DROP);
        let group = adaptive.groups.get(lid.index()).copied().unwrap_or(0);
        Ok((PortNum(port), group))
    }

    fn adaptive(&self, switch: Guid) -> Result<Option<&AdaptiveRouting>, SimError> {
        let index = self.fabric.find_node(switch)?;
        match &self.fabric.node(index).switch {
            Some(found) => Ok(found.adaptive.as_ref()),
            None => Err(SimError::NotASwitch { guid: switch }),
        }
    }

    fn adaptive_mut(&mut self, switch: Guid) -> Result<&mut Option<AdaptiveRouting>, SimError> {
        let index = self.fabric.find_node(switch)?;
        match &mut self.fabric.node_mut(index).switch {
            Some(found) => Ok(&mut found.adaptive),
            None => Err(SimError::NotASwitch { guid: switch }),
        }
    }
}
