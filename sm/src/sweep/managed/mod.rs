//! Managed attributes: attributes of ports that are set block by block, where a block waits only for
//! the PortInfo of its port.
//!
//! An attribute is a file beside this one and a line of [`MANAGED`]: its planned blocks and their
//! content. The sweep reads the planned blocks that are not known, [`crate::diff`] compares, and
//! [`crate::push`] writes the difference.

mod extended_port;
mod guid_info;
mod rate_limits;
mod sl_to_vl;
mod vl_arbitration;

pub(super) use rate_limits::is_planned as is_rate_limit_planned;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::{Lid, PortKey};
use rsm_mad::wire::attr::{Attribute, SlToVlMapping};
use rsm_mad::wire::header::{AttrId, Status};

use super::inventory::{Inventory, InventoryPort};
use super::{Query, Sweep};
use crate::config::RateLimits;
use crate::habits::{DeviceHabit, DeviceKind};
use crate::model::image::BlockTable;
use crate::plan::Plan;
use crate::qos::Qos;

/// The content of a block.
pub type Content = [u8; 64];

/// A managed attribute.
#[derive(Debug)]
pub struct Managed {
    /// The attribute.
    pub attribute: AttrId,
    /// Why a block is written, for reports.
    pub reason: &'static str,
    /// What the planned content derives from, and so the ports that have any.
    pub origin: Origin,
    /// The modifier of a block of a port.
    modifier: fn(PortKey, u16) -> u32,
    /// Whether the agent shows the block by a Get: other blocks are unknown until they are written.
    is_readable: fn(u16) -> bool,
    /// The habit of devices that refuse the block, and get it no more.
    habit: fn(u16) -> Option<DeviceHabit>,
    /// The planned blocks of a port.
    blocks: fn(&Source<'_>, PortKey, &InventoryPort) -> BTreeSet<u16>,
    /// The planned content of a block of a port; `None` if none is planned.
    content: fn(&Source<'_>, PortKey, &InventoryPort, u16) -> Option<Content>,
    /// Whether the first content is as good as the second: read-only parts do not count.
    agrees: fn(u16, &Content, &Content) -> bool,
}

/// What the content of a managed attribute derives from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Requests of hosts to the SA: end ports have it. A block that was once read or written stays
    /// planned.
    Hosts,
    /// The operator's tables for quality of service: any port whose link is up has it, and holds it
    /// before its link becomes Active.
    Qos,
    /// The operator's limits of rates: ports of adapters that show the capability, and their virtual
    /// ports, have them. No block is planned before it was read, because other fields stay.
    RateLimits,
    /// Choices about the vendor's features: ports whose ExtendedPortInfo was read have them, where
    /// it differs.
    Extended,
}

/// The state that planned blocks and their content derive from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The state of the hardware, and the alias GUIDs.
    pub inventory: &'a Inventory,
    /// The operator's tables for quality of service, if that is on.
    pub qos: Option<&'a Qos>,
    /// The operator's limits of rates, if there are any.
    pub rate_limits: Option<&'a RateLimits>,
    /// Whether SLtoVLMappingTables of switches are those that the engine needs.
    pub engine_has_lanes: bool,
    /// Whether ports may train to FDR10; `None`: as their devices have it.
    pub fdr10: Option<bool>,
    /// Whether aggregation nodes may work; `None`: as they are.
    pub aggregation_nodes: Option<bool>,
    /// The service levels on which packets may arrive out of order; `None`: adapters keep theirs.
    pub out_of_order_sls: Option<u16>,
}

impl<'a> Source<'a> {
    /// For sweeps.
    pub fn of_sweep(inventory: &'a Inventory) -> Source<'a> {
        Source {
            inventory,
            qos: inventory.qos.as_deref(),
            rate_limits: inventory.rate_limits.as_deref(),
            engine_has_lanes: inventory.reads_sl2vl,
            // The sweep reads ExtendedPortInfo by itself.
            fdr10: None,
            aggregation_nodes: None,
            out_of_order_sls: None,
        }
    }

    /// For `plan`.
    pub fn of_plan(inventory: &'a Inventory, plan: &'a Plan) -> Source<'a> {
        Source {
            inventory,
            qos: plan.policy.qos.as_deref(),
            rate_limits: plan.policy.rate_limits.as_deref(),
            engine_has_lanes: !plan.routing.lanes.is_single(),
            fdr10: plan.policy.ports.links.fdr10.enables(),
            aggregation_nodes: plan.policy.aggregation_nodes,
            out_of_order_sls: {
                let adaptive = &plan.policy.adaptive;
                adaptive.is_on().then_some(adaptive.sls)
            },
        }
    }

