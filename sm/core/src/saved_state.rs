//! The state of the core that is kept over a restart.

use std::sync::Arc;

use rsm_config::m_keys::Generations;
use rsm_config::overlay::Overlay;
use rsm_gdr::host_order::HostPositions;
use rsm_gdr::hosts::GpuInventory;
use rsm_hardware::diff::NotKept;
use rsm_ids::PortKey;
use rsm_model::alias_guids::AliasGuids;
use rsm_model::capabilities::DeviceCapabilities;
use rsm_model::expected::Cabling;
use rsm_model::footprint::Footprints;
use rsm_model::habits::DeviceHabits;
use rsm_monitor::health::SavedHealth;
use rsm_plan::avoid::Avoid;
use rsm_plan::lids::Claims;
use rsm_routing::adaptive::GroupIds;

/// State kept from an earlier run.
#[derive(Clone, Default, Debug)]
pub struct SavedCoreState {
    /// Assigned LIDs, by port.
    pub claims: Arc<Claims>,
    /// Positions of compute ports in the host order.
    pub positions: Arc<HostPositions>,
    /// GPU inventories of hosts, which the core does not store itself.
    pub gpus: Arc<GpuInventory>,
    /// Alias GUIDs of ports, when the epoch is granted. Empty at a start: the SA stores the alias
    /// GUIDs, and reports them to the core.
    pub alias_guids: Arc<AliasGuids>,
    /// Fields that kinds of devices do not keep.
    pub not_kept: NotKept,
    /// Deviations of devices from the specification.
    pub habits: DeviceHabits,
    /// Capabilities of device types.
    pub capabilities: Arc<DeviceCapabilities>,
    /// Numbers of the groups of leaves for adaptive routing.
    pub group_ids: GroupIds,
    /// The generations of the M_Keys of ports.
    pub generations: Generations,
    /// This manager's own port, which only the store of this machine has.
    pub local: Option<PortKey>,
    /// The cabling, and its missing parts.
    pub cabling: Cabling,
    /// Nodes and cables that routes avoid; only drained nodes and cables are stored.
    pub avoid: Arc<Avoid>,
    /// The state of unhealthy ports.
    pub health: Arc<SavedHealth>,
    /// Partitions made through the API.
    pub overlay: Arc<Overlay>,
    /// Number of the last plan.
    pub generation: u64,
    /// Footprints of the last plans; kept only if a store is shared.
    pub footprints: Footprints,
    /// Whether a push was under way; kept only if a store is shared.
    pub is_pushing: bool,
    /// Whether the store lost the registrations of hosts with the SA, so that hosts must register
    /// again once.
    pub reregister: bool,
}
