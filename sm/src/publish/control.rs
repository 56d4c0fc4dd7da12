//! Requests to the core, and who waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rsm_api::model::{self, SubnetState};
use rsm_api::{BoxFuture, Control, ControlError};
use rsm_ids::Lid;
use rsm_routing::engine::UnknownEngine;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::view::View;
use crate::core::convergence::Convergence;
use crate::core::event::Ticket;
use crate::core::role::Role;
use crate::core::{Command, Event};

/// How many callers may wait at the same time: more than people and scripts of one site, far fewer than a loop gone
/// wild makes. They all wait for the same sweep anyhow.
pub const MAX_WAITING: usize = 64;

type Answer = Result<model::Convergence, ControlError>;

/// Carries requests to the core and its answers back.
///
/// The daemon calls [`Controller::done`] on `Effect::Done`, after it has handed the snapshot that was published
/// before it to the [`View`]; [`Controller::recheck`] after every other change of the view; and [`Controller::stop`]
/// when it ends. A resweep has no time limit, for a huge fabric may take long: who does not care any more drops the
/// future.
pub struct Controller {
    events: mpsc::Sender<Event>,
    view: Arc<View>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    last: Ticket,
    callers: BTreeMap<Ticket, oneshot::Sender<Answer>>,
    stopping: bool,
}

impl Controller {
    /// Sends requests to the core through `events`; a full channel refuses them, nobody waits for room.
    pub fn new(events: mpsc::Sender<Event>, view: Arc<View>) -> Controller {
        Controller {
            events,
            view,
            waiting: Mutex::default(),
        }
    }

    /// What `ticket` asked for is done by `convergence`. Tickets of callers that have left are ignored.
    pub fn done(&self, ticket: Ticket, convergence: &Arc<Convergence>) {
        let Some(caller) = self.waiting.lock().callers.remove(&ticket) else {
            return;
        };
        let answer = self
            .view
            .convergence(convergence)
            .ok_or_else(|| ControlError::Failed {
                reason: "its record is no longer kept".to_owned(),
            });
        // A caller that left at this very moment does not care.
        let _ = caller.send(answer);
    }

    /// What `ticket` asked for is not going to be done, and why. Tickets of callers that have left are ignored.
    pub fn declined(&self, ticket: Ticket, reason: String) {
        if let Some(caller) = self.waiting.lock().callers.remove(&ticket) {
            // As in `done`.
            let _ = caller.send(Err(ControlError::Refused { reason }));
        }
    }

    /// Tells everybody who waits where the snapshot in force says that nothing will come of it.
    pub fn recheck(&self) {
        if let Err(error) = self.check() {
            self.refuse_all(&error);
        }
    }

    /// Tells everybody who waits, and whoever comes later, that the subnet manager is stopping.
    pub fn stop(&self) {
        self.waiting.lock().stopping = true;
        self.refuse_all(&ControlError::Stopping);
    }

    /// How many callers wait.
    pub fn waiting(&self) -> usize {
        self.waiting.lock().callers.len()
    }

    fn refuse_all(&self, error: &ControlError) {
        let callers = std::mem::take(&mut self.waiting.lock().callers);
        for caller in callers.into_values() {
            // As in `done`.
            let _ = caller.send(Err(error.clone()));
        }
    }

    /// Whether there is a subnet to act on.
    fn check(&self) -> Result<(), ControlError> {
        let published = self.view.published();
        match (published.state, &published.snapshot.role) {
            (SubnetState::NotActive, _) => Err(ControlError::NotAttached {
                reason: published.reason.clone(),
            }),
            (SubnetState::Standby, Role::Standby { master }) => {
                Err(ControlError::Standby { master: master.lid })
            }
            (SubnetState::Standby, _) => Err(ControlError::Standby { master: Lid::NONE }),
            _ => Ok(()),
        }
    }

    fn ask(&self, command: impl FnOnce(Ticket) -> Command) -> Result<Caller<'_>, ControlError> {
        self.check()?;
        let mut waiting = self.waiting.lock();
        if waiting.stopping {
            return Err(ControlError::Stopping);
        }
        if waiting.callers.len() >= MAX_WAITING {
            return Err(ControlError::Busy);
        }
        waiting.last += 1;
        let ticket = waiting.last;
        // The ticket is entered before the core can answer it, for the lock is held.
        self.events
            .try_send(Event::Command(command(ticket)))
            .map_err(|error| match error {
                TrySendError::Full(_) => ControlError::Busy,
                TrySendError::Closed(_) => ControlError::Stopping,
            })?;
        let (sender, answer) = oneshot::channel();
        waiting.callers.insert(ticket, sender);
        Ok(Caller {
            controller: self,
            ticket,
            answer,
        })
    }
}

impl Control for Controller {
    fn resweep(&self, full: bool) -> BoxFuture<'_, Result<model::Convergence, ControlError>> {
        Box::pin(async move {
            self.ask(|ticket| Command::Resweep { full, ticket })?
                .answer()
                .await
        })
    }

    fn set_engine(&self, name: String) -> BoxFuture<'_, Result<model::Convergence, ControlError>> {
        Box::pin(async move {
            let engine = name.parse().map_err(|error: UnknownEngine| {
                let message = error.to_string();
                ControlError::UnknownEngine { message }
            })?;
            self.ask(|ticket| Command::Engine { engine, ticket })?
                .answer()
                .await
        })
    }
}

/// Somebody who waits. Leaves the table when dropped, answered or not.
struct Caller<'a> {
    controller: &'a Controller,
    ticket: Ticket,
    answer: oneshot::Receiver<Answer>,
}

impl Caller<'_> {
    async fn answer(mut self) -> Answer {
        // The sender is dropped without an answer only when the controller is.
        (&mut self.answer)
            .await
            .unwrap_or(Err(ControlError::Stopping))
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.controller.waiting.lock().callers.remove(&self.ticket);
    }
}
