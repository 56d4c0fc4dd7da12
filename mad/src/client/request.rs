use std::fmt;
use std::time::Duration;

use rsm_ids::Lid;

use crate::ids::DirectedPath;
use crate::transport::{Datagram, RemoteAddress};
use crate::wire::MadBytes;
use crate::wire::header::{AttrId, Class, Method, Status};
use crate::wire::smp::{SMP_DATA_LEN, Smp, SmpRequest};

/// How urgent a request is. Higher ones always go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Priority {
    /// What somebody waits for: the reaction to a trap, the election of a subnet manager.
    Urgent,
    /// Sweeping and programming.
    #[default]
    Normal,
    /// What may take its time: audits of what is programmed.
    Background,
}

impl Priority {
    /// All of them, the most urgent first.
    pub const ALL: [Priority; 3] = [Priority::Urgent, Priority::Normal, Priority::Background];
}

/// A way to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Route {
    /// Hop by hop, as long as switches on the way are not programmed.
    Directed(DirectedPath),
    /// By the tables of the switches on the way: only the target's processor is involved.
    Lid(Lid),
}

impl Route {
    /// The class of datagrams that take this route.
    pub const fn class(&self) -> Class {
        match self {
            Route::Directed(_) => Class::SUBNET_DIRECTED,
            Route::Lid(_) => Class::SUBNET_LID_ROUTED,
        }
    }

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

/// The ways to a target: one, and what to try when it stays silent. Each retry takes the next in
/// turn.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Routes {
    routes: [Route; Routes::MAX],
    len: u8,
}

impl Routes {
    /// The most ways. With the fourth, the chance that it shares no link with the first three is
    /// small, and every queued request carries all of them.
    pub const MAX: usize = 3;

    /// The only way so far.
    pub fn new(primary: impl Into<Route>) -> Routes {
        Routes {
            routes: [primary.into(); Routes::MAX],
            len: 1,
        }
    }

    /// Adds a way to try next; `false` when there are [`Routes::MAX`] already, and nothing was
    /// added.
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

    /// The ways in the order they are tried; never empty.
    pub fn as_slice(&self) -> &[Route] {
        &self.routes[..usize::from(self.len)]
    }

    /// Which of [`Routes::as_slice`] attempt number `attempt`, from 0, takes.
    pub(super) fn index_of_attempt(&self, attempt: u8) -> usize {
        usize::from(attempt % self.len)
    }

    pub(super) fn of_attempt(&self, attempt: u8) -> &Route {
        &self.routes[self.index_of_attempt(attempt)]
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

/// A Get or Set that wants an answer.
#[derive(Debug, Clone)]
pub struct Request<C> {
    /// Whom it goes to, as far as the number of requests out to one agent is concerned: the node
    /// GUID where it is known, a hash of the path where it is not.
    pub target: u64,
    /// The ways there.
    pub routes: Routes,
    /// [`Method::GET`] or [`Method::SET`].
    pub method: Method,
    /// The attribute.
    pub attribute: AttrId,
    /// The attribute modifier.
    pub modifier: u32,
    /// The management key; 0 where none is set.
    pub m_key: u64,
    /// The attribute as it shall be; zeroes in a Get.
    pub data: [u8; SMP_DATA_LEN],
    /// How urgent it is.
    pub priority: Priority,
    /// How many times over the [retries](super::ClientConfig::retries) may be spent, 1 or more: as
    /// long as the losses of late alone explain that no attempt was answered.
    pub rounds: u8,
    /// What the caller wants back with the [`Completion`].
    pub context: C,
}

impl<C> Request<C> {
    /// Asks for an attribute, at normal priority and without a key.
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
            m_key: 0,
            data: [0; SMP_DATA_LEN],
            priority: Priority::Normal,
            rounds: 1,
            context,
        }
    }

    /// Changes an attribute, at normal priority and without a key.
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

/// The client has [`MAX_PENDING`](super::MAX_PENDING) requests already; here is this one back.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{max} requests are pending already", max = super::MAX_PENDING)]
pub struct Rejected<C>(pub Box<Request<C>>);

/// A request that was taken back by [`Client::withdraw`](super::Client::withdraw).
#[derive(Debug, Clone)]
pub struct Withdrawn<C> {
    /// The request. Submitted again, it starts anew.
    pub request: Request<C>,
    /// How often it was sent. After the first time it may have been carried out.
    pub attempts: u8,
}

/// A datagram to send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The datagram.
    pub datagram: Datagram,
    /// How long its response is of use, for [`Transport::send`](crate::transport::Transport::send):
    /// longer than the client waits before it tries again, because an answer to an earlier attempt
    /// counts as well.
    pub timeout: Duration,
}

/// The end of a request.
#[derive(Debug, Clone)]
pub struct Completion<C> {
    /// What the caller gave with the request.
    pub context: C,
    /// The response, or why there is none.
    pub outcome: Result<Response, Failure>,
    /// How often it was sent, 1 or more.
    pub attempts: u8,
    /// Which of the request's routes the answered attempt took; the last attempt's when there is no
    /// answer.
    pub route_index: usize,
    /// The time between the answered attempt and its answer; between the last attempt and now when
    /// there is none.
    pub rtt: Duration,
    /// The attribute modifier of the request.
    pub modifier: u32,
}

/// What the target said. It may have refused: see [`Response::status`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// The attribute.
    pub data: [u8; SMP_DATA_LEN],
    /// The status, never BUSY, without the direction bit of directed-route packets.
    pub status: Status,
    /// The whole datagram.
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

/// Why a request has no response after all its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Failure {
    /// The target stayed silent.
    #[error("no answer")]
    TimedOut,
    /// The target was busy every time.
    #[error("refused with status `{0}` every time")]
    Rejected(Status),
    /// The transport could not send the last attempt.
    #[error("could not be sent")]
    SendFailed,
}