    /// For alias GUIDs alone.
    pub fn of_hosts(inventory: &'a Inventory) -> Source<'a> {
        Source {
            inventory,
            qos: None,
            rate_limits: None,
            engine_has_lanes: false,
            fdr10: None,
            aggregation_nodes: None,
            out_of_order_sls: None,
        }
    }

    /// The planned blocks of a port, and those read or written that stay planned.
    pub fn blocks(&self, key: PortKey, origin: Origin) -> BTreeSet<BlockKey> {
        let Some(port) = self.inventory.port(key) else {
            return BTreeSet::new();
        };
        let mut blocks: BTreeSet<BlockPlace> = BTreeSet::new();
        if origin == Origin::Hosts {
            let touched = port.managed.touched();
            blocks.extend(touched.filter(|place| place.managed().origin == origin));
        }
        for (attribute, managed) in (0..).zip(MANAGED) {
            if managed.origin == origin {
                let wanted = (managed.blocks)(self, key, port).into_iter();
                let wanted = wanted.filter(|&block| !self.is_refused(key, managed, block));
                blocks.extend(wanted.map(|block| BlockPlace { attribute, block }));
            }
        }
        let keys = blocks.into_iter();
        keys.map(|place| BlockKey { port: key, place }).collect()
    }

    /// The planned blocks for quality of service that a port gives to other ports of its node.
    fn blocks_of_others(&self, key: PortKey) -> BTreeSet<BlockKey> {
        let position = MANAGED.iter().zip(0..);
        let position = position.filter(|(managed, _)| managed.attribute == SlToVlMapping::ID);
        let attributes: Vec<u8> = position.map(|(_, attribute)| attribute).collect();
        let blocks = sl_to_vl::from_input(self, key).into_iter();
        let keys = blocks.flat_map(|(port, block)| {
            attributes.iter().map(move |&attribute| BlockKey {
                port,
                place: BlockPlace { attribute, block },
            })
        });
        keys.filter(|block| {
            let managed = block.place.managed();
            !self.is_refused(block.port, managed, block.place.block)
        })
        .collect()
    }

    /// The planned content of a block; `None` if none is planned.
    pub fn content(&self, key: BlockKey) -> Option<Content> {
        let port = self.inventory.port(key.port)?;
        (key.place.managed().content)(self, key.port, port, key.place.block)
    }

    fn is_refused(&self, key: PortKey, managed: &Managed, block: u16) -> bool {
        let habit = (managed.habit)(block);
        habit.is_some_and(|habit| self.inventory.has_habit(key, habit))
    }
}

/// Every managed attribute.
pub static MANAGED: &[Managed] = &[
    guid_info::GUID_INFO,
    extended_port::EXTENDED_PORT,
    vl_arbitration::VL_ARBITRATION,
    sl_to_vl::SL_TO_VL,
    rate_limits::RATE_LIMITS,
];

/// A block of a managed attribute of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockKey {
    /// The port.
    pub port: PortKey,
    /// The attribute and block.
    pub place: BlockPlace,
}

/// A block of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockPlace {
    /// Index of the attribute in [`MANAGED`].
    attribute: u8,
    /// Number of the block.
    pub block: u16,
}

impl BlockPlace {
    /// The attribute.
    pub fn managed(self) -> &'static Managed {
        &MANAGED[usize::from(self.attribute)]
    }
}

impl BlockKey {
    /// The attribute.
    pub fn attribute(self) -> AttrId {
        self.place.managed().attribute
    }

    /// The modifier of the block.
    pub fn modifier(self) -> u32 {
        (self.place.managed().modifier)(self.port, self.place.block)
    }

    /// Whether the block has limits of rates.
    pub fn is_rate_limit(self) -> bool {
        self.place.managed().origin == Origin::RateLimits
    }

    /// The index of the virtual port that the block is of, if it is of one.
    pub fn vport(self) -> Option<u16> {
        let is_of_vport = self.is_rate_limit();
        is_of_vport
            .then(|| rate_limits::vport(self.place.block))
            .flatten()
    }

    /// Whether a refusal with this status says that the kind of device does not have the attribute.
    /// A virtual port may have gone meanwhile.
    pub fn is_habit_by(self, status: Status) -> bool {
        self.vport().is_none() || status == Status::UNSUPPORTED_METHOD_ATTRIBUTE
    }

    /// The block with the limits of a port, or of the virtual port at an index of it.
    pub fn rate_limits(port: PortKey, vport: Option<u16>) -> BlockKey {
        let mut attributes = MANAGED.iter().zip(0..);
        let found = attributes.find(|(managed, _)| managed.origin == Origin::RateLimits);
        // The table has it.
        let attribute = found.map_or(0, |(_, attribute)| attribute);
        let block = rate_limits::block(vport);
        BlockKey {
            port,
            place: BlockPlace { attribute, block },
        }
    }

    /// Whether the block belongs to quality of service.
    pub fn is_qos(self) -> bool {
        self.place.managed().origin == Origin::Qos
    }
}

/// The managed attributes of a port.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ManagedBlocks(BTreeMap<BlockPlace, Arc<Content>>);

