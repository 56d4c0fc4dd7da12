//! A dry run: everything up to the difference, which is listed instead of set.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_hardware::diff::{Comparison, Reregister};
use rsm_ids::PortKey;
use rsm_mad::wire::attr::PortInfo;
use rsm_model::fabric::{Fabric, PortRef};
use rsm_plan::Plan;
use rsm_state::Handover;

use super::{Core, Mode};

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

    /// What a takeover tells ports beside the difference to the plan in force; `None` without one.
    pub fn handover(&self) -> Option<Handover> {
        let plan = self.plans.in_force()?;
        let everybody = Reregister::everybody();
        let comparison = Comparison {
            reregister: &everybody,
            ..self.comparison(plan, &plan.transition.interim)
        };
        let told = comparison.changes(None).ports.into_iter();
        let reregistered = told.filter(|(_, change)| change.reregister.is_some());
        Some(Handover {
            reregistered: reregistered.map(|(key, _)| key).collect(),
            new_master_lids: self.ports_with_another_manager(plan),
        })
    }

    /// The ports whose MasterSMLID is that of another port than the own one. With a LID that floats
    /// from manager to manager there are none.
    fn ports_with_another_manager(&self, plan: &Plan) -> BTreeSet<PortKey> {
        let planned_at = plan.fabric.local.map(|local| plan.fabric.key(local));
        let own = self.inventory.local.filter(|own| planned_at != Some(*own));
        let lid = own.and_then(|own| Some(plan.lids.lids.get(&own)?.base));
        let Some(lid) = lid.filter(|_| !plan.policy.floating_lid) else {
            return BTreeSet::new();
        };
        let names_another = |key: &PortKey| {
            let info = self
                .inventory
                .port(*key)
                .and_then(|port| port.info.as_ref());
            info.is_some_and(|info| info.master_sm_lid() != lid)
        };
        let ports = plan.lids.lids.keys().copied();
        ports.filter(names_another).collect()
    }
}
