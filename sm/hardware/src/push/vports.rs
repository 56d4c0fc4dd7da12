//! Sends the Sets of virtual ports.
//!
//! Virtual ports are enabled as soon as their physical port has its settings; the next sweep
//! discovers them. A virtual port becomes Active once it holds its P_Keys, its physical port is
//! Active, and the switches forward to its LID.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{Attribute, PortState, VPortInfo, VPortPKeyTable, VirtualizationInfo};
use rsm_mad::wire::header::AttrId;
use rsm_model::vports::VPort;

use super::{Cause, Push, Task};
use crate::diff::{VPortChange, VPortChanges};
use crate::sweep::inventory::Inventory;

/// The Sets of the virtual ports of one port, and their progress.
#[derive(Debug)]
pub(super) struct VPortPush {
    changes: VPortChanges,
    /// Sets that were queued.
    queued: BTreeSet<Task>,
    /// Number of unanswered blocks of P_KeyTables, by index of the virtual port.
    unsettled: BTreeMap<u16, usize>,
    /// Indices of virtual ports that failed to take a block of P_Keys.
    without_keys: BTreeSet<u16>,
}

impl VPortPush {
    pub(super) fn new(changes: VPortChanges) -> VPortPush {
        let with_keys = changes.vports.iter();
        let with_keys = with_keys.filter(|(_, change)| !change.p_keys.is_empty());
        VPortPush {
            unsettled: with_keys
                .map(|(&index, change)| (index, change.p_keys.len()))
                .collect(),
            queued: BTreeSet::new(),
            without_keys: BTreeSet::new(),
            changes,
        }
    }

    /// All Sets of the virtual ports of `key`, in the order in which the push considers them.
    fn tasks(&self, key: PortKey) -> Vec<Task> {
        let first = self.changes.virtualization.as_ref();
        let mut tasks: Vec<Task> = first
            .map(|_| Task::Virtualization(key))
            .into_iter()
            .collect();
        for (&index, change) in &self.changes.vports {
            let blocks = change.p_keys.iter();
            tasks.extend(blocks.map(|part| Task::VPortPKeys(key, index, part.block)));
            tasks.extend(change.info.map(|_| Task::VPort(key, index)));
        }
        tasks
    }

    /// Whether a virtual port holds its P_Keys.
    pub(super) fn holds_keys(&self, index: u16) -> bool {
        !self.unsettled.contains_key(&index) && !self.without_keys.contains(&index)
    }

    /// The change of the virtual port at `index`; `None` if it does not change.
    fn change(&self, index: u16) -> Option<&VPortChange> {
        self.changes.vports.get(&index)
    }
}

impl Push {
    /// Queues the Sets of a port's virtual ports that may be sent now.
    pub(super) fn release_vports(&mut self, inventory: &Inventory, key: PortKey) {
        if self.stopped {
            return;
        }
        let Some(push) = self.vports.get(&key) else {
            return;
        };
        let due: Vec<Task> = push
            .tasks(key)
            .into_iter()
            .filter(|task| !push.queued.contains(task) && self.may(inventory, *task))
            .collect();
        if let Some(push) = self.vports.get_mut(&key) {
            push.queued.extend(due.iter().copied());
        }
        self.ready.extend(due);
    }

    /// Queues the Sets of all virtual ports that may be sent now: some may have waited for tables.
    pub(super) fn release_all_vports(&mut self, inventory: &Inventory) {
        let keys: Vec<PortKey> = self.vports.keys().copied().collect();
        for key in keys {
            self.release_vports(inventory, key);
        }
    }

    /// Port, attribute, modifier and content of a Set; `None` if `task` concerns no virtual port or
    /// the push does not write it.
    pub(super) fn write_vport(&self, task: Task) -> Option<(PortKey, AttrId, u32, [u8; 64])> {
        let change = |key, index| self.vports.get(key)?.change(index);
        Some(match task {
            Task::Virtualization(key) => {
                let info = self.vports.get(&key)?.changes.virtualization?;
                let modifier = VirtualizationInfo::MODIFIER;
                (key, VirtualizationInfo::ID, modifier, *info.as_data())
            }
            Task::VPort(key, index) => {
                let info = change(&key, index)?.info?;
                let modifier = VPortInfo::modifier(index);
                (key, VPortInfo::ID, modifier, *info.as_data())
            }
            Task::VPortPKeys(key, index, block) => {
                let parts = &change(&key, index)?.p_keys;
                let part = parts.iter().find(|part| part.block == block)?;
                let mut table = VPortPKeyTable::default();
                table.set_p_keys(part.table().p_keys());
                let modifier = VPortPKeyTable::modifier(index, block);
                (key, VPortPKeyTable::ID, modifier, *table.as_data())
            }
            _ => return None,
        })
    }

