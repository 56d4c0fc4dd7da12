//! Subnet managers that show themselves (IsSM) and do not answer SMInfo: stopped, or hanging.
//!
//! The silence of a manager says nothing about its host, whose other attributes the host's own agent
//! answers. So it counts against no node; each light sweep asks the manager again, and reads the
//! PortInfo that shows whether there still is one.

use std::collections::BTreeSet;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::PortKey;
use rsm_mad::wire::attr::CapabilityMask;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use super::election::cable_of;

/// The ports of silent managers.
#[derive(Default, Debug)]
pub(crate) struct SilentManagers {
    ports: BTreeSet<PortKey>,
    /// Those of the last published snapshot.
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

    /// Forgets managers that no longer show themselves in `inventory`. Returns whether others are
    /// silent than were published.
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

    /// The managers that show themselves and do not answer.
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
                cable_of(inventory, port)
            );
            let subject = Subject::Port(port);
            Finding::new(FindingKind::ManagerSilent, subject, Severity::Warning, text)
        })
    }
}
