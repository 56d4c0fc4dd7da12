//! The state of this subnet manager's own port, according to its driver and the last sweep.

use rsm_hardware::sweep::Query;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_mad::wire::attr::PortState;
use rsm_model::InventoryPort;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

/// State of the own port, from events of its driver.
#[derive(Debug)]
pub(super) struct LocalPort {
    is_up: bool,
    /// Whether the port fell back to Init, and no pass has read it since.
    has_retrained: bool,
}

impl Default for LocalPort {
    fn default() -> LocalPort {
        LocalPort {
            is_up: true,
            has_retrained: false,
        }
    }
}

impl LocalPort {
    /// Whether the link is up according to the driver; true until the driver reports a loss.
    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether the port can send datagrams. Considers the last sweep as well, because the driver
    /// reports only changes after a start.
    pub(super) fn is_usable(&self, inventory: &Inventory) -> bool {
        let own = inventory.own_port();
        self.is_up && own.and_then(InventoryPort::state) != Some(PortState::Down)
    }

    /// Records that the link came up.
    pub(super) fn came_up(&mut self) {
        *self = LocalPort::default();
    }

    /// Records that the link went down.
    pub(super) fn went_down(&mut self) {
        self.is_up = false;
    }

    /// Records that the port fell back to Init and its link trained again.
    pub(super) fn trained_again(&mut self) {
        self.has_retrained = true;
    }

    /// Records the end of a pass that read the port. Returns whether a finding ends.
    pub(super) fn record_reading(&mut self) -> bool {
        std::mem::take(&mut self.has_retrained)
    }

    /// The finding about the own port if it is down or was reset; else `None`.
    pub(super) fn finding(&self, inventory: &Inventory) -> Option<Finding> {
        let local = inventory.hardware.local?;
        let is_silent = inventory
            .faults
            .owed()
            .any(|query| query == Query::Node(None));
        let what = match (self.is_usable(inventory), self.has_retrained) {
            _ if is_silent => {
                "does not answer: rsm cannot read the whole subnet; the last reading and its findings stay, and it is asked \
                 again; reset the adapter"
            }
            (false, _) => {
                "is down: the subnet keeps its routes, and rsm repairs no fault; it goes on by itself when the link is up; \
                 check the cable and the switch at its other end"
            }
            (true, true) => {
                "fell back to Init: nothing reaches this host, and the switch at its other end may have lost its tables; it is read again"
            }
            (true, false) => return None,
        };
        let text = format!(
            "port {} of this subnet manager, at {}, {what}",
            local.port,
            inventory.hardware.name(local.node)
        );
        let subject = Subject::Port(local);
        let kind = FindingKind::LocalPort;
        Some(Finding::new(kind, subject, Severity::Error, text))
    }
}
