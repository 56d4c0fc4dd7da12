//! Silent subnet managers: managers whose port shows IsSM, but which do not answer SMInfo because
//! they were stopped or hang.
//!
//! The silence of a manager does not count against its node, whose agent answers all other
//! attributes. Each light sweep asks the manager again, and reads PortInfo, which shows whether the
//! port still has a manager.

use std::collections::BTreeSet;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::PortKey;
use rsm_mad::wire::attr::CapabilityMask;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

/// The ports of silent managers.
#[derive(Default, Debug)]
pub(crate) struct SilentManagers {
    ports: BTreeSet<PortKey>,
    /// Ports in the last published snapshot.
    published: BTreeSet<PortKey>,
}

impl SilentManagers {
    /// Records whether the manager behind `port` answered.
    pub(crate) fn record(&mut self, port: PortKey, answered: bool) {
        match answered {
            true => self.ports.remove(&port),
            false => self.ports.insert(port),
        };
    }

    /// The ports of silent managers, in ascending order.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.ports.iter().copied()
    }

    /// Forgets managers whose port no longer shows IsSM in `inventory`. Returns whether the set of
    /// silent managers differs from the published one.
    pub(crate) fn follow(&mut self, inventory: &Inventory) -> bool {
        self.ports.retain(|&port| {
            let info = inventory
                .hardware
                .port(port)
                .and_then(|port| port.info.as_ref());
            info.is_some_and(|info| info.capability_mask().contains(CapabilityMask::IS_SM))
        });
        let is_news = self.ports != self.published;
        if is_news {
            self.published.clone_from(&self.ports);
        }
        is_news
    }

    /// Findings about the silent managers.
    pub(crate) fn findings<'a>(
        &'a self,
        inventory: &'a Inventory,
    ) -> impl Iterator<Item = Finding> + 'a {
        self.ports().map(|port| {
            let text = format!(
                "the subnet manager of {} ({}), {}, answers no SMInfo: its process is stopped or \
                 hangs, and may write the subnet when it resumes; let it resume, or end it",
                inventory.hardware.port_name(port),
                port.node,
                inventory.hardware.cable_of(port)
            );
            let subject = Subject::Port(port);
            Finding::new(FindingKind::ManagerSilent, subject, Severity::Warning, text)
        })
    }
}
