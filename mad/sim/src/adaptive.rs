//! The operations with which tests and programs set and read the adaptive routing of switches.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::ArInfo;

use crate::error::SimError;
use crate::fabric::{AdaptiveRouting, DROP, LinearWrites};
use crate::sim::Sim;

impl Sim {
    /// Turns on the adaptive routing of a switch, as another manager left it: the switch answers
    /// ARInfo with E set, and forwards by `entries` (the exit port of each LID), which
    /// Get(LinearForwardingTable) does not show. Adaptive routing ends when the switch loses power.
    ///
    /// # Errors
    /// There is no such node, or the node is no switch.
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
            is_locked: false,
        };
        *self.adaptive_mut(switch)? = Some(adaptive);
        Ok(())
    }

    /// Makes a switch with adaptive routing refuse Set(ARInfo), like firmware that reserves the
    /// attribute for another manager.
    ///
    /// # Errors
    /// There is no such node, or the node is no switch.
    pub fn lock_adaptive_routing(&mut self, switch: Guid) -> Result<(), SimError> {
        if let Some(adaptive) = self.adaptive_mut(switch)? {
            adaptive.is_locked = true;
        }
        Ok(())
    }

    /// Whether adaptive routing of a switch is enabled.
    ///
    /// # Errors
    /// There is no such node, or the node is no switch.
    pub fn routes_adaptively(&mut self, switch: Guid) -> Result<bool, SimError> {
        let adaptive = self.adaptive_mut(switch)?;
        Ok(adaptive
            .as_ref()
            .is_some_and(|adaptive| adaptive.info.enabled()))
    }

    /// The ARInfo attribute of a switch; `None` if the switch has no adaptive routing.
    ///
    /// # Errors
    /// There is no such node, or the node is no switch.
    pub fn ar_info(&self, switch: Guid) -> Result<Option<ArInfo>, SimError> {
        Ok(self.adaptive(switch)?.map(|adaptive| adaptive.info))
    }

    /// The ports of a group of a switch; the list is empty if the switch does not have the group.
    ///
    /// # Errors
    /// There is no such node, or the node is no switch.
    pub fn ar_group(&self, switch: Guid, group: u16) -> Result<Vec<PortNum>, SimError> {
        let adaptive = self.adaptive(switch)?;
        Ok(adaptive.map_or_else(Vec::new, |adaptive| adaptive.ports(group)))
    }

    /// The static port and the group of a LID in the adaptive linear forwarding table of a switch.
    /// The port is 255 if the entry drops packets; the group is 0 if the entry names no group.
    ///
    /// # Errors
    /// There is no such node, or the node is no switch.
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
