//! Compares multicast forwarding tables and MulticastFDBTop with the plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{CapabilityMask, SwitchInfo};
use rsm_model::mft_image::{self, Extent, MftBlock, MftImage};
use rsm_model::{InventoryNode, InventorySwitch, Mark};
use rsm_plan::Plan;
use rsm_plan::multicast::Multicast;
use rsm_routing::mcast::{BLOCK_MLIDS, Mft};
use rsm_routing::topology::PortUse;

use super::Changes;
use crate::sweep::inventory::Inventory;

/// The changes of one switch's multicast forwarding table.
///
/// A mixture of old and new masks must not form a cycle. Therefore every switch removes the ports
/// to other switches that it must lose, and unknown ports, before any switch adds a port. Packets
/// then always follow a part of the old tree or of the new tree. Ports to hosts are in no cycle.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MulticastChange {
    /// Blocks that lose ports which may lead to a switch, in order.
    pub first: Vec<MulticastLoss>,
    /// Blocks that gain ports afterwards, in order.
    pub blocks: Vec<MftBlock>,
    /// MulticastFDBTop, written after all blocks; `None` if it does not differ.
    pub top: Option<Lid>,
}

/// A block that loses ports before any switch adds ports; until then it gets the masks of [`kept`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MulticastLoss {
    /// The block.
    pub at: MftBlock,
    /// The multicast LIDs that lose ports, a bit for each LID of the block.
    pub lids: LidsOfBlock,
}

/// A set of the multicast LIDs of one block: bit `n` is the block's LID number `n`.
pub type LidsOfBlock = u32;

const _: () = assert!(BLOCK_MLIDS == LidsOfBlock::BITS as usize);

impl MulticastChange {
    /// Number of Sets of the change.
    pub(super) fn sets(&self) -> usize {
        self.first.len() + self.blocks.len() + usize::from(self.top.is_some())
    }

    fn is_empty(&self) -> bool {
        self.first.is_empty() && self.blocks.is_empty() && self.top.is_none()
    }
}

/// The masks that a block keeps until it gets `wanted`: the ports of the held masks that are also
/// in `wanted`. Empty masks if the held block is unknown.
pub fn kept(image: &MftImage, at: MftBlock, wanted: &[u16; BLOCK_MLIDS]) -> [u16; BLOCK_MLIDS] {
    if !image.is_known(at) {
        return [0; BLOCK_MLIDS];
    }
    let held = image.block(at);
    std::array::from_fn(|index| held[index] & wanted[index])
}

/// The last comparison of multicast tables, and the switches that differed. A switch needs a second
/// comparison only if it has changed since, in the hardware or in the plan.
#[derive(Clone, Default, Debug)]
pub struct LastMulticastComparison {
    /// The compared plan; `None` before the first comparison.
    wanted: Option<Arc<Multicast>>,
    /// Position in the log of writes at the time of the comparison.
    mark: Mark,
    /// Switches that differed from the plan.
    open: BTreeSet<Guid>,
    /// Switches that forward by their whole table, without a limit in MulticastFDBTop. The plan's
    /// highest multicast LID limits the blocks that a push writes to them.
    unlimited: BTreeSet<Guid>,
}

