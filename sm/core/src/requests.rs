//! The Gets and Sets of the stages, as requests of the MAD client.

use rsm_hardware::push::{Order, Task};
use rsm_hardware::sweep::inventory::Inventory;
use rsm_hardware::sweep::{Ask, Query};
use rsm_ids::Guid;
use rsm_mad::client::{Request, Routes};
use rsm_mastership::MastershipRequest;

/// Maximum number of requests that wait in the client to be sent.
///
/// The limit is several times the largest default window, which keeps the window full between two
/// iterations of the event loop. The limit also bounds how many Sets a stopped push still sends.
pub(super) const QUEUE_LIMIT: usize = 1024;

/// Factor on the number of attempts of a request while packet loss alone explains its silence. If
/// 50 % of SMPs are lost, one in eight requests stays unanswered after seven attempts, and one in
/// 3000 after four times as many.
const LOSSY_ROUNDS: u8 = 4;

/// Why a request was sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Context {
    Sweep(Query),
    Push(Task),
    /// A Get to a switch next to the manager's node, which shows whether the fabric answers at all.
    FabricProbe,
    /// A question or an order to another manager, or about one.
    Mastership(MastershipRequest),
}

impl Context {
    /// Target node of a request that may be LID-routed; `None` for other requests.
    pub(super) fn switch_by_lid(&self) -> Option<Guid> {
        match self {
            Context::Sweep(Query::Switch(guid)) => Some(*guid),
            Context::Push(task) => Some(task.node()),
            _ => None,
        }
    }
}

/// The request for a Get of a sweep; `is_sample` says whether the Get reads back written content.
pub(super) fn get(ask: Ask, is_sample: bool) -> Request<Context> {
    let routes = Routes::to_agent(ask.lid, ask.path, ask.alternate);
    let rounds = match ask.query {
        // No work waits for capabilities or for parts that are read back: a later sweep asks for
        // them again.
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
        response_time: inventory.hardware.response_time(order.target),
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
