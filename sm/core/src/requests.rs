//! The Gets and Sets of the stages, as requests of the MAD client.

use rsm_hardware::push::{Order, Task};
use rsm_hardware::sweep::inventory::Inventory;
use rsm_hardware::sweep::{Ask, Query};
use rsm_ids::Guid;
use rsm_mad::client::{Request, Routes};
use rsm_mastership::Asked;

/// Number of requests that the core hands to the client before they are sent.
///
/// Several times the largest default window keeps the window full between two rounds of the event
/// loop, and bounds what a stopped push still sends.
pub(super) const AHEAD: usize = 1024;

/// Factor on the retries of a request while packet loss alone explains the silence. If 50 % of SMPs
/// are lost, one of eight requests stays unanswered after seven attempts, and one of 3000 after
/// four times as many.
const LOSSY_ROUNDS: u8 = 4;

/// Why a request was sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Context {
    Sweep(Query),
    Push(Task),
    /// Asks the manager's own switch, to see whether the fabric answers at all.
    Witness,
    /// A question or an order to another manager, or about one.
    Mastership(Asked),
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

/// The request for a Get of a sweep; `is_sample` says whether it reads back what was written.
pub(super) fn get(ask: Ask, is_sample: bool) -> Request<Context> {
    let routes = Routes::to_agent(ask.lid, ask.path, ask.alternate);
    let rounds = match ask.query {
        // Nothing waits for capabilities or for parts that are read back: a later sweep asks
        // again.
        Query::Capabilities(_) => 1,
        _ if is_sample => 1,
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

/// The request for a Set of a push.
pub(super) fn set(order: &Order, inventory: &Inventory) -> Request<Context> {
    let routes = Routes::to_agent(order.lid, order.path, order.alternate);
    let Guid(target) = order.target;
    Request {
        m_keys: order.m_keys,
        rounds: LOSSY_ROUNDS,
        response_time: inventory.response_time(order.target),
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
