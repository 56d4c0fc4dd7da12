use std::fmt;
use std::time::Duration;

use rsm_ids::Lid;

use super::MKeys;
use crate::ids::DirectedPath;
use crate::transport::{Datagram, RemoteAddress};
use crate::wire::MadBytes;
use crate::wire::header::{AttrId, Class, Method, Status};
use crate::wire::smp::{SMP_DATA_LEN, Smp, SmpRequest};

/// The urgency of a request. Higher priorities always go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Priority {
    /// Requests in reaction to traps, and for the election of a subnet manager.
    Urgent,
    /// Requests of sweeping and programming.
    #[default]
    Normal,
    /// Requests that audit programmed tables, which may wait.
    Background,
}

impl Priority {
    /// All priorities, the most urgent first.
    pub const ALL: [Priority; 3] = [Priority::Urgent, Priority::Normal, Priority::Background];
}

/// A path to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Route {
    /// A directed route, which works before the switches on the path are programmed.
    Directed(DirectedPath),
    /// A LID route through the tables of the switches on the path: only the target's processor is
    /// involved.
    Lid(Lid),
}

impl Route {
    /// The class of datagrams on this route.
    pub const fn class(&self) -> Class {
        match self {
            Route::Directed(_) => Class::SUBNET_DIRECTED,
            Route::Lid(_) => Class::SUBNET_LID_ROUTED,
        }
    }

    /// The datagram of `request` on this route.
    pub(super) fn datagram(&self, request: &SmpRequest) -> Datagram {
        let (smp, remote) = match self {
            Route::Directed(path) => (Smp::directed(path, request), RemoteAddress::directed()),
            Route::Lid(lid) => (Smp::lid_routed(request), RemoteAddress::smi(*lid)),
        };
        Datagram {
            mad: *smp.as_bytes(),
            remote,
        }
    }
}

impl From<DirectedPath> for Route {
    fn from(path: DirectedPath) -> Route {
        Route::Directed(path)
    }
}

impl From<Lid> for Route {
    fn from(lid: Lid) -> Route {
        Route::Lid(lid)
    }
}

/// The routes to a target: one route, and alternates in case the target does not answer. Each retry
/// uses the next route in turn.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Routes {
    routes: [Route; Routes::MAX],
    len: u8,
}

impl Routes {
    /// The maximum number of routes. A fourth route would probably share a link with the first
    /// three, and every queued request holds all routes.
    pub const MAX: usize = 3;

    /// The routes with `primary` only.
    pub fn new(primary: impl Into<Route>) -> Routes {
        Routes {
            routes: [primary.into(); Routes::MAX],
            len: 1,
        }
    }

    /// The routes to an agent, in the order of attempts: by LID, if one is given, then by directed
    /// routes.
    pub fn to_agent(
        lid: Option<Lid>,
        path: DirectedPath,
        alternate: Option<DirectedPath>,
    ) -> Routes {
        let directed = [Some(path), alternate]
            .into_iter()
            .flatten()
            .map(Route::from);
        let mut in_order = lid.map(Route::from).into_iter().chain(directed);
        let mut routes = Routes::new(in_order.next().unwrap_or(Route::Directed(path)));
        for route in in_order {
            routes.push(route);
        }
        routes
    }

