//! The settings that decide which attributes a sweep reads.

use std::sync::Arc;

use rsm_config::RateLimits;
use rsm_plan::managed::Source;
use rsm_plan::qos::Qos;

use super::inventory::Inventory;

/// The attributes that a sweep reads in addition to nodes, ports and forwarding tables.
#[derive(Clone, Debug, Default)]
pub struct SweepPolicy {
    /// Whether SLtoVLMappingTables are read, because the engine in use may need them.
    pub reads_sl2vl: bool,
    /// Whether capabilities of devices are read (`sweep.capabilities`).
    pub asks_capabilities: bool,
    /// Whether the error correction of links is read (`sweep.error_correction`).
    pub reads_error_correction: bool,
    /// Whether groups and entries of adaptive routing are read (`routing.adaptive`).
    pub routes_adaptively: bool,
    /// The operator's QoS tables; `None` while QoS is off.
    pub qos: Option<Arc<Qos>>,
    /// The operator's rate limits, for which QoSConfigSL is read; `None` if there are none.
    pub rate_limits: Option<Arc<RateLimits>>,
}

impl SweepPolicy {
    /// The source of planned blocks, as far as sweeps need it.
    pub(super) fn source<'a>(&'a self, inventory: &'a Inventory) -> Source<'a> {
        Source {
            hardware: &inventory.hardware,
            alias_guids: &inventory.alias_guids,
            qos: self.qos.as_deref(),
            rate_limits: self.rate_limits.as_deref(),
            engine_has_lanes: self.reads_sl2vl,
            // The sweep has a rule of its own for ExtendedPortInfo: see `extended_port`.
            fdr10: None,
            aggregation_nodes: None,
            out_of_order_sls: None,
        }
    }
}
