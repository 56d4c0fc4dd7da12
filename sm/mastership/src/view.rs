//! The inputs beside events: the subnet as last read, and the state of the core.

use std::sync::Arc;

use rsm_gdr::host_order::HostPositions;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Lid, PortKey};
use rsm_plan::Plan;
use rsm_plan::lids::Claims;
use rsm_plan::policy::Policy;

/// The stage under way, as far as mastership needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StageView {
    /// No stage is under way.
    Idle,
    /// A sweep; the flag says whether it only asks subnet managers for SMInfo.
    Sweeping {
        /// Whether it only asks managers.
        asks_managers_only: bool,
    },
    /// An offer of the subnet to another manager waits for its answer.
    HandingOver,
    /// A plan or a push.
    Other,
}

/// The state of the core at an event.
pub struct View<'a> {
    /// The hardware, as last read and written.
    pub inventory: &'a mut Inventory,
    /// The policy of every plan.
    pub policy: &'a Policy,
    /// The plan in force; `None` if there is none.
    pub plan: Option<&'a Plan>,
    /// LIDs that plans have assigned.
    pub claims: &'a Arc<Claims>,
    /// Positions of compute ports in the host order.
    pub positions: &'a Arc<HostPositions>,
    /// The stage under way.
    pub stage: StageView,
    /// Number of SMPs from other agents answered so far, for ActCount.
    pub act_count: u32,
    /// Whether the last push left planned changes unwritten.
    pub is_push_open: bool,
    /// Whether the driver has reported no loss of the own port's link.
    pub is_port_up: bool,
}

impl View<'_> {
    /// The port that has `lid` by the plan in force, or, before there is one, by the last sweep.
    pub(crate) fn holder(&self, lid: Lid) -> Option<PortKey> {
        match self.plan {
            Some(plan) => plan.holder(self.inventory, lid),
            None => self.inventory.by_lid(lid),
        }
    }

    /// Whether ports require the M_Key for Gets as well, and each may have its own.
    fn guards_gets(&self) -> bool {
        self.policy.ports.guards_gets()
    }

    /// Whether only the own node answers, although the own link is up and ports require their keys:
    /// this manager knows none of the keys. As the master, it would write only its own port, as if
    /// there were no subnet behind it.
    pub(crate) fn is_shut_out(&self) -> bool {
        self.guards_gets() && self.inventory.is_alone_behind_a_link()
    }

    /// Whether [`View::is_shut_out`] may hold at the end of the sweep under way.
    pub(crate) fn may_be_shut_out(&self) -> bool {
        self.guards_gets() && self.inventory.len() == 1
    }
}
