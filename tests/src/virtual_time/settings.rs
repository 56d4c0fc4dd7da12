//! Settings of a world, besides its netlist.

use std::sync::Arc;
use std::time::Duration;

use rsm_core::CoreConfig;
use rsm_plan::policy::Policy;
use rsm_sim::SimConfig;
use rsm_state::Identity;

/// The settings of a world, besides its netlist.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The hardware.
    pub sim: SimConfig,
    /// The configuration of every subnet manager.
    pub core: CoreConfig,
    /// The time that a plan takes.
    pub planning_time: Duration,
    /// Whether the host times out requests itself and drops late answers, as the kernel does behind
    /// umad.
    pub kernel_timeouts: bool,
    /// Whether the host gets an event immediately when its link comes up or goes down. Otherwise
    /// the host has to poll, as behind umad without the adapter's events: see
    /// [`World::poll_ports`](super::World::poll_ports).
    pub port_events: bool,
    /// The seed of the hardware's faults.
    pub seed: u64,
}

impl Settings {
    /// Settings for managers that share a store and manage the subnet. With `floating_lid`, the
    /// master's LID is the same wherever the master runs.
    #[must_use]
    pub fn sharing(floating_lid: bool) -> Settings {
        let mut settings = Settings::of(Policy {
            floating_lid,
            ..Policy::default()
        });
        settings.core.mastership.identity = Identity {
            priority: 5,
            sm_key: 1,
        };
        settings.core.mastership.master_priority = 14;
        settings.core.mastership.shares_store = true;
        settings
    }

    /// Settings for managers with this policy.
    #[must_use]
    pub fn of(policy: Policy) -> Settings {
        let core = CoreConfig {
            policy: Arc::new(policy),
            ..CoreConfig::default()
        };
        Settings {
            core,
            ..Settings::default()
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sim: SimConfig::default(),
            core: CoreConfig::default(),
            planning_time: Duration::from_millis(1),
            kernel_timeouts: true,
            port_events: true,
            seed: 1,
        }
    }
}
