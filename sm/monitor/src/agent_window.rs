//! Requests in flight to the agents of ports, at most one to each agent, and the turns of the
//! agents without a request in flight.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mad::ids::Tid;
use rsm_mad::transport::Datagram;

/// Pause after the transport accepted no datagram or its port was down, until the next attempt.
pub(crate) const SEND_PAUSE: Duration = Duration::from_millis(20);

/// A request to be sent.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// The datagram.
    pub datagram: Datagram,
    /// Time after which an answer counts as missing.
    pub timeout: Duration,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight<R> {
    pub(crate) agent: PortKey,
    pub(crate) request: R,
    deadline: Time,
}

/// Turns of agents, and requests in flight. The owner removes the turn of an agent when it sends a
/// request, and gives the agent another turn after the answer.
#[derive(Clone, Debug)]
pub(crate) struct AgentWindow<R> {
    /// Turns of the agents without a request in flight.
    turns: BTreeSet<(Time, PortKey)>,
    /// Requests in flight by the lower half of their transaction ID.
    flights: HashMap<u32, Flight<R>>,
    /// Deadline and transaction ID of each request in flight.
    deadlines: BTreeSet<(Time, u32)>,
    /// The last transaction ID used, lower half.
    last_tid: u32,
}

impl<R> Default for AgentWindow<R> {
    fn default() -> AgentWindow<R> {
        AgentWindow::new(0)
    }
}

impl<R> AgentWindow<R> {
    /// A window without turns. `last_tid` should differ from the transaction IDs of an earlier
    /// process, whose answers may still arrive.
    pub(crate) fn new(last_tid: u32) -> AgentWindow<R> {
        AgentWindow {
            turns: BTreeSet::new(),
            flights: HashMap::new(),
            deadlines: BTreeSet::new(),
            last_tid,
        }
    }

    /// Drops all turns and requests. Later requests have other transaction IDs.
    pub(crate) fn clear(&mut self) {
        *self = AgentWindow::new(self.last_tid);
    }

    /// Gives an agent a turn at `due`.
    pub(crate) fn enqueue(&mut self, due: Time, agent: PortKey) {
        self.turns.insert((due, agent));
    }

    /// Removes the turn of an agent at `due`.
    pub(crate) fn dequeue(&mut self, due: Time, agent: PortKey) {
        self.turns.remove(&(due, agent));
    }

    /// The earliest turn, with its agent; `None` if no agent has a turn.
    pub(crate) fn first_turn(&self) -> Option<(Time, PortKey)> {
        self.turns.first().copied()
    }

    /// Number of requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Adds a request in flight. Returns its transaction ID.
    pub(crate) fn add(&mut self, agent: PortKey, request: R, deadline: Time) -> Tid {
        let tid = self.free_tid();
        let flight = Flight {
            agent,
            request,
            deadline,
        };
        self.flights.insert(tid, flight);
        self.deadlines.insert((deadline, tid));
        Tid(tid.into())
    }

    /// The next transaction ID that no request in flight has; never 0.
    fn free_tid(&mut self) -> u32 {
        loop {
            self.last_tid = self.last_tid.wrapping_add(1);
            // A window is far smaller than the number of transaction IDs, so this loop ends.
            if self.last_tid != 0 && !self.flights.contains_key(&self.last_tid) {
                return self.last_tid;
            }
        }
    }

    /// The request in flight with this transaction ID; `None` if no such request is in flight.
    pub(crate) fn get(&self, tid: Tid) -> Option<&Flight<R>> {
        self.flights.get(&tid.low())
    }

    /// Ends the request with this transaction ID; `None` if none is in flight.
    pub(crate) fn remove(&mut self, tid: Tid) -> Option<Flight<R>> {
        let flight = self.flights.remove(&tid.low())?;
        self.deadlines.remove(&(flight.deadline, tid.low()));
        Some(flight)
    }

    /// Ends the request with the earliest deadline, if the deadline has passed; `None` otherwise.
    pub(crate) fn remove_overdue(&mut self, now: Time) -> Option<Flight<R>> {
        let &(deadline, tid) = self.deadlines.first()?;
        (deadline <= now).then(|| self.remove(Tid(tid.into())))?
    }

    /// The earliest deadline of a request in flight; `None` if no request is in flight.
    pub(crate) fn first_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|&(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortNum};

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn each_request_ends_once_by_answer_or_deadline() {
        let agent = |guid| PortKey::new(Guid(guid), PortNum(1));
        let mut window = AgentWindow::new(u32::MAX - 1);
        let tids = [30, 10, 20].map(|ms| window.add(agent(ms), ms, at(ms)));
        // The number 0 is never a transaction ID.
        assert_eq!(tids, [Tid(u32::MAX.into()), Tid(1), Tid(2)]);
        assert_eq!(window.remove(Tid(2)).unwrap().agent, agent(20));
        assert!(window.remove(Tid(2)).is_none());
        assert_eq!(window.first_deadline(), Some(at(10)));
        assert!(window.remove_overdue(at(9)).is_none());
        assert_eq!(window.remove_overdue(at(40)).unwrap().request, 10);
        assert_eq!(window.remove_overdue(at(40)).unwrap().request, 30);
        assert!(window.remove_overdue(at(40)).is_none());
        assert_eq!((window.in_flight(), window.first_deadline()), (0, None));
    }

    #[test]
    fn transaction_ids_continue_after_all_requests_are_dropped() {
        let agent = PortKey::new(Guid(1), PortNum(1));
        let mut window = AgentWindow::new(7);
        window.enqueue(at(1), agent);
        let before = window.add(agent, (), at(5));
        window.clear();
        assert!(window.remove(before).is_none() && window.first_turn().is_none());
        assert_ne!(window.add(agent, (), at(5)), before);
    }
}
