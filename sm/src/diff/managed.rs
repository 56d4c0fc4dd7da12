//! The difference in managed attributes of ports.

use super::{Changes, Comparison, ComparisonScope};
use crate::sweep::inventory::PortKey;
use crate::sweep::managed::{BlockKey, Content, Origin, Source};

/// A block to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockChange {
    /// The block.
    pub key: BlockKey,
    /// Its planned content.
    pub content: Content,
}

/// The blocks of this origin at a port that differ from their planned content.
pub fn differing(source: &Source<'_>, key: PortKey, origin: Origin) -> Vec<BlockChange> {
    let Some(port) = source.inventory.port(key) else {
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
    /// Adds the alias GUIDs that differ, at ports with a LID: hosts have asked for few.
    pub(super) fn compare_alias_guids(&self, changes: &mut Changes) {
        if !self.inventory.named {
            return;
        }
        let source = Source::of_plan(self.inventory, self.plan);
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

    /// Adds the tables for quality of service that differ at the ports of `scope`.
    pub(super) fn compare_qos(&self, scope: &ComparisonScope, changes: &mut Changes) {
        if self.plan.policy.qos.is_none() {
            return;
        }
        let source = Source::of_plan(self.inventory, self.plan);
        for &key in &scope.ports {
            let Some(at) = self.fabric.find_port(key) else {
                continue;
            };
            if super::wanted(self.fabric, self.plan, at).is_none() {
                continue;
            }
            let blocks = differing(&source, key, Origin::Qos);
            if !blocks.is_empty() {
                changes.managed.insert(key, blocks);
            }
        }
    }

    /// Adds the choices about speeds that differ at the ports of `scope`.
    pub(super) fn compare_speeds(&self, scope: &ComparisonScope, changes: &mut Changes) {
        let source = Source::of_plan(self.inventory, self.plan);
        if source.fdr10.is_none() {
            return;
        }
        for &key in &scope.ports {
            let at = self.fabric.find_port(key);
            if at.is_none_or(|at| super::wanted(self.fabric, self.plan, at).is_none()) {
                continue;
            }
            for key in source.blocks(key, Origin::Speed) {
                if let Some(content) = source.content(key) {
                    let all = changes.managed.entry(key.port).or_default();
                    all.push(BlockChange { key, content });
                }
            }
        }
    }
}
