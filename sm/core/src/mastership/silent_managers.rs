//! Subnet managers that show themselves (IsSM) and do not answer SMInfo: stopped, or hanging.
//!
//! The silence of a manager says nothing about its host, whose other attributes the host's own agent
//! answers. So it counts against no node; each light sweep asks the manager again, and reads the
//! PortInfo that shows whether there still is one.

use std::collections::BTreeSet;

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mad::wire::attr::CapabilityMask;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use crate::Core;

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
}

impl Core {
    /// Forgets silent managers that no longer show themselves, and publishes what has changed.
    pub(crate) fn mind_silent_managers(&mut self, now: Time) {
        let inventory = &self.inventory;
        let shows_itself = |&port: &PortKey| {
            let info = inventory.port(port).and_then(|port| port.info.as_ref());
            info.is_some_and(|info| info.capability_mask().contains(CapabilityMask::IS_SM))
        };
        let silent = &mut self.election.silent;
        silent.ports.retain(shows_itself);
        if silent.ports != silent.published {
            silent.published.clone_from(&silent.ports);
            self.publish(now);
        }
    }

    /// The managers that show themselves and do not answer.
    pub(crate) fn findings_of_silent_managers(&self) -> impl Iterator<Item = Finding> + '_ {
        self.election.silent.ports().map(|port| {
            let text = format!(
                "the subnet manager of {} port {} ({}), {}, answers no SMInfo: its process is stopped or \
                 hangs, and may write the subnet when it goes on; let it go on, or end it",
                self.name(port.node),
                port.port,
                port.node,
                self.cable_of(port)
            );
            let subject = Subject::Port(port);
            Finding::new(FindingKind::ManagerSilent, subject, Severity::Warning, text)
        })
    }
}
