//! The queue of effects between the core, which decides them, and the daemon, which takes them.

use std::collections::VecDeque;
use std::time::Duration;

use rsm_mad::transport::Datagram;
use rsm_state::Ticket;

use super::event::Effect;

/// Effects that wait for the daemon.
#[derive(Default)]
pub(super) struct Outbox {
    /// Responses and TrapRepress, which are taken before other effects.
    replies: VecDeque<Datagram>,
    /// All other effects, in the order of decision.
    effects: VecDeque<Effect>,
}

impl Outbox {
    /// Queues an effect after all others.
    pub(super) fn push(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Queues a datagram that expects no answer, after other replies and before all other effects.
    pub(super) fn reply(&mut self, datagram: Datagram) {
        self.replies.push_back(datagram);
    }

    /// Declines the command of `ticket`, for `reason`.
    pub(super) fn decline(&mut self, ticket: Ticket, reason: String) {
        self.push(Effect::Declined { ticket, reason });
    }

    /// Takes the next effect; `None` if there is none.
    pub(super) fn pop(&mut self) -> Option<Effect> {
        let Some(datagram) = self.replies.pop_front() else {
            return self.effects.pop_front();
        };
        Some(Effect::Send {
            datagram,
            timeout: Duration::ZERO,
        })
    }
}
