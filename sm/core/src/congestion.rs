//! Congestion control in the core: reads and configures the congestion control agents while no
//! stage is under way.
//!
//! `may_set` applies to congestion control datagrams as it does to Sets: a master in doubt, or a
//! master whose epoch has ended, sends none. Pointer comparison recognizes an unchanged fabric at
//! no cost. Readers share the state of the congestion manager in shards, so a change copies only
//! one shard.

use std::sync::Arc;

use rsm_config::CongestionPolicy;
use rsm_mad::Time;
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, Inbound};
use rsm_mad::wire::header::{Class, MadHeader};
use rsm_model::fabric::Fabric;
use rsm_monitor::congestion::CongestionManager;
use rsm_monitor::counters::{PlannedLevels, Routes};
use rsm_plan::Plan;

use super::event::Effect;

/// Service level of congestion control datagrams for which the plan has no service level.
const SL: u8 = 0;

/// Congestion control, and the routes to its agents.
#[derive(Default, Debug)]
pub(super) struct CongestionState {
    manager: CongestionManager,
    routes: Routes,
    /// Plan from which `routes` was computed; `None` before the first plan.
    plan: Option<Arc<Plan>>,
}

impl CongestionState {
    pub(super) fn new(config: &super::CoreConfig) -> CongestionState {
        let first_tid = u32::from(config.client.first_generation) << 16;
        CongestionState {
            manager: CongestionManager::new(config.congestion.clone(), first_tid),
            routes: Routes::default(),
            plan: None,
        }
    }

    /// The congestion manager, for readers of its state.
    pub(super) fn manager(&self) -> &CongestionManager {
        &self.manager
    }

    /// Handles `inbound` if its class is congestion control. Returns whether that is its class.
    pub(super) fn on_inbound(&mut self, inbound: &Inbound, now: Time) -> bool {
        match inbound {
            Inbound::Mad(datagram) if is_congestion_control_mad(datagram) => {
                self.manager.handle(datagram, now);
            }
            &Inbound::SendFailed { class, tid, .. } if class == Class::CONGESTION_CONTROL => {
                self.manager.on_send_failed(tid, now);
            }
            _ => return false,
        }
        true
    }

    /// Ends the request in `datagram`, which the transport could not send, if the datagram is of
    /// the congestion control class. Returns whether it is.
    pub(super) fn not_sent(&mut self, datagram: &Datagram, now: Time) -> bool {
        let is_congestion_control = is_congestion_control_mad(datagram);
        if is_congestion_control {
            let tid: Tid = MadHeader::of(&datagram.mad).tid();
            self.manager.not_sent(tid, now);
        }
        is_congestion_control
    }

    /// Updates the agents from `fabric` and the plan in force while this manager is master, and
    /// forgets all agents otherwise. Returns whether the congestion manager has news to publish.
    pub(super) fn follow(
        &mut self,
        fabric: &Arc<Fabric>,
        plan: Option<&Arc<Plan>>,
        is_master: bool,
        now: Time,
    ) -> bool {
        if !self.manager.is_on() {
            return false;
        }
        if !is_master {
            self.manager.forget_all();
        } else if let Some(plan) = plan {
            // Update the agents during stages as well: the fabric may show the reset of a device
            // only then.
            self.follow_agents(fabric, plan, now);
        }
        self.manager.take_news(now)
    }

    /// Updates the agents from `fabric`, and recomputes the routes to them if the fabric or the
    /// plan has changed.
    fn follow_agents(&mut self, fabric: &Arc<Fabric>, plan: &Arc<Plan>, now: Time) {
        let has_new_fabric = self.manager.follow(fabric, now);
        let routed_plan = self.plan.as_ref();
        if has_new_fabric || !routed_plan.is_some_and(|routed| Arc::ptr_eq(plan, routed)) {
            self.plan = Some(plan.clone());
            let planned_levels = PlannedLevels {
                topology: plan.topology.clone(),
                routing: plan.routing.clone(),
                sm_lid: plan.sm_lid,
            };
            self.routes = Routes::new(fabric, Some(planned_levels), SL);
        }
    }

    /// The next datagram; `None` if no datagram is due, or `may_send` is false.
    pub(super) fn poll(&mut self, may_send: bool, now: Time) -> Option<Effect> {
        if !may_send || !self.manager.is_on() {
            return None;
        }
        let transmit = self.manager.poll_transmit(&self.routes, now)?;
        Some(Effect::Send {
            datagram: transmit.datagram,
            timeout: transmit.timeout,
        })
    }

    /// Time of the next action; `None` if there is no action. `may_send` says whether datagrams may
    /// be sent.
    pub(super) fn deadline(&self, may_send: bool) -> Option<Time> {
        let may_send = may_send && self.manager.is_on();
        self.manager.next_deadline(may_send)
    }

    /// Uses the policy of a new configuration.
    pub(super) fn configure(&mut self, policy: &Arc<CongestionPolicy>) {
        self.manager.configure(policy);
    }

    /// Ends requests whose time-out has passed at `now`.
    pub(super) fn handle_deadline(&mut self, now: Time) {
        self.manager.handle_deadline(now);
    }
}

/// Whether `datagram` is of the congestion control class.
fn is_congestion_control_mad(datagram: &Datagram) -> bool {
    MadHeader::of(&datagram.mad).class() == Class::CONGESTION_CONTROL
}