impl LastMulticastComparison {
    /// Adds to `changes` the differences between the multicast tables in `inventory` and in `plan`.
    /// Returns the reason for comparing all switches; `None` if only some were compared, or the
    /// plan has no multicast.
    ///
    /// If SwitchInfo of a switch changes anyway, that change includes a new MulticastFDBTop.
    pub fn diff(
        &mut self,
        inventory: &Inventory,
        plan: &Plan,
        changes: &mut Changes,
    ) -> Option<&'static str> {
        let multicast = plan.multicast.as_ref()?;
        let switches = self.switches(inventory, multicast);
        let whole = switches
            .is_none()
            .then_some("no multicast tables were compared before");
        let switches = switches.unwrap_or_else(|| {
            inventory
                .hardware
                .switches()
                .map(|(guid, _, _)| guid)
                .collect()
        });
        let mut of_all = cfg!(debug_assertions).then(|| changes.clone());
        self.compare(inventory, multicast, &switches, changes);
        if let Some(of_all) = &mut of_all {
            let all = inventory
                .hardware
                .switches()
                .map(|(guid, _, _)| guid)
                .collect();
            LastMulticastComparison::default().compare(inventory, multicast, &all, of_all);
            debug_assert_eq!(changes, of_all);
        }
        whole
    }

    /// The switches that may differ now; `None` if every switch may.
    fn switches(&self, inventory: &Inventory, multicast: &Multicast) -> Option<BTreeSet<Guid>> {
        let before = self.wanted.as_ref()?;
        let mut switches: BTreeSet<Guid> = inventory.hardware.written_since(self.mark).collect();
        switches.extend(&self.open);
        switches.extend(with_other_tables(before, multicast));
        if before.top().map(end_of_block) != multicast.top().map(end_of_block) {
            switches.extend(&self.unlimited);
        }
        Some(switches)
    }

    /// Compares `switches` with the plan, and adds their differences to `changes`.
    fn compare(
        &mut self,
        inventory: &Inventory,
        multicast: &Arc<Multicast>,
        switches: &BTreeSet<Guid>,
        changes: &mut Changes,
    ) {
        self.wanted = Some(multicast.clone());
        self.mark = inventory.hardware.mark();
        self.open.clear();
        for &guid in switches {
            self.unlimited.remove(&guid);
            let index = multicast.topology.switch_by_guid(guid);
            let table = index.and_then(|index| multicast.table(index));
            let node = inventory.hardware.node(guid);
            let record = node.and_then(|node| Some((node, node.switch.as_ref()?)));
            let (Some(table), Some((node, record))) = (table, record) else {
                continue;
            };
            let is_unlimited = extent(node, record) == Extent::Everything;
            if is_unlimited {
                self.unlimited.insert(guid);
            }
            let leads_to_host = |port| {
                let used = index.map(|index| multicast.topology.port_use(index, port));
                matches!(used, Some(PortUse::Destination(_)))
            };
            let mut change = diff_switch((node, record), table, multicast.top(), leads_to_host);
            if change.is_empty() {
                continue;
            }
            self.open.insert(guid);
            let merged = change.top.is_some() && is_unlimited;
            if merged && let Some(info) = pending_info(changes, guid) {
                // A lower MulticastFDBTop is safe at any time.
                change.top.take().inspect(|&top| {
                    info.set_multicast_fdb_top(top);
                });
            }
            if !change.is_empty() {
                changes.multicast.insert(guid, change);
            }
        }
    }
}

/// The switches whose planned table differs between `before` and `after`, which are both in the
/// order of GUIDs.
fn with_other_tables(before: &Multicast, after: &Multicast) -> Vec<Guid> {
    fn tables(of: &Multicast) -> impl Iterator<Item = (Guid, &Arc<Mft>)> {
        let switches = of.topology.switches().iter();
        switches.map(|switch| switch.guid).zip(&of.tables)
    }
    let mut former_tables = tables(before).peekable();
    let mut is_changed = |guid: Guid, table: &Arc<Mft>| {
        while former_tables
            .next_if(|&(former, _)| former < guid)
            .is_some()
        {}
        let former = former_tables.next_if(|&(former, _)| former == guid);
        !former.is_some_and(|(_, former)| Arc::ptr_eq(former, table))
    };
    let changed = tables(after).filter(|&(guid, table)| is_changed(guid, table));
    changed.map(|(guid, _)| guid).collect()
}

/// The SwitchInfo that the push writes to a switch; `None` if it writes none.
fn pending_info(changes: &mut Changes, guid: Guid) -> Option<&mut SwitchInfo> {
    changes.switches.get_mut(&guid)?.info.as_mut()
}

/// Whether a switch supports MulticastFDBTop.
fn knows_top(node: &InventoryNode, record: &InventorySwitch) -> bool {
    let zero = node.port(PortNum::ZERO).and_then(|port| port.info.as_ref());
    !record.forgets_multicast_top
        && zero.is_some_and(|info| {
            let capabilities = info.capability_mask();
            capabilities.contains(CapabilityMask::IS_MULTICAST_FDB_TOP_SUPPORTED)
        })
}

