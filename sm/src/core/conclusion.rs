//! The end of a pass: what it cost, who waited for it, and what is tried again.

use std::sync::Arc;
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;

use super::convergence::{Convergence, Pushed};
use super::event::Effect;
use super::role::Role;
use super::stage::Stage;
use super::{Core, HISTORY, Remembered};
use crate::fabric::Fabric;

impl Core {
    /// Ends a pass: its cost is recorded, its result published, what failed is scheduled to be repaired.
    pub(super) fn conclude(&mut self, pushed: Pushed, failed: &[Guid], now: Time) {
        self.stage = Stage::Idle;
        if !self.groups_only {
            self.fabric = Arc::new(Fabric::build(&self.inventory));
        }
        self.schedule_repair(failed, now);
        if !self.groups_only {
            self.schedule_rebalancing(now);
        }
        let generation = self.plan.as_ref().map_or(0, |plan| plan.generation);
        if let Some(convergence) = self
            .meter
            .finish(generation, pushed, now, &self.client.stats())
        {
            let convergence = Arc::new(convergence);
            // Joins come by the thousand, and are not what anybody looks for in the history.
            if !self.groups_only {
                if self.history.len() == HISTORY {
                    self.history.pop_front();
                }
                self.history.push_back(convergence.clone());
            }
            self.publish(now);
            self.effects
                .push_back(Effect::Converged(convergence.clone()));
            self.keep_promises(&convergence);
        }
    }

    /// Whoever waits for what is done now is told, unless there is more to do at once.
    pub(super) fn keep_promises(&mut self, convergence: &Arc<Convergence>) {
        if self.work.is_urgent() {
            return;
        }
        for ticket in self.work.take_tickets() {
            self.effects.push_back(Effect::Done {
                ticket,
                convergence: convergence.clone(),
            });
        }
    }

    pub(super) fn schedule_repair(&mut self, failed: &[Guid], now: Time) {
        let faults = &self.inventory.faults;
        let owes = faults.to_ask_again().next().is_some() || faults.owed().next().is_some();
        if failed.is_empty() && !owes {
            self.work.repaired();
        } else {
            self.work.repair(failed.iter().copied(), now);
        }
    }

    pub(super) fn schedule_light(&mut self, now: Time) {
        let pause = match self.role {
            Role::NotActive => Duration::ZERO,
            Role::Standby { .. } => self.config.standby_poll,
            Role::Discovering | Role::Master => self.config.light_sweep,
        };
        if self.next_light.is_none() && !pause.is_zero() {
            self.next_light = Some(now + pause);
        }
    }

    pub(super) fn remember(&mut self) {
        self.effects
            .push_back(Effect::Remember(Box::new(Remembered {
                claims: (*self.claims).clone(),
                seats: self.seats.clone(),
                gpus: Arc::default(),
                not_kept: self.not_kept.clone(),
                generation: self.generation,
                reregister: false,
            })));
    }
}
