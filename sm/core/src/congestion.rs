//! Congestion control in the loop: its datagrams leave while nothing else is under way.
//!
//! A master in doubt, or one whose epoch has ended, sends none: `may_set` holds for these datagrams
//! as for Sets. The manager follows each model by comparing pointers; readers get shards of its
//! state, and a change copies one shard.

use std::sync::Arc;

use rsm_mad::Time;
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, Inbound};
use rsm_mad::wire::header::{Class, MadHeader};
use rsm_monitor::congestion::CongestionManager;
use rsm_monitor::counters::{PlannedLevels, Routes};
use rsm_plan::Plan;
use rsm_state::Role;

use super::Core;
use super::event::Effect;

/// The service level where the plan names none.
const SL: u8 = 0;

/// Congestion control, and the way to its agents.
#[derive(Default, Debug)]
pub(super) struct CongestionState {
    manager: CongestionManager,
    routes: Routes,
    /// The plan of `routes`.
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

    pub(super) fn manager(&self) -> &CongestionManager {
        &self.manager
    }
}

impl Core {
    /// Takes an event of the class of congestion control. Returns whether it was one.
    pub(super) fn on_congestion(&mut self, inbound: &Inbound, now: Time) -> bool {
        match inbound {
            Inbound::Mad(datagram) if is_of_class(datagram) => {
                self.congestion.manager.handle(datagram, now);
            }
            &Inbound::SendFailed { class, tid, .. } if class == Class::CONGESTION_CONTROL => {
                self.congestion.manager.on_send_failed(tid, now);
            }
            _ => return false,
        }
        true
    }

    /// The transport could not send `datagram`. Returns whether it was of congestion control.
    pub(super) fn congestion_not_sent(&mut self, datagram: &Datagram, now: Time) -> bool {
        let is_mine = is_of_class(datagram);
        if is_mine {
            let tid: Tid = MadHeader::of(&datagram.mad).tid();
            self.congestion.manager.not_sent(tid, now);
        }
        is_mine
    }

    /// Whether datagrams of congestion control may leave: they wait for all other work.
    fn may_control_congestion(&self) -> bool {
        self.congestion.manager.is_on()
            && self.stage.is_idle()
            && self.local_port.is_up()
            && self.plans.in_force().is_some()
            && self.may_set()
    }

    /// Follows the subnet and the role of this manager. Publishes the result of a round.
    pub(super) fn mind_congestion(&mut self, now: Time) {
        if !self.congestion.manager.is_on() {
            return;
        }
        if self.election.role != Role::Master {
            self.congestion.manager.forget_all();
        } else if self.plans.in_force().is_some() {
            // Also while other work is under way: a device that was reset shows it in between alone.
            self.follow_agents(now);
        }
        if self.congestion.manager.take_news(now) {
            self.publish(now);
        }
    }

    fn follow_agents(&mut self, now: Time) {
        let state = &mut self.congestion;
        let is_other_fabric = state.manager.follow(&self.fabric, now);
        let plans = self.plans.in_force().zip(state.plan.as_ref());
        let is_same_plan = plans.is_some_and(|(now, before)| Arc::ptr_eq(now, before));
        if is_other_fabric || !is_same_plan {
            state.plan = self.plans.in_force().cloned();
            let levels = self.plans.in_force().map(|plan| PlannedLevels {
                topology: plan.topology.clone(),
                routing: plan.routing.clone(),
                sm_lid: plan.sm_lid,
            });
            state.routes = Routes::new(&self.fabric, levels, SL);
        }
    }

    /// The next datagram of congestion control.
    pub(super) fn poll_congestion(&mut self, now: Time) -> Option<Effect> {
        if !self.may_control_congestion() {
            return None;
        }
        let CongestionState {
            manager, routes, ..
        } = &mut self.congestion;
        let transmit = manager.poll_transmit(routes, now)?;
        Some(Effect::Send {
            datagram: transmit.datagram,
            timeout: transmit.timeout,
        })
    }

    pub(super) fn congestion_deadline(&self) -> Option<Time> {
        let may_send = self.may_control_congestion();
        self.congestion.manager.next_deadline(may_send)
    }

    /// Takes over the policy of a new configuration.
    pub(super) fn configure_congestion(&mut self) {
        self.congestion.manager.configure(&self.config.congestion);
    }

    /// Gives up on requests that are due.
    pub(super) fn mind_congestion_deadlines(&mut self, now: Time) {
        self.congestion.manager.handle_deadline(now);
    }
}

fn is_of_class(datagram: &Datagram) -> bool {
    MadHeader::of(&datagram.mad).class() == Class::CONGESTION_CONTROL
}
