//! The members of multicast groups, as input of plans.
//!
//! ```text
//! registered members ─▶ and inherited members ─▶ virtual ports become physical ports ─▶ plan
//! ```

mod held_masks;
pub mod inherited;
mod vport_owners;

use std::sync::Arc;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_mad::Time;
use rsm_model::fabric::Fabric;
use rsm_model::mft_image::HeldMasks;
use rsm_plan::groups::GroupSet;

use super::settings::CoreConfig;
use held_masks::KeptMasks;
use inherited::Inherited;
use vport_owners::VPortOwners;

/// Members of multicast groups.
#[derive(Default)]
pub(super) struct Members {
    /// Members registered with the SA; `None` before its first report.
    registered: Option<Arc<GroupSet>>,
    inherited: Inherited,
    owners: VPortOwners,
    held: KeptMasks,
}

impl Members {
    /// Records the members registered with the SA now.
    pub(super) fn set_registered(&mut self, registered: Arc<GroupSet>) {
        self.inherited.on_registrations(&registered);
        self.registered = Some(registered);
    }

    /// Forgets the registered members; the SA will report them again.
    pub(super) fn forget_registered(&mut self) {
        self.registered = None;
    }

    /// Makes the next plan inherit members from the switches' tables again, because another master
    /// may have written the tables.
    pub(super) fn inherit_again(&mut self) {
        self.inherited.inherit_again();
    }

    /// Time at which inherited members expire; `None` if there are none.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.inherited.deadline()
    }

    /// Drops the inherited members if they have expired at `now`. Returns whether they have.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        self.inherited.expire(now)
    }

    /// The group members for a plan at `now`, and the port masks in the switches' multicast tables.
    /// The members are `None` before the SA's first report, or if multicast is not routed.
    pub(super) fn for_plan(
        &mut self,
        fabric: &Arc<Fabric>,
        inventory: &Inventory,
        config: &CoreConfig,
        now: Time,
    ) -> (Option<Arc<GroupSet>>, Arc<HeldMasks>) {
        let masks = self.held.collect(inventory);
        let registered = self.registered.as_ref();
        let Some(registered) = registered.filter(|_| config.policy.routes_multicast) else {
            return (None, masks);
        };
        self.inherited.read_if_due(fabric, &masks, registered, now);
        let mut members = self.inherited.merged_into(registered);
        if config.manages_vports {
            members = self.owners.replaced(fabric, members);
        }
        (Some(members), masks)
    }
}
