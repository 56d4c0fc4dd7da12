//! State of the election (IBA 14.4.1) that is kept between sweeps.
//!
//! ```text
//!               DISABLE                 HANDOVER, DISCOVER, silence of the master
//! NotActive ◀──────────── Standby ────────────────────────────────────────────▶ Discovering ─▶ Master
//!     └──── STANDBY ────────▶ ▲                                                        HANDOVER  │
//!                             └──────────────────────────────────────────────────────────────────┘
//! ```

use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_state::{Other, Role};

use crate::orders::Orders;
use crate::silent_managers::SilentManagers;

/// Time for which the subnet is not offered again to a manager that refused it.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// Election state kept between sweeps.
#[derive(Debug)]
pub(crate) struct Election {
    /// The role of this manager.
    pub(crate) role: Role,
    /// The manager that has just handed over; `None` without a recent handover. Its SMInfo does not
    /// count until the next sweep has read it again.
    pub(crate) predecessor: Option<Guid>,
    /// The manager that refused the subnet, and the time until which the subnet is not offered to
    /// it again.
    refused: Option<(Guid, Time)>,
    /// Number of traps sent to masters; also the transaction ID of the last one.
    traps: u64,
    /// Number of successive polls that the master has not answered.
    pub(crate) silent_polls: u32,
    /// Whether this manager becomes NotActive at the end of its first sweep.
    pub(crate) starts_inactive: bool,
    /// Other masters that have not handed over yet although this manager has precedence.
    pub(crate) rivals: Vec<Other>,
    /// Managers that are visible (IsSM) and do not answer SMInfo.
    pub(crate) silent: SilentManagers,
    /// SMInfo orders from other managers to this manager.
    pub(crate) orders: Orders,
}

impl Election {
    pub(crate) fn new(starts_inactive: bool) -> Election {
        Election {
            role: Role::Discovering,
            predecessor: None,
            refused: None,
            traps: 0,
            silent_polls: 0,
            starts_inactive,
            rivals: Vec::new(),
            silent: SilentManagers::default(),
            orders: Orders::default(),
        }
    }

    /// Whether the manager with this GUID refused the subnet a short time ago.
    pub(crate) fn has_refused(&self, manager: Guid, now: Time) -> bool {
        let refused = self.refused;
        refused.is_some_and(|(guid, until)| guid == manager && now < until)
    }

    /// Records that a manager refused the subnet.
    pub(crate) fn record_refusal(&mut self, manager: Guid, now: Time) {
        self.refused = Some((manager, now + REFUSED_FOR));
    }

    /// Transaction ID of the next trap to a master.
    pub(crate) fn next_trap(&mut self) -> u64 {
        self.traps += 1;
        self.traps
    }
}