    /// Adds an alternate route. Returns false, without adding the route, if there are
    /// [`Routes::MAX`] already.
    pub fn push(&mut self, alternate: impl Into<Route>) -> bool {
        match self.routes.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = alternate.into();
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// The routes in the order of attempts; never empty.
    pub fn as_slice(&self) -> &[Route] {
        &self.routes[..usize::from(self.len)]
    }

    /// The index in [`Routes::as_slice`] of the route of attempt number `attempt`, counted from 0,
    /// if each route is tried with `keys` keys before the next route.
    pub(super) fn index_of_attempt(&self, attempt: u8, keys: u8) -> usize {
        usize::from(attempt / keys.max(1) % self.len)
    }
}

impl<R: Into<Route>> From<R> for Routes {
    fn from(primary: R) -> Routes {
        Routes::new(primary)
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// A Get or Set that expects an answer.
#[derive(Debug, Clone)]
pub struct Request<C> {
    /// The number that identifies the target for the cap on requests to one agent: the node GUID if
    /// known, else a hash of the path.
    pub target: u64,
    /// The routes to the target.
    pub routes: Routes,
    /// The method: [`Method::GET`] or [`Method::SET`].
    pub method: Method,
    /// The attribute of the request.
    pub attribute: AttrId,
    /// The attribute modifier.
    pub modifier: u32,
    /// The candidate M_Keys; the target holds one of them.
    pub m_keys: MKeys,
    /// The attribute to set; zeroes in a Get.
    pub data: [u8; SMP_DATA_LEN],
    /// The priority of the request.
    pub priority: Priority,
    /// The maximum number of rounds of [retries](super::ClientConfig::retries), at least 1. The
    /// client begins another round while recent losses suffice to explain the missing answers.
    pub rounds: u8,
    /// RespTimeValue of the target as a time (IBA 14.2.5.6); zero if unknown. The last attempt
    /// waits at least this long before the target counts as silent.
    pub response_time: Duration,
    /// The caller's value that the [`Completion`] returns.
    pub context: C,
}

impl<C> Request<C> {
    /// The route of attempt number `attempt`, from 0.
    pub(super) fn route(&self, attempt: u8) -> &Route {
        let index = self.routes.index_of_attempt(attempt, self.m_keys.count());
        &self.routes.as_slice()[index]
    }

    /// Whether attempt number `attempt`, from 0, took a directed route after an attempt by LID.
    pub(super) fn left_lid_route(&self, attempt: u8) -> bool {
        let is_by_lid = |attempt| matches!(self.route(attempt), Route::Lid(_));
        !is_by_lid(attempt) && (0..attempt).any(is_by_lid)
    }

    /// This request with another value for its [`Completion`].
    pub fn with_context<D>(self, context: D) -> Request<D> {
        Request {
            target: self.target,
            routes: self.routes,
            method: self.method,
            attribute: self.attribute,
            modifier: self.modifier,
            m_keys: self.m_keys,
            data: self.data,
            priority: self.priority,
            rounds: self.rounds,
            response_time: self.response_time,
            context,
        }
    }

    /// A Get of an attribute, with normal priority and without a key.
    pub fn get(
        target: u64,
        routes: impl Into<Routes>,
        attribute: AttrId,
        modifier: u32,
        context: C,
    ) -> Request<C> {
        Request {
            target,
            routes: routes.into(),
            method: Method::GET,
            attribute,
            modifier,
            m_keys: MKeys::NONE,
            data: [0; SMP_DATA_LEN],
            priority: Priority::Normal,
            rounds: 1,
            response_time: Duration::ZERO,
            context,
        }
    }

    /// Sets an attribute, at normal priority and without a key.
    pub fn set(
        target: u64,
        routes: impl Into<Routes>,
        attribute: AttrId,
        modifier: u32,
        data: [u8; SMP_DATA_LEN],
        context: C,
    ) -> Request<C> {
        Request {
            method: Method::SET,
            data,
            ..Request::get(target, routes, attribute, modifier, context)
        }
    }
}

/// The client has [`MAX_PENDING`](super::MAX_PENDING) requests already; returns the request.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{max} requests are pending already", max = super::MAX_PENDING)]
pub struct Rejected<C>(pub Box<Request<C>>);

/// A request that [`Client::withdraw`](super::Client::withdraw) took back.
#[derive(Debug, Clone)]
pub struct Withdrawn<C> {
    /// The request. If it is submitted again, it starts with its first attempt.
    pub request: Request<C>,
    /// The number of times that the client sent the request. If it is not 0, the target may have
    /// executed the request.
    pub attempts: u8,
}

/// A datagram to send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The datagram to send.
    pub datagram: Datagram,
    /// The time for which a response is useful, for
    /// [`Transport::send`](crate::transport::Transport::send): longer than the timeout of the
    /// attempt, because an answer to an earlier attempt is accepted as well.
    pub timeout: Duration,
}

/// The end of a request.
#[derive(Debug, Clone)]
pub struct Completion<C> {
    /// The caller's value from the request.
    pub context: C,
    /// The response, or the reason why the request has no response.
    pub outcome: Result<Response, RequestFailure>,
    /// The number of times that the client sent the request, at least 1.
    pub attempts: u8,
    /// Whether attempts by LID were left unanswered, and an attempt by a directed route was
    /// answered.
    pub lid_route_lost: bool,
    /// The time from the answered attempt to its answer; without an answer, the time from the last
    /// attempt until now.
    pub rtt: Duration,
    /// The time between the first attempt and the end.
    pub waited: Duration,
    /// The attribute modifier of the request.
    pub modifier: u32,
    /// The M_Key of the answered attempt; without an answer, the M_Key of the last attempt.
    pub m_key: u64,
}

/// The response of the target. The status may be an error: see [`Response::status`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// The attribute of the response.
    pub data: [u8; SMP_DATA_LEN],
    /// The status, never BUSY, without the direction bit of directed-route packets.
    pub status: Status,
    /// The datagram as it was received.
    pub mad: MadBytes,
}

impl Response {
    pub(super) fn new(mad: &MadBytes) -> Response {
        let smp = Smp::from_bytes(mad);
        Response {
            data: *smp.data(),
            status: smp.status(),
            mad: *mad,
        }
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(Smp::from_bytes(&self.mad), f)
    }
}

/// The reason why a request has no response after all its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RequestFailure {
    /// The target did not answer.
    #[error("no answer")]
    TimedOut,
    /// The target was busy every time.
    #[error("refused with status `{0}` every time")]
    Rejected(Status),
    /// The transport could not send the last attempt.
    #[error("could not be sent")]
    SendFailed,
}
