//! The planned blocks of managed attributes, and their content.
//!
//! Content derives from a [`Source`]. Each attribute has a file in this folder;
//! [`rsm_model::managed`] has the state of blocks on devices.

mod extended_port;
mod guid_info;
mod rate_limits;
mod sl_to_vl;
mod vl_arbitration;

use std::collections::BTreeSet;

use rsm_config::RateLimits;
use rsm_ids::PortKey;
use rsm_model::alias_guids::AliasGuids;
use rsm_model::managed::{BlockKey, BlockPlace, Content, ManagedAttribute, Origin};
use rsm_model::{Hardware, InventoryPort};

use crate::plan::Plan;
use crate::qos::Qos;

/// The planned part of a managed attribute: blocks and content.
struct Planned {
    /// The numbers of the planned blocks of a port.
    blocks: fn(&Source<'_>, PortKey, &InventoryPort) -> BTreeSet<u16>,
    /// The planned content of a block of a port; `None` if none is planned.
    content: fn(&Source<'_>, PortKey, &InventoryPort, u16) -> Option<Content>,
}

/// The planned part of `attribute`.
fn planned(attribute: ManagedAttribute) -> &'static Planned {
    match attribute {
        ManagedAttribute::GuidInfo => &guid_info::GUID_INFO,
        ManagedAttribute::ExtendedPort => &extended_port::EXTENDED_PORT,
        ManagedAttribute::VlArbitration => &vl_arbitration::VL_ARBITRATION,
        ManagedAttribute::SlToVl => &sl_to_vl::SL_TO_VL,
        ManagedAttribute::RateLimits => &rate_limits::RATE_LIMITS,
    }
}

/// The inputs of planned blocks and their content.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The state of the hardware.
    pub hardware: &'a Hardware,
    /// The planned alias GUIDs.
    pub alias_guids: &'a AliasGuids,
    /// The operator's QoS tables; `None` if QoS is off.
    pub qos: Option<&'a Qos>,
    /// The operator's rate limits; `None` if there are none.
    pub rate_limits: Option<&'a RateLimits>,
    /// Whether the engine determines the SLtoVLMappingTables of switches.
    pub engine_has_lanes: bool,
    /// Whether ports may train to FDR10; `None` to keep the devices' setting.
    pub fdr10: Option<bool>,
    /// Whether aggregation nodes are enabled; `None` to keep the devices' setting.
    pub aggregation_nodes: Option<bool>,
    /// Mask of the service levels on which packets may arrive out of order; `None` to keep the
    /// adapters' setting.
    pub out_of_order_sls: Option<u16>,
}

impl<'a> Source<'a> {
    /// The source for the blocks of `plan`.
    pub fn of_plan(
        hardware: &'a Hardware,
        alias_guids: &'a AliasGuids,
        plan: &'a Plan,
    ) -> Source<'a> {
        Source {
            hardware,
            alias_guids,
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

    /// The source for alias GUIDs alone.
    pub fn of_hosts(hardware: &'a Hardware, alias_guids: &'a AliasGuids) -> Source<'a> {
        Source {
            hardware,
            alias_guids,
            qos: None,
            rate_limits: None,
            engine_has_lanes: false,
            fdr10: None,
            aggregation_nodes: None,
            out_of_order_sls: None,
        }
    }

    /// The planned blocks of a port, of attributes with this origin. Wanted blocks that the device
    /// is known to refuse are left out. For [`Origin::Hosts`], blocks that were read or written
    /// before stay planned.
    pub fn blocks(&self, key: PortKey, origin: Origin) -> BTreeSet<BlockKey> {
        let Some(port) = self.hardware.port(key) else {
            return BTreeSet::new();
        };
        let mut blocks: BTreeSet<BlockPlace> = BTreeSet::new();
        if origin == Origin::Hosts {
            let touched = port.managed.touched();
            blocks.extend(touched.filter(|place| place.managed().origin == origin));
        }
        let attributes = ManagedAttribute::ALL.into_iter();
        for attribute in attributes.filter(|one| one.managed().origin == origin) {
            let wanted = (planned(attribute).blocks)(self, key, port).into_iter();
            let wanted = wanted.map(|block| BlockPlace { attribute, block });
            blocks.extend(wanted.filter(|&place| !self.is_refused(key, place)));
        }
        let keys = blocks.into_iter();
        keys.map(|place| BlockKey { port: key, place }).collect()
    }

    /// The planned QoS blocks of other ports of the same node that depend on this port.
    pub fn blocks_of_others(&self, key: PortKey) -> BTreeSet<BlockKey> {
        let attribute = ManagedAttribute::SlToVl;
        let blocks = sl_to_vl::from_input(self, key).into_iter();
        let keys = blocks.map(|(port, block)| BlockKey {
            port,
            place: BlockPlace { attribute, block },
        });
        keys.filter(|block| !self.is_refused(block.port, block.place))
            .collect()
    }

    /// The planned content of a block; `None` if none is planned.
    pub fn content(&self, key: BlockKey) -> Option<Content> {
        let port = self.hardware.port(key.port)?;
        (planned(key.place.attribute).content)(self, key.port, port, key.place.block)
    }

    fn is_refused(&self, key: PortKey, place: BlockPlace) -> bool {
        let habit = place.habit();
        habit.is_some_and(|habit| self.hardware.has_habit(key, habit))
    }
}
