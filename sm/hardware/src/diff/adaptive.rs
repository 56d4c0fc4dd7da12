//! Compares the planned groups and entries of adaptive routing with the groups and entries that a
//! switch holds.
//!
//! A switch whose tables change first returns to its linear forwarding table. Then it gets groups
//! and entries, which have no effect at that time. Finally it forwards by groups again. Therefore
//! no packet is forwarded by a half-written table, even if a Set of the forwarding table changes
//! other tables of the switch as well.

use std::collections::BTreeSet;

use rsm_ids::Guid;
use rsm_mad::wire::attr::{ArGroupTable, ArInfo};
use rsm_model::adaptive_image::{entries_of_block, entry_block, groups_of_block};
use rsm_model::capabilities::DeviceType;
use rsm_model::{InventoryNode, InventorySwitch};
use rsm_plan::Plan;
use rsm_plan::adaptive::Adaptive;
use rsm_routing::adaptive::AdaptiveTable;
use rsm_routing::mcast::PortMask;

use super::Changes;
use crate::sweep::inventory::Inventory;

/// The adaptive routing Sets of one switch, in the order in which they are sent.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct AdaptiveChange {
    /// ARInfo with groups out of force; `None` if the switch already holds this content.
    pub prepare: Option<ArInfo>,
    /// Whether `prepare` takes groups out of force that are in force at present.
    pub leaves: bool,
    /// Blocks with groups that differ from the plan and do not become empty, lowest first.
    pub groups: Vec<u16>,
    /// Blocks of entries whose content differs from the plan, lowest first.
    pub entries: Vec<u16>,
    /// Blocks with groups that become empty, lowest first. They are written after the entries, so
    /// that no entry names an empty group.
    pub emptied: Vec<u16>,
    /// ARInfo with groups in force; `None` if the switch already holds this content.
    pub enable: Option<ArInfo>,
}

impl AdaptiveChange {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.prepare.is_none() && self.enable.is_none() && !self.has_tables()
    }

    /// Whether there are blocks to write.
    pub fn has_tables(&self) -> bool {
        !(self.groups.is_empty() && self.entries.is_empty() && self.emptied.is_empty())
    }

    /// Number of blocks to write.
    pub fn blocks(&self) -> usize {
        self.groups.len() + self.entries.len() + self.emptied.len()
    }

    /// Drops every Set except the Set that takes groups out of force.
    fn keep_only_leaving(&mut self) {
        *self = match self.leaves {
            true => AdaptiveChange {
                prepare: self.prepare,
                leaves: true,
                ..AdaptiveChange::default()
            },
            false => AdaptiveChange::default(),
        };
    }

    /// The change that takes groups out of force.
    fn leaving(info: ArInfo) -> AdaptiveChange {
        AdaptiveChange {
            prepare: Some(info),
            leaves: true,
            ..AdaptiveChange::default()
        }
    }
}

/// The content to write to a block of groups: the planned content, except that groups that become
/// empty keep the ports that the switch holds if `keeps` is true.
pub(crate) fn planned_groups(
    table: &AdaptiveTable,
    switch: &InventorySwitch,
    block: u16,
    keeps: bool,
) -> ArGroupTable {
    let (wanted, held) = (groups_of_block(table, block), switch.adaptive.groups(block));
    let is_known = switch.adaptive.knows_groups(block);
    let mut content = ArGroupTable::default();
    for (index, (own, held)) in wanted.into_iter().zip(held).enumerate() {
        let is_no_group = block == 0 && index == 0;
        let ports: PortMask = match (keeps && own.is_empty() && !is_no_group, is_known) {
            (false, _) => own,
            (true, true) => held,
            // An entry from an earlier run may name this group. Until the entries are written, the
            // group gets the ports of the block's other group.
            (true, false) => wanted[1 - index],
        };
        content.set_ports(index, ports.ports());
    }
    content
}

/// The changes of a switch. `tables_change` says whether a push also writes blocks of its
/// forwarding table.
pub(super) fn switch_change(
    plan: &Plan,
    inventory: &Inventory,
    guid: Guid,
    tables_change: bool,
) -> AdaptiveChange {
    let none = AdaptiveChange::default();
    let node = inventory.hardware.node(guid);
    let Some((node, switch)) = node.and_then(|node| Some((node, node.switch.as_ref()?))) else {
        return none;
    };
    let Some(info) = switch.ar_info().filter(|_| !switch.keeps_adaptive_routing) else {
        return none;
    };
    let is_on = info.uses_groups();
    if is_on && !switch.adaptive.is_own() {
        // `taken_over_tables` decides about groups of another manager.
        return none;
    }
    let adaptive = plan.adaptive.as_deref();
    match adaptive.filter(|adaptive| adaptive.switches.contains(&guid)) {
        None if is_on => {
            let mut info = info;
            AdaptiveChange::leaving(*info.disable())
        }
        None => none,
        Some(adaptive) => adaptive_switch_change(
            plan,
            adaptive,
            inventory,
            (guid, node, switch),
            tables_change,
        )
        .unwrap_or_default(),
    }
}

