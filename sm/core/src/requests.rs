//! Passes the Gets and Sets of the stages to the MAD client, as requests.

use std::time::Duration;

use rsm_hardware::push::{Order, Task};
use rsm_hardware::sweep::{Ask, Query};
use rsm_ids::{Guid, Lid, PortKey};
use rsm_mad::client::{Completion, Request, RequestFailure, Route, Routes};
use rsm_mad::ids::DirectedPath;
use rsm_state::Role;

use super::Core;
use super::mastership::following;
use super::mastership::inquiry::Question;
use super::stage::Stage;

/// Number of requests that the core hands to the client before they are sent.
///
/// Several times the largest default window keeps the window full between two rounds of the event
/// loop, and bounds what a stopped push still sends.
const AHEAD: usize = 1024;

/// Factor on the retries of a request while packet loss alone explains the silence. If 50 % of SMPs
/// are lost, one of eight requests stays unanswered after seven attempts, and one of 3000 after
/// four times as many.
const LOSSY_ROUNDS: u8 = 4;

/// Why a request was sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Context {
    Sweep(Query),
    Push(Task),
    HandOver,
    /// Asks the manager's own switch, to see whether the fabric answers at all.
    Witness,
    /// Polls a master that shares the store.
    PeerPoll,
    /// Asks whether another manager is master.
    Inquiry(Question),
    /// Asks a visible manager that did not answer before.
    Manager(PortKey),
    /// Sends an order or acknowledgement to another manager, which need not answer.
    Announcement,
}

impl Context {
    /// The switch that a request by LID went to, if the request may have gone so.
    pub(super) fn switch_by_lid(&self) -> Option<Guid> {
        match self {
            Context::Sweep(Query::Switch(guid)) => Some(*guid),
            Context::Push(task) => Some(task.node()),
            _ => None,
        }
    }
}

impl Core {
    /// Hands the next Gets or Sets of the stage under way to the client.
    pub(super) fn feed_client(&mut self) {
        let ahead = match self.election.role {
            Role::Standby { .. } => following::AHEAD,
            _ => AHEAD,
        };
        while self.client.pending() < ahead {
            let request = match &mut self.stage {
                Stage::Sweeping(sweep) => {
                    sweep.poll_ask(&mut self.inventory).map(|ask| self.get(ask))
                }
                Stage::Pushing(push) => push.poll_order(&mut self.inventory).map(|order| {
                    if self.config.shares_store {
                        self.epoch.news.note_set(order.task.written_part());
                    }
                    self.set(&order)
                }),
                Stage::Idle | Stage::Planning { .. } | Stage::HandingOver(_) => None,
            };
            let request = request.or_else(|| {
                let ask = self
                    .first_sweep
                    .aside_mut()?
                    .poll_ask(&mut self.inventory)?;
                Some(self.get(ask))
            });
            let Some(request) = request else { break };
            self.submit(request);
        }
    }

    /// Hands `request` to the client.
    pub(super) fn submit(&mut self, request: Request<Context>) {
        if let Err(rejected) = self.client.submit(request) {
            // The client accepts far more than AHEAD requests. If that changes, the request ends as
            // unanswered.
            debug_assert!(false, "{rejected}");
            let completion = Completion {
                context: rejected.0.context,
                outcome: Err(RequestFailure::SendFailed),
                attempts: 0,
                lid_route_lost: false,
                rtt: Duration::ZERO,
                waited: Duration::ZERO,
                modifier: rejected.0.modifier,
                m_key: rejected.0.m_keys.first(),
            };
            self.on_completion(completion);
        }
    }

    fn get(&self, ask: Ask) -> Request<Context> {
        let routes = routes(ask.lid, ask.path, ask.alternate);
        let rounds = match ask.query {
            // Nothing waits for capabilities or for parts that are read back: a later sweep asks
            // again.
            Query::Capabilities(_) => 1,
            query if self.is_sample(query) => 1,
            _ => LOSSY_ROUNDS,
        };
        Request {
            m_keys: ask.m_keys,
            rounds,
            response_time: ask.response_time,
            ..Request::get(
                ask.target,
                routes,
                ask.attribute,
                ask.modifier,
                Context::Sweep(ask.query),
            )
        }
    }

    fn is_sample(&self, query: Query) -> bool {
        matches!(&self.stage, Stage::Sweeping(sweep) if sweep.is_sample(query))
    }

    fn set(&self, order: &Order) -> Request<Context> {
        let routes = routes(order.lid, order.path, order.alternate);
        let Guid(target) = order.target;
        Request {
            m_keys: order.m_keys,
            rounds: LOSSY_ROUNDS,
            response_time: self.inventory.response_time(order.target),
            ..Request::set(
                target,
                routes,
                order.attribute,
                order.modifier,
                order.data,
                Context::Push(order.task),
            )
        }
    }
}

/// The routes to an agent, in the order in which the client tries them.
pub(super) fn routes(
    lid: Option<Lid>,
    path: DirectedPath,
    alternate: Option<DirectedPath>,
) -> Routes {
    let directed = [Some(path), alternate]
        .into_iter()
        .flatten()
        .map(Route::from);
    let mut ways = lid.map(Route::from).into_iter().chain(directed);
    let mut routes = Routes::new(ways.next().unwrap_or(Route::Directed(path)));
    for way in ways {
        routes.push(way);
    }
    routes
}
