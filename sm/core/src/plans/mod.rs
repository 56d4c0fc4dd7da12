//! The plan in force, the refused plan, and the state that the next plan starts from.

pub(super) mod assigned;
pub(super) mod held_tables;

use std::sync::Arc;

use rsm_gdr::hosts::GpuInventory;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_plan::{HeldTable, Plan, RefusedPlan};

use self::assigned::Assigned;
use self::held_tables::HeldTables;

/// The plans of this run.
pub(super) struct Plans {
    in_force: Option<Arc<Plan>>,
    refused: Option<Arc<RefusedPlan>>,
    /// Number of the last job, or of the last announced end of a push, whichever is later.
    generation: u64,
    /// Whether the next plan gives every port a new LID.
    reassigns_lids: bool,
    /// GPU inventories that hosts reported.
    gpus: Arc<GpuInventory>,
    held: HeldTables,
    /// Assignments of earlier plans, which later plans keep.
    pub(super) assigned: Assigned,
}

impl Plans {
    /// State before the first plan of a run.
    pub(super) fn new(
        generation: u64,
        reassigns_lids: bool,
        gpus: Arc<GpuInventory>,
        assigned: Assigned,
    ) -> Plans {
        Plans {
            in_force: None,
            refused: None,
            generation,
            reassigns_lids,
            gpus,
            held: HeldTables::default(),
            assigned,
        }
    }

    /// The plan in force; `None` if there is none.
    pub(super) fn in_force(&self) -> Option<&Arc<Plan>> {
        self.in_force.as_ref()
    }

    /// The last plan, if it was refused: the plan in force is then older than the fabric.
    pub(super) fn refused(&self) -> Option<&Arc<RefusedPlan>> {
        self.refused.as_ref()
    }

    /// Number of the last job, or of the last announced end of a push, whichever is later.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Increments the generation, and returns it.
    pub(super) fn advance(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }

    /// Raises the generation to at least `generation`, so that later plans have higher numbers.
    pub(super) fn advance_to(&mut self, generation: u64) {
        self.generation = self.generation.max(generation);
    }

    /// Puts a plan for the present fabric in force.
    pub(super) fn accept(&mut self, plan: Arc<Plan>) {
        (self.in_force, self.refused) = (Some(plan), None);
    }

    /// Puts a plan in force that differs from the plan in force only in multicast: a plan of routes
    /// that was refused stays refused.
    pub(super) fn replace_multicast(&mut self, plan: Arc<Plan>) {
        self.in_force = Some(plan);
    }

    /// Keeps the plan in force after the plan for the present fabric was refused.
    pub(super) fn refuse(&mut self, refused: RefusedPlan) {
        self.refused = Some(Arc::new(refused));
    }

    /// Drops the plan in force.
    pub(super) fn drop_in_force(&mut self) {
        self.in_force = None;
    }

    /// Drops the plan in force and the refused one.
    pub(super) fn clear(&mut self) {
        (self.in_force, self.refused) = (None, None);
    }

    /// Whether the next plan gives every port a new LID.
    pub(super) fn reassigns_lids(&self) -> bool {
        self.reassigns_lids
    }

    /// Makes all later plans keep the LIDs of ports.
    pub(super) fn keep_lids(&mut self) {
        self.reassigns_lids = false;
    }

    /// GPU inventories that hosts reported.
    pub(super) fn gpus(&self) -> &Arc<GpuInventory> {
        &self.gpus
    }

    /// Records GPU inventories that hosts reported.
    pub(super) fn set_gpus(&mut self, gpus: Arc<GpuInventory>) {
        if self.gpus != gpus {
            self.gpus = gpus;
        }
    }

    /// The tables that switches hold now.
    pub(super) fn held_tables(&mut self, inventory: &Inventory) -> Arc<Vec<HeldTable>> {
        self.held.collect(inventory)
    }
}
