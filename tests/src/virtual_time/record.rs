//! Compares the messages and saved states of managers with a small model: only a master writes, and
//! no LID belongs to two ports.

use std::collections::BTreeMap;

use rsm_core::SavedCoreState;
use rsm_mad::Time;
use rsm_mad::transport::Datagram;
use rsm_mad::wire::attr::{Attribute, SmInfo};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::Smp;
use rsm_state::Role;

/// The number of violations that are kept; further violations add no information.
const MAX_VIOLATIONS: usize = 4;

/// The departures of a run from the model.
#[derive(Default)]
pub(super) struct Record {
    violations: Vec<String>,
}

impl Record {
    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    fn violated(&mut self, at: Time, violation: String) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(format!("at {at:?} {violation}"));
        }
    }

    /// Records an SMP of a manager with the role `role`: only a master sends Sets, except of
    /// SMInfo.
    pub(super) fn on_send(&mut self, at: Time, role: &Role, datagram: &Datagram) {
        let smp = Smp::from_bytes(&datagram.mad);
        let header = smp.header();
        let is_write = header.class().is_subnet_management()
            && header.method() == Method::SET
            && header.attribute() != SmInfo::ID;
        if is_write && *role != Role::Master {
            let attribute = header.attribute();
            self.violated(
                at,
                format!("a manager in role {role:?} sends Set({attribute:?})"),
            );
        }
    }

    /// Compares a saved state with the model: no two ports claim the same LID.
    pub(super) fn on_save(&mut self, at: Time, saved: &SavedCoreState) {
        let mut claimed = BTreeMap::new();
        for (port, claim) in saved.claims.iter() {
            for lid in (claim.base.0..).take(usize::from(claim.lmc.lids())) {
                if let Some(other) = claimed.insert(lid, *port) {
                    self.violated(
                        at,
                        format!("{other:?} and {port:?} are saved with LID {lid}"),
                    );
                }
            }
        }
    }
}