/// The part of its multicast table by which a switch forwards now.
fn extent(node: &InventoryNode, record: &InventorySwitch) -> Extent {
    match mft_image::extent(&record.info) {
        _ if !knows_top(node, record) => Extent::Everything,
        extent => extent,
    }
}

/// The change of one switch's multicast table. `plan_top` is the highest multicast LID of the plan;
/// `None` if the plan has no members. `leads_to_host` returns whether a port leads to no switch.
fn diff_switch(
    (node, record): (&InventoryNode, &InventorySwitch),
    table: &Mft,
    plan_top: Option<Lid>,
    leads_to_host: impl Fn(PortNum) -> bool,
) -> MulticastChange {
    let mut change = MulticastChange::default();
    let Some(last) = record.info.multicast_fdb_cap().checked_sub(1) else {
        return change;
    };
    let last = Lid(Lid::MULTICAST_FIRST
        .0
        .saturating_add(last)
        .min(LAST_MULTICAST.0));
    let needed = table.top().map_or(mft_image::NOTHING, end_of_block);
    let (in_effect, top) = match extent(node, record) {
        // Without multicast members and known masks, no limit is needed.
        Extent::Everything if plan_top.is_none() && record.mft.touched().next().is_none() => {
            return change;
        }
        Extent::Nothing => (mft_image::NOTHING, needed),
        Extent::UpTo(top) => (top, needed.max(top)),
        Extent::Everything => (LAST_MULTICAST, plan_top.map_or(needed, end_of_block)),
    };
    if knows_top(node, record) {
        let wanted = match extent(node, record) {
            Extent::Everything => needed,
            _ => top,
        };
        let wanted = wanted.min(last);
        change.top = (wanted != record.info.multicast_fdb_top()).then_some(wanted);
    }
    let positions = mft_image::positions(node.info.num_ports());
    let mut blocks: BTreeSet<MftBlock> =
        mft_image::blocks_up_to(top.min(last), positions).collect();
    let touched = record.mft.touched();
    blocks.extend(touched.filter(|&at| first_of(at) <= in_effect));
    for at in blocks {
        let wanted = table.block(usize::from(at.block), usize::from(at.position));
        if record.mft.holds(at, &wanted) {
            continue;
        }
        if first_of(at) > in_effect {
            change.blocks.push(at);
            continue;
        }
        let lids = losing_lids(&record.mft, at, &wanted, &leads_to_host);
        if lids != 0 {
            change.first.push(MulticastLoss { at, lids });
        }
        if lids == 0 || kept(&record.mft, at, &wanted) != wanted {
            change.blocks.push(at);
        }
    }
    change
}

/// The multicast LIDs of a block whose held masks have a port that `wanted` has not and that may
/// lead to a switch; all of them if the held block is unknown.
fn losing_lids(
    image: &MftImage,
    at: MftBlock,
    wanted: &[u16; BLOCK_MLIDS],
    leads_to_host: impl Fn(PortNum) -> bool,
) -> LidsOfBlock {
    if !image.is_known(at) {
        return LidsOfBlock::MAX;
    }
    let may_close_cycle = |lost: u16| {
        let mut ports = (0..u16::BITS as u8).filter(|bit| lost & (1 << bit) != 0);
        ports.any(|bit| !leads_to_host(PortNum(at.position * u16::BITS as u8 + bit)))
    };
    let held = image.block(at);
    let losing = (0..BLOCK_MLIDS).filter(|&index| may_close_cycle(held[index] & !wanted[index]));
    losing.fold(0, |lids, index| lids | 1 << index)
}

/// The highest multicast LID.
const LAST_MULTICAST: Lid = Lid(Lid::PERMISSIVE.0 - 1);

/// The first multicast LID of a block.
fn first_of(at: MftBlock) -> Lid {
    // A block number has nine bits, so the sum cannot overflow.
    Lid(Lid::MULTICAST_FIRST.0 + at.block * BLOCK_MLIDS as u16)
}

/// The last multicast LID of the block that contains `mlid`. MulticastFDBTop is rounded up to whole
/// blocks, so that a new group seldom changes it.
fn end_of_block(mlid: Lid) -> Lid {
    Lid(mlid.0 | (BLOCK_MLIDS as u16 - 1)).min(LAST_MULTICAST)
}
