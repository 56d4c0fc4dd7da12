//! Compares the managed attributes of ports with the plan.

use rsm_ids::PortKey;
use rsm_model::managed::{BlockKey, Content, Origin};
use rsm_plan::managed::Source;

use super::{Changes, Comparison, ComparisonScope};

/// A block to write, and its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockChange {
    /// The block.
    pub key: BlockKey,
    /// Planned content.
    pub content: Content,
}

/// The blocks of `origin` at the port `key` whose content differs from the plan.
pub fn differing(source: &Source<'_>, key: PortKey, origin: Origin) -> Vec<BlockChange> {
    let Some(port) = source.hardware.port(key) else {
        return Vec::new();
    };
    let blocks = source.blocks(key, origin).into_iter();
    blocks
        .filter_map(|key| {
            let content = source.content(key)?;
            Some(BlockChange { key, content })
        })
        .filter(|wanted| !port.managed.holds(wanted.key.place, &wanted.content))
        .collect()
}

impl Comparison<'_> {
    /// The source of the planned blocks.
    pub(super) fn planned_blocks(&self) -> Source<'_> {
        Source::of_plan(
            &self.inventory.hardware,
            &self.inventory.alias_guids,
            self.plan,
        )
    }

    /// Adds the alias GUIDs that differ, at ports with a LID. Compares all ports, because few of
    /// them have alias GUIDs.
    pub(super) fn compare_alias_guids(&self, changes: &mut Changes) {
        if !self.inventory.named {
            return;
        }
        let source = self.planned_blocks();
        for (at, _) in self.fabric.end_ports() {
            let key = self.fabric.key(at);
            let blocks = differing(&source, key, Origin::Hosts);
            if !blocks.is_empty() && self.plan.claim(key).is_some() {
                let all = changes.managed.entry(key).or_default();
                all.extend(blocks);
                all.sort_unstable_by_key(|change| change.key);
            }
        }
    }

    /// Adds the QoS tables that differ at the ports of `scope`, if the policy sets QoS.
    pub(super) fn compare_qos(&self, scope: &ComparisonScope, changes: &mut Changes) {
        if self.plan.policy.qos.is_none() {
            return;
        }
        let source = self.planned_blocks();
        for &key in &scope.ports {
            let Some(at) = self.fabric.find_port(key) else {
                continue;
            };
            if super::planned_port(self.fabric, self.plan, at).is_none() {
                continue;
            }
            let blocks = differing(&source, key, Origin::Qos);
            if !blocks.is_empty() {
                changes.managed.insert(key, blocks);
            }
        }
    }

    /// Adds the rate limits that differ at the ports of `scope`, if the policy sets rate limits.
    pub(super) fn compare_rate_limits(&self, scope: &ComparisonScope, changes: &mut Changes) {
        if self.plan.policy.rate_limits.is_none() {
            return;
        }
        let source = self.planned_blocks();
        for &key in &scope.ports {
            let at = self.fabric.find_port(key);
            if at.is_none_or(|at| super::planned_port(self.fabric, self.plan, at).is_none()) {
                continue;
            }
            let blocks = differing(&source, key, Origin::RateLimits);
            if !blocks.is_empty() {
                changes.managed.entry(key).or_default().extend(blocks);
            }
        }
    }

    /// Adds the planned blocks of ExtendedPortInfo at the ports of `scope`.
    pub(super) fn compare_extended_ports(&self, scope: &ComparisonScope, changes: &mut Changes) {
        let source = self.planned_blocks();
        for &key in &scope.ports {
            let port = self.inventory.hardware.port(key);
            if port.is_none_or(|port| port.extended.is_none()) {
                continue;
            }
            let at = self.fabric.find_port(key);
            if at.is_none_or(|at| super::planned_port(self.fabric, self.plan, at).is_none()) {
                continue;
            }
            let wanted = source.blocks(key, Origin::Extended).into_iter();
            let wanted = wanted.filter_map(|key| {
                let content = source.content(key)?;
                Some(BlockChange { key, content })
            });
            let blocks: Vec<BlockChange> = wanted.collect();
            if !blocks.is_empty() {
                changes.managed.entry(key).or_default().extend(blocks);
            }
        }
    }
}
