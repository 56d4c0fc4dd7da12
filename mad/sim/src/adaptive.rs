//! Adaptive routing, modelled as far as a switch forwards by another table than its linear one.

use rsm_ids::Guid;
use rsm_mad::wire::attr::ArInfo;

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

/// Adaptive routing of one switch. The switch has ARInfo, and forwards by a table of its own while
/// ARInfo.E is set.
#[derive(Debug, Clone)]
pub(crate) struct AdaptiveRouting {
    pub(crate) info: ArInfo,
    /// Exit port by LID; LIDs beyond are dropped. Each group has one port.
    pub(crate) entries: Vec<u8>,
    pub(crate) linear_writes: LinearWrites,
    /// The agent refuses Set(ARInfo).
    pub(crate) locked: bool,
}

impl AdaptiveRouting {
    /// The table in force, if it is not the linear one.
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

    fn adaptive_mut(&mut self, switch: Guid) -> Result<&mut Option<AdaptiveRouting>, SimError> {
        let index = self.fabric.find_node(switch)?;
        match &mut self.fabric.node_mut(index).switch {
            Some(found) => Ok(&mut found.adaptive),
            None => Err(SimError::NotASwitch { guid: switch }),
        }
    }
}
