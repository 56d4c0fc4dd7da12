//! Subnet managers that are visible (IsSM) and do not answer SMInfo, because they were stopped or
//! hang.
//!
//! A manager's silence says nothing about its host, whose other attributes the host's agent
//! answers. So it does not count against a node. Each light sweep asks the manager again, and reads
//! the PortInfo that shows whether there still is one.

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
    pub(crate) fn note(&mut self, port: PortKey, answered: bool) {
        match answered {
            true => self.ports.remove(&port),
            false => self.ports.insert(port),
        };
    }

    /// The ports, in their order.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.ports.iter().copied()
    }

    /// Forgets managers that are no longer visible in `inventory`. Returns whether the silent ones
    /// differ from the published ones.
    pub(crate) fn follow(&mut self, inventory: &Inventory) -> bool {
        self.ports.retain(|&port| {
            let info = inventory.port(port).and_then(|port| port.info.as_ref());
            info.is_some_and(|info| info.capability_mask().contains(CapabilityMask::IS_SM))
        });
        let is_news = self.ports != self.published;
        if is_news {
            self.published.clone_from(&self.ports);
        }
        is_news
    }

    /// Findings about visible managers that do not answer.
    pub(crate) fn findings<'a>(
        &'a self,
        inventory: &'a Inventory,
    ) -> impl Iterator<Item = Finding> + 'a {
        self.ports().map(|port| {
            let text = format!(
                "the subnet manager of {} ({}), {}, answers no SMInfo: its process is stopped or \
                 hangs, and may write the subnet when it goes on; let it go on, or end it",
                inventory.port_name(port),
                port.node,
                inventory.cable_of(port)
            );
            let subject = Subject::Port(port);
            Finding::new(FindingKind::ManagerSilent, subject, Severity::Warning, text)
        })
    }
}
