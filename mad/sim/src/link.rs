//! Link training and failure (IBA 5.6.4, 7.2.7), and the effects of agents.

use std::time::Duration;

use rsm_mad::transport::PortEvent;
use rsm_mad::wire::attr::{PortPhysicalState, PortState};
use rsm_mad::wire::perf::Counter;

use crate::agent::Effect;
use crate::fabric::NONE;
use crate::notice;
use crate::personality::Habit;
use crate::queue::Event;
use crate::sim::Sim;

/// The time from when both ends of a link are Armed until the first packet crosses it.
const SELF_ACTIVATION: Duration = Duration::from_micros(5);

impl Sim {
    /// Executes the effects that agents returned.
    pub(crate) fn execute_effects(&mut self) {
        // The effects cause no further effects, because agents are not involved.
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::LinkDown(port) => self.take_down(port, Some(port)),
                Effect::Train(port) => self.train(port),
                Effect::Armed(port) => self.on_armed(port),
                Effect::Event(port, event) => self.send_event(port, event),
                Effect::Trap(port, notice) => self.raise(port, notice),
                Effect::LeaseStart(port) => {
                    let state = self.fabric.port_mut(port);
                    state.lease_generation += 1;
                    let generation = state.lease_generation;
                    let lease = Duration::from_secs(u64::from(state.info.m_key_lease_period()));
                    let end = Event::LeaseEnd { port, generation };
                    self.queue.push(self.now + lease, end);
                }
            }
        }
        self.effects = effects;
    }

    /// Handles a port that became Armed. If both ends of its link are Armed, the ends with
    /// [`Habit::SelfActivating`] become Active after [`SELF_ACTIVATION`].
    fn on_armed(&mut self, port: u32) {
        let peer = self.fabric.port(port).peer;
        if peer == NONE || self.fabric.port(peer).info.port_state() < PortState::Armed {
            return;
        }
        let generation = self.fabric.port(self.fabric.link_of(port)).link_generation;
        for port in [port, peer] {
            let personality = self.fabric.node_of(port).personality;
            if personality.has(Habit::SelfActivating) {
                let event = Event::SelfActivate { port, generation };
                self.queue.push(self.now + SELF_ACTIVATION, event);
            }
        }
    }

    /// Handles the first packet that enters through an Armed port with [`Habit::SelfActivating`].
    pub(crate) fn self_activate(&mut self, port: u32, generation: u32) {
        let link = self.fabric.link_of(port);
        let is_current = self.fabric.port(link).link_generation == generation;
        let info = &mut self.fabric.port_mut(port).info;
        if is_current && info.port_state() == PortState::Armed {
            info.set_port_state(PortState::Active);
        }
    }

    /// Whether this end of a link can train.
    fn can_train(&self, port: u32) -> bool {
        let state = self.fabric.port(port);
        self.fabric.node_of(port).is_powered
            && !state.is_unplugged
            && !matches!(
                state.info.port_physical_state(),
                PortPhysicalState::Disabled | PortPhysicalState::Sleep
            )
    }

    /// Begins training, if the link is down and both ends can train.
    pub(crate) fn train(&mut self, port: u32) {
        let peer = self.fabric.port(port).peer;
        if peer == NONE
            || self.fabric.port(port).is_up()
            || !self.can_train(port)
            || !self.can_train(peer)
        {
            return;
        }
        let link = self.fabric.link_of(port);
        let state = self.fabric.port_mut(link);
        state.link_generation += 1;
        let up = Event::LinkUp {
            port: link,
            generation: state.link_generation,
        };
        self.queue.push(self.now + self.config.link_training, up);
    }

    /// Handles the end of a link's training, unless later events of the link made it obsolete.
    pub(crate) fn link_trained(&mut self, port: u32, generation: u32) {
        if self.fabric.port(port).link_generation != generation {
            return;
        }
        for end in self.bring_up(port).into_iter().flatten() {
            self.report_change(end, PortEvent::Up);
        }
    }

    /// Brings the link at a port up, if the link is down and both ends can train. Returns the ports
    /// of the link, each once; `None` if the link did not come up.
    pub(crate) fn bring_up(&mut self, port: u32) -> Option<Vec<u32>> {
        let peer = self.fabric.port(port).peer;
        if peer == NONE
            || self.fabric.port(port).is_up()
            || !self.can_train(port)
            || !self.can_train(peer)
        {
            return None;
        }
        let rate = self.fabric.port(port).train_with(self.fabric.port(peer))?;
        let ends = if port == peer {
            vec![port]
        } else {
            vec![port, peer]
        };
        let mut all = ends.iter();
        let without_fdr10 = all.any(|&end| self.fabric.port(end).fdr10_disabled);
        for &end in &ends {
            let port = self.fabric.port_mut(end);
            port.come_up(rate);
            port.trained_without_fdr10 = without_fdr10;
            self.vports_follow_link(end);
            let node = self.fabric.port(end).node;
            if let Some(switch) = &mut self.fabric.node_mut(node).switch {
                switch.info.set_port_state_change(true);
            }
        }
        Some(ends)
    }

    /// Takes the link at a port down, and lets it train again if it can. `by_set` is the port at
    /// which a Set requested the change: the switch of that port does not report it as a change of
    /// port state (IBA 14.2.5.4).
    pub(crate) fn take_down(&mut self, port: u32, by_set: Option<u32>) {
        let peer = self.fabric.port(port).peer;
        if peer == NONE {
            self.fabric.port_mut(port).go_down();
            self.vports_follow_link(port);
            return;
        }
        let link = self.fabric.link_of(port);
        self.fabric.port_mut(link).link_generation += 1;
        for end in [port, peer] {
            let was_up = self.fabric.port(end).is_up();
            self.fabric.port_mut(end).go_down();
            self.vports_follow_link(end);
            if was_up && self.fabric.node_of(end).is_powered {
                self.performance.count(end, Counter::LinkDowned, 1);
            }
            if was_up && by_set == Some(end) {
                self.send_event(end, PortEvent::Down);
            } else if was_up {
                self.report_change(end, PortEvent::Down);
            }
        }
        self.train(port);
    }

    /// Reports that the state of a port has changed without a Set: a switch sends trap 128, and a
    /// host gets an event.
    fn report_change(&mut self, port: u32, event: PortEvent) {
        let node_index = self.fabric.port(port).node;
        let node = self.fabric.node_mut(node_index);
        let first_port = node.first_port;
        let only_first = node.personality.has(Habit::TrapOnFirstChange);
        match &mut node.switch {
            Some(switch) => {
                let was_set = switch.info.port_state_change();
                switch.info.set_port_state_change(true);
                if was_set && only_first {
                    return;
                }
                let notice = notice::link_state_change(&self.fabric, first_port);
                self.raise(first_port, notice);
            }
            None => self.send_event(port, event),
        }
    }
}