impl ManagedBlocks {
    /// The content of a block, as last known.
    pub fn block(&self, place: BlockPlace) -> Option<&Content> {
        self.0.get(&place).map(|content| &**content)
    }
}

impl BlockTable for ManagedBlocks {
    type Place = BlockPlace;
    type Block = Content;

    fn has_block(&self, place: BlockPlace, wanted: &Content) -> bool {
        let agrees = place.managed().agrees;
        let held = self.0.get(&place);
        held.is_some_and(|held| agrees(place.block, held, wanted))
    }

    fn set_block(&mut self, place: BlockPlace, content: &Content) {
        // The tables of a port have the same content for most inputs: it is kept once.
        let like = (self.0.values().rev())
            .find(|held| ***held == *content)
            .cloned();
        let content = like.unwrap_or_else(|| Arc::new(*content));
        self.0.insert(place, content);
    }
}

impl Inventory {
    /// Whether the kind of device that has this port has a habit.
    fn has_habit(&self, key: PortKey, habit: DeviceHabit) -> bool {
        self.node(key.node).is_some_and(|node| {
            let kind = DeviceKind::of(&node.info, key.port);
            self.habits.has(kind, habit)
        })
    }

    /// Learns that the kind of device that has the block's port does not take the block, if that
    /// has a habit. Returns whether it has.
    pub fn learn_refused_block(&mut self, key: BlockKey) -> bool {
        let Some(habit) = (key.place.managed().habit)(key.place.block) else {
            return false;
        };
        if let Some(node) = self.node(key.port.node) {
            let kind = DeviceKind::of(&node.info, key.port.port);
            self.habits.learn(kind, habit);
        }
        self.note_managed(key.port);
        true
    }
}

impl Sweep {
    /// After a port answered: asks for the planned blocks that are not known.
    pub(super) fn see_managed(&mut self, inventory: &Inventory, port: PortKey) {
        let source = Source::of_sweep(inventory);
        let audit = self.audits(port);
        let mut blocks = source.blocks(port, Origin::Hosts);
        if was_managed(inventory, port) {
            blocks.extend(source.blocks(port, Origin::Qos));
            blocks.extend(source.blocks_of_others(port));
        }
        for key in blocks {
            let managed = key.place.managed();
            let record = inventory.port(key.port);
            let is_known = record.is_some_and(|record| record.managed.is_known(key.place));
            let again = audit && key.is_qos();
            if (managed.is_readable)(key.place.block) && (again || !is_known) {
                self.ask(Query::Managed(key));
            }
        }
    }

    pub(super) fn on_managed(&mut self, inventory: &mut Inventory, key: BlockKey, data: &Content) {
        if key.is_rate_limit() {
            inventory.rate_limits_answered(key);
        }
        if let Some(port) = inventory.port_mut(key.port) {
            // The comparison has new content.
            self.changed = true;
            port.managed.store(key.place, data);
            inventory.note_managed(key.port);
        }
    }

    /// Handles an agent that refuses to show a block. Returns whether that is a habit of its kind.
    pub(super) fn on_managed_refused(inventory: &mut Inventory, key: BlockKey) -> bool {
        inventory.learn_refused_block(key)
    }
}

/// Whether a manager has set the port up: a push writes the tables of a fresh one unread.
fn was_managed(inventory: &Inventory, key: PortKey) -> bool {
    let Some(node) = inventory.node(key.node) else {
        return false;
    };
    match &node.switch {
        Some(switch) => switch.info.linear_fdb_top() != Lid::NONE,
        None => {
            let info = node.port(key.port).and_then(|port| port.info.as_ref());
            info.is_some_and(|info| info.lid() != Lid::NONE)
        }
    }
}

#[cfg(test)]
mod tests {
    use rsm_mad::wire::attr::GuidInfo;

    use super::*;
    use crate::model::image::Image;

    fn place(attribute: AttrId, block: u16) -> BlockPlace {
        let position = MANAGED.iter().position(|one| one.attribute == attribute);
        let attribute = position.expect("it is managed") as u8;
        BlockPlace { attribute, block }
    }

    #[test]
    fn an_attribute_is_managed_once() {
        let attributes: BTreeSet<AttrId> = MANAGED.iter().map(|one| one.attribute).collect();
        assert_eq!(attributes.len(), MANAGED.len());
    }

    #[test]
    fn own_guid_of_a_port_does_not_count() {
        let mut image: Image<ManagedBlocks> = Image::default();
        let mut other_own = [0; 64];
        other_own[..8].copy_from_slice(&[9; 8]);
        for block in [0, 1] {
            image.store(place(GuidInfo::ID, block), &other_own);
        }
        assert!(image.holds(place(GuidInfo::ID, 0), &[0; 64]));
        assert!(!image.holds(place(GuidInfo::ID, 1), &[0; 64]));
    }
}