    /// Handles the answer to a Set of a virtual port.
    pub(super) fn vport_answered(
        &mut self,
        inventory: &mut Inventory,
        task: Task,
        data: &[u8; 64],
    ) {
        match task {
            Task::Virtualization(key) => {
                let info = *VirtualizationInfo::from_data(data);
                let is_held = info.enabled();
                if let Some(vports) = inventory.vports_mut(key) {
                    vports.info = info;
                }
                // Virtual ports were just enabled, or have changed since they were read.
                inventory.mark_vports_stale(key);
                self.report.unread.insert(key);
                if !is_held {
                    self.failed(inventory, task, Cause::NotHeld);
                }
            }
            Task::VPort(key, index) => {
                let info = *VPortInfo::from_data(data);
                let wanted = self
                    .vports
                    .get(&key)
                    .and_then(|push| push.change(index)?.info);
                let is_held = info.state() == PortState::Active
                    && wanted.is_some_and(|wanted| wanted.lid() == info.lid());
                if let Some(vport) = vport_mut(inventory, key, index) {
                    vport.info = info;
                    // The bit always reads as 0.
                    vport.info.set_client_reregister(false);
                }
                if is_held {
                    self.report.progress.activated += 1;
                } else {
                    self.failed(inventory, task, Cause::NotHeld);
                }
            }
            Task::VPortPKeys(key, index, block) => {
                let keys = VPortPKeyTable::from_data(data).p_keys();
                let part = self.vports.get(&key).and_then(|push| {
                    let parts = &push.change(index)?.p_keys;
                    parts.iter().find(|part| part.block == block).cloned()
                });
                let mut is_held = false;
                if let Some(vport) = vport_mut(inventory, key, index) {
                    let image = Arc::make_mut(vport.p_keys.get_or_insert_default());
                    image.store(block, &keys);
                    is_held = part.is_some_and(|part| image.holds(block, &part.keys));
                }
                if is_held {
                    self.vport_keys_settled(inventory, key, index, false);
                } else {
                    self.failed(inventory, task, Cause::NotHeld);
                }
            }
            _ => {}
        }
    }

    /// Handles a Set of a virtual port that was refused, lost or not kept.
    pub(super) fn vport_failed(&mut self, inventory: &mut Inventory, task: Task, cause: Cause) {
        let key = task.port();
        if let Task::VPortPKeys(_, index, block) = task {
            if cause == Cause::Silence
                && let Some(vport) = vport_mut(inventory, key, index)
            {
                let image = Arc::make_mut(vport.p_keys.get_or_insert_default());
                image.mark_dirty(block);
            }
            self.vport_keys_settled(inventory, key, index, true);
        }
        // A lost Set may have been executed; a refused Set may concern a virtual port that is gone.
        if cause != Cause::NotSent && inventory.mark_vports_stale(key) {
            self.report.unread.insert(key);
        }
    }

    /// Counts a block of P_Keys of a virtual port as settled, and queues the Sets that waited for
    /// it.
    fn vport_keys_settled(
        &mut self,
        inventory: &Inventory,
        key: PortKey,
        index: u16,
        failed: bool,
    ) {
        let Some(push) = self.vports.get_mut(&key) else {
            return;
        };
        if let Some(left) = push.unsettled.get_mut(&index) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                push.unsettled.remove(&index);
            }
        }
        if failed {
            push.without_keys.insert(index);
        }
        self.release_vports(inventory, key);
    }
}

/// The record of a virtual port; `None` if it is not known.
fn vport_mut(inventory: &mut Inventory, key: PortKey, index: u16) -> Option<&mut VPort> {
    inventory.vports_mut(key)?.vports.get_mut(&index)
}
