//! A dry run: everything up to the difference, which is listed instead of set.

use std::sync::Arc;

use rsm_mad::Time;
use rsm_mad::wire::attr::PortInfo;

use super::convergence::Pushed;
use super::event::Effect;
use super::{Core, Mode};
use crate::diff::Changes;
use crate::fabric::{Fabric, PortRef};
use crate::plan::Plan;
use crate::push::rehearse;

impl Core {
    /// The model of the last sweep. A dry run plans as if this manager ran at the master's port, so
    /// that MasterSMLID, which every takeover changes, does not hide the other changes.
    pub(super) fn model_to_plan(&mut self) -> Arc<Fabric> {
        let fabric = self.model();
        if self.config.mode != Mode::DryRun {
            return fabric;
        }
        let mut planned = Fabric::clone(&fabric);
        planned.local = self.masters_port(&fabric).or(fabric.local);
        Arc::new(planned)
    }

    /// The port of the manager that last wrote the own port's MasterSMLID, if it is known.
    fn masters_port(&self, fabric: &Fabric) -> Option<PortRef> {
        let lid = self.local_port().as_ref().map(PortInfo::master_sm_lid)?;
        let holder = self.inventory.by_lid(lid).filter(|_| lid.is_unicast())?;
        fabric.find_port(holder)
    }

    /// Lists the Sets of a push, and ends the pass.
    pub(super) fn foresee(&mut self, plan: Arc<Plan>, changes: Changes, now: Time) {
        let sets = rehearse(plan, changes, &self.inventory);
        self.effects.push_back(Effect::Foreseen(sets));
        self.conclude(Pushed::default(), &[], now);
    }
}
