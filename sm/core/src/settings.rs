//! The settings of the core.

use std::sync::Arc;
use std::time::Duration;

use rsm_config::{CongestionPolicy, HealthPolicy, Takeover};
use rsm_hardware::sweep::SweepPolicy;
use rsm_mad::client::ClientConfig;
use rsm_mastership::MastershipPolicy;
use rsm_model::NodeNames;
use rsm_model::design::Design;
use rsm_plan::policy::{DampingPolicy, Policy, RebalancePolicy};

/// Whether the core writes a plan or only lists its Sets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Mode {
    /// Writes the plan to the hardware.
    #[default]
    Manage,
    /// Lists the Sets of the plan ([`Effect::Foreseen`](crate::Effect::Foreseen)). The core sends
    /// no Sets, sends nothing to other subnet managers, and leaves traps to the master.
    DryRun,
}

/// The operator's settings, as far as the core depends on them.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// Whether plans are written, or only listed.
    pub mode: Mode,
    /// Policy of every plan.
    pub policy: Arc<Policy>,
    /// When a link counts as flapping, and how long it is then avoided.
    pub damping: DampingPolicy,
    /// When a link counts as unhealthy, and what the core does about it.
    pub health: HealthPolicy,
    /// When and how the load of the fullest links is reduced.
    pub rebalance: RebalancePolicy,
    /// Which tables written by another manager count as held.
    pub takeover: Takeover,
    /// The election, and the shared store.
    pub mastership: MastershipPolicy,
    /// Time between light sweeps; zero for none.
    pub light_sweep: Duration,
    /// Whether a trap makes the core read the node that changed.
    pub reads_on_trap: bool,
    /// Whether capabilities of devices are read and used (`sweep.capabilities`).
    pub asks_capabilities: bool,
    /// Whether the error correction of links is read (`sweep.error_correction`).
    pub reads_error_correction: bool,
    /// Whether virtual ports of hosts are managed (`sm.virtualization`).
    pub manages_vports: bool,
    /// The settings of congestion control.
    pub congestion: Arc<CongestionPolicy>,
    /// Whether the first plan of this run gives every port a new LID (`lids.reassign`). Used only
    /// at the start.
    pub reassigns_lids: bool,
    /// Windows, time-outs and retries of SMPs.
    pub client: ClientConfig,
    /// The operator's names of nodes.
    pub names: Arc<NodeNames>,
    /// Cables of the design file; empty without a design.
    pub design: Arc<Design>,
}

impl CoreConfig {
    /// The policy of sweeps: the attributes that they read.
    pub(super) fn sweep_policy(&self) -> SweepPolicy {
        SweepPolicy {
            reads_sl2vl: self.policy.may_need_lanes(),
            asks_capabilities: self.asks_capabilities,
            reads_error_correction: self.reads_error_correction,
            routes_adaptively: self.policy.adaptive.is_on(),
            qos: self.policy.qos.clone(),
            rate_limits: self.policy.rate_limits.clone(),
        }
    }
}

impl Default for CoreConfig {
    fn default() -> Self {
        CoreConfig {
            mode: Mode::default(),
            policy: Arc::default(),
            damping: DampingPolicy::default(),
            health: HealthPolicy::default(),
            rebalance: RebalancePolicy::default(),
            takeover: Takeover::default(),
            mastership: MastershipPolicy::default(),
            light_sweep: Duration::from_secs(10),
            reads_on_trap: true,
            asks_capabilities: false,
            reads_error_correction: false,
            manages_vports: false,
            congestion: Arc::default(),
            reassigns_lids: false,
            client: ClientConfig::default(),
            names: Arc::default(),
            design: Arc::default(),
        }
    }
}
