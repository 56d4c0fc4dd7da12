//! The inputs of mastership other than events: the subnet as last read, and the state of the core.

use std::sync::Arc;

use rsm_gdr::host_order::HostPositions;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_plan::Plan;
use rsm_plan::lids::Claims;
use rsm_plan::policy::Policy;

/// The stage under way, as far as mastership needs to know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StageView {
    /// No stage is under way.
    Idle,
    /// A sweep.
    Sweeping {
        /// Whether the sweep only asks subnet managers for SMInfo.
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
    /// Whether the link of the own port is up, according to its driver.
    pub is_port_up: bool,
}

impl View<'_> {
    /// [`PortPolicy::guards_gets`](rsm_plan::policy::PortPolicy::guards_gets) of the policy in
    /// force.
    fn guards_gets(&self) -> bool {
        self.policy.ports.guards_gets()
    }

    /// Whether this manager probably lacks the M_Keys of the subnet: ports require keys for Gets,
    /// the own link is up, and only the own node answers. As master, this manager could write only
    /// its own port.
    pub(crate) fn is_shut_out(&self) -> bool {
        self.guards_gets() && self.inventory.is_alone_behind_a_link()
    }

    /// Whether [`View::is_shut_out`] may be true at the end of the sweep under way.
    pub(crate) fn may_be_shut_out(&self) -> bool {
        self.guards_gets() && self.inventory.hardware.len() == 1
    }
}