/// The changes of a switch that is planned to forward by groups; `None` if there are none.
fn adaptive_switch_change(
    plan: &Plan,
    adaptive: &Adaptive,
    inventory: &Inventory,
    (guid, node, switch): (Guid, &InventoryNode, &InventorySwitch),
    tables_change: bool,
) -> Option<AdaptiveChange> {
    let info = switch.ar_info()?;
    let is_on = info.uses_groups();
    let device = DeviceType::of(&node.info);
    let has_passed = is_on || inventory.adaptive_trials.has_passed(device);
    if !has_passed && adaptive.tests.get(&device) != Some(&guid) {
        return None;
    }
    let mut change = differing_tables(plan, adaptive, guid, switch)?;
    let (ready, in_force) = (
        adaptive.ar_info(&info, false),
        adaptive.ar_info(&info, true),
    );
    if is_on && info == in_force && !change.has_tables() && !tables_change {
        return None;
    }
    change.prepare = (info != ready).then_some(ready);
    change.leaves = is_on;
    change.enable = has_passed.then_some(in_force);
    Some(change)
}

/// The blocks of groups and entries that differ; `None` if the plan has no tables for the switch.
fn differing_tables(
    plan: &Plan,
    adaptive: &Adaptive,
    guid: Guid,
    switch: &InventorySwitch,
) -> Option<AdaptiveChange> {
    let (table, lft) = (adaptive.table(plan, guid)?, plan.table(guid)?);
    let image = &switch.adaptive;
    let mut change = AdaptiveChange::default();
    for block in 0..adaptive.group_blocks() {
        let wanted = groups_of_block(table, block);
        if image.holds_groups(block, &wanted) {
            continue;
        }
        let held = image.groups(block);
        let is_known = image.knows_groups(block);
        let mut groups = wanted.iter().zip(&held).enumerate();
        let empties = groups.any(|(index, (wanted, held))| {
            let is_no_group = block == 0 && index == 0;
            wanted.is_empty() && !is_no_group && (!is_known || !held.is_empty())
        });
        let mut groups = wanted.iter().zip(&held);
        let differs =
            groups.any(|(wanted, held)| !wanted.is_empty() && (!is_known || wanted != held));
        change.groups.extend(differs.then_some(block));
        change.emptied.extend(empties.then_some(block));
    }
    for block in 0..=entry_block(plan.top()) {
        if !image.holds_entries(block, &entries_of_block(table, lft, block)) {
            change.entries.push(block);
        }
    }
    Some(change)
}

impl Changes {
    /// Removes Sets of adaptive routing that must wait for other Sets: groups may be in force only
    /// together with the forwarding tables that they were proved with. Returns whether Sets must
    /// wait for a later push.
    ///
    /// A push that changes forwarding tables takes groups out of force, except groups that the plan
    /// proved to be safe during the push. It puts no groups in force: that waits until all switches
    /// hold their forwarding tables.
    pub fn fit_adaptive(&mut self, plan: &Plan, inventory: &Inventory) -> bool {
        let mute = &plan.transition.mute;
        let writes_tables = self.blocks() > 0;
        let mut must_wait = false;
        if writes_tables {
            must_wait |= self.leave_groups(plan, inventory);
        }
        let is_foreign = |guid: &Guid| {
            let node = inventory.hardware.node(*guid);
            let switch = node.and_then(|node| node.switch.as_ref());
            switch.is_some_and(|switch| switch.keeps_adaptive_routing || !switch.adaptive.is_own())
        };
        let ends_foreign = |guid: &Guid| {
            let change = self.switches.get(guid);
            change.is_some_and(|change| change.ar_info.is_some())
        };
        let foreign: Vec<Guid> = inventory.hardware.adaptive().filter(is_foreign).collect();
        // A switch that does not answer, or keeps groups of another manager, may send packets to
        // any port.
        let waits = !mute.is_empty() || !foreign.iter().all(ends_foreign);
        let writes_tables = writes_tables || !foreign.is_empty();
        let opening: BTreeSet<Guid> = self
            .ports
            .iter()
            .filter(|(_, change)| change.external_of_switch && change.info && change.activate)
            .map(|(key, _)| key.node)
            .collect();
        for (&guid, change) in &mut self.switches {
            let is_opening = opening.contains(&guid);
            if writes_tables || waits || is_opening {
                let had_more = !change.adaptive.is_empty();
                change.adaptive.keep_only_leaving();
                must_wait |= had_more && !waits;
            }
            if mute.contains(&guid) {
                change.adaptive = AdaptiveChange::default();
            }
        }
        self.switches.retain(|_, change| !change.is_empty());
        must_wait
    }

    /// Adds Sets that take groups out of force on switches where groups may not stay in force while
    /// forwarding tables change. Returns whether there are such switches.
    fn leave_groups(&mut self, plan: &Plan, inventory: &Inventory) -> bool {
        let adaptive = plan.adaptive.as_deref();
        let stays = |guid: &Guid| adaptive.is_some_and(|adaptive| adaptive.kept.contains(guid));
        let mut has_any = false;
        for guid in inventory.hardware.adaptive().filter(|guid| !stays(guid)) {
            let node = inventory.hardware.node(guid);
            let switch = node.and_then(|node| node.switch.as_ref());
            let own =
                switch.filter(|switch| switch.adaptive.is_own() && !switch.keeps_adaptive_routing);
            let Some(mut info) = own.and_then(|switch| switch.ar_info()) else {
                continue;
            };
            let change = self.switches.entry(guid).or_default();
            if !change.adaptive.leaves {
                change.adaptive = AdaptiveChange::leaving(*info.disable());
            }
            has_any = true;
        }
        has_any
    }
}
