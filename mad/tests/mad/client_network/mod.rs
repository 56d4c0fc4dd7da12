//! A network in virtual time for tests of the transaction client. It checks the client's rules.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

use rsm_ids::PortNum;
use rsm_mad::Time;
use rsm_mad::client::{Client, ClientConfig, Completion, Handled, Priority, Request, Routes};
use rsm_mad::ids::{DirectedPath, Tid};
use rsm_mad::transport::SendFailure;
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::{AttrId, Status};
use rsm_mad::wire::smp::Smp;

/// The faults of the network; shares are in percent.
#[derive(Debug, Clone)]
pub(crate) struct Faults {
    pub(crate) loss: u32,
    pub(crate) duplicate: u32,
    pub(crate) busy: u32,
    /// The percentage of answers with another attribute modifier.
    pub(crate) mismatch: u32,
    /// The percentage of sends that the transport reports as failed.
    pub(crate) send_failed: u32,
    /// The percentage of lost datagrams that the transport reports as timed out at once.
    pub(crate) reported: u32,
    /// The maximum random delay of an answer, in addition to 10 µs; answers overtake each other
    /// within it.
    pub(crate) jitter: Duration,
    /// The number of targets that never answer: the targets with the lowest numbers.
    pub(crate) silent_targets: u64,
    /// The number of targets that execute one request at a time: the targets with the lowest
    /// numbers.
    pub(crate) slow_targets: u64,
    /// The time that a slow target needs for a request.
    pub(crate) service_time: Duration,
    /// The maximum number of requests that wait at a slow target; further requests are lost.
    pub(crate) buffer_len: u32,
}

impl Faults {
    pub(crate) fn none() -> Faults {
        Faults {
            loss: 0,
            duplicate: 0,
            busy: 0,
            mismatch: 0,
            send_failed: 0,
            reported: 0,
            jitter: Duration::ZERO,
            silent_targets: 0,
            slow_targets: 0,
            service_time: Duration::ZERO,
            buffer_len: u32::MAX,
        }
    }
}

/// The random number generator SplitMix64: small, and equal on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn percent(&mut self, chance: u32) -> bool {
        self.next() % 100 < u64::from(chance)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Answer(Box<MadBytes>),
    Failed(u32, bool),
}

/// The network's record of the last attempt of a request.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Time,
    tid: u32,
    /// Whether an answer or failure that may have ended the attempt was returned to the client.
    is_settled: bool,
}

pub(crate) struct Network {
    pub(crate) client: Client<u64>,
    pub(crate) now: Time,
    /// Every datagram in the order of sending.
    pub(crate) transcript: Vec<(Time, MadBytes)>,
    pub(crate) completions: BTreeMap<u64, Completion<u64>>,
    config: ClientConfig,
    faults: Faults,
    random: Random,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    next_order: u64,
    targets: BTreeMap<u64, u64>,
    /// The requests that are still to be submitted.
    backlog: VecDeque<u64>,
    /// The requests by the attribute modifier, which is unique to a request and is its context.
    sent: BTreeMap<u64, Sent>,
    tids: BTreeSet<u32>,
    /// The value of [`Request::rounds`]: the number of times that a request may use up its retries.
    pub(crate) rounds: u8,
    /// For each slow target, the times at which it finishes its requests.
    busy_until: BTreeMap<u64, VecDeque<Time>>,
}

impl Network {
    pub(crate) fn new(config: ClientConfig, faults: Faults, seed: u64) -> Network {
        Network {
            client: Client::new(config.clone()),
            now: Time::from_nanos(1),
            transcript: Vec::new(),
            completions: BTreeMap::new(),
            config,
            faults,
            random: Random(seed),
            events: BinaryHeap::new(),
            next_order: 0,
            targets: BTreeMap::new(),
            backlog: VecDeque::new(),
            sent: BTreeMap::new(),
            tids: BTreeSet::new(),
            rounds: 1,
            busy_until: BTreeMap::new(),
        }
    }

    /// Adds a request, which is submitted while other requests are outstanding.
    pub(crate) fn submit(&mut self, id: u64, target: u64) {
        self.targets.insert(id, target);
        self.backlog.push_back(id);
    }

    /// Submits a random number of requests from the backlog.
    fn submit_some(&mut self) {
        for _ in 0..=self.random.below(40) {
            let Some(id) = self.backlog.pop_front() else {
                return;
            };
            self.submit_now(id, self.targets[&id]);
        }
    }

    fn submit_now(&mut self, id: u64, target: u64) {
        let mut routes = Routes::new(DirectedPath::from_hops(&[PortNum(1)]).unwrap());
        routes.push(rsm_ids::Lid(target as u16 + 1));
        let mut request = Request::get(target, routes, AttrId::PORT_INFO, id as u32, id);
        request.priority = Priority::ALL[id as usize % 3];
        request.rounds = self.rounds;
        self.client.submit(request).expect("the queue has room");
    }

    /// Runs until every request is complete.
    pub(crate) fn run(&mut self) {
        // The sum of the times of all requests in sequence, each with the longest timeouts: no run
        // may take longer.
        let attempts = (u32::from(self.config.retries) + 2) * u32::from(self.rounds);
        let max_request_time = self.config.timeout_ceiling * attempts * 2;
        let limit = self.now + max_request_time * (self.targets.len() as u32 + 1);
        loop {
            self.submit_some();
            self.transmit();
            if self.client.pending() == 0 {
                assert!(self.backlog.is_empty());
                break;
            }
            let deadline = self.client.next_deadline();
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let next = [deadline, event].into_iter().flatten().min();
            self.now = next.expect("while a request is pending, an event or a deadline is due");
            assert!(self.now < limit, "requests do not end");
            while let Some(Reverse((at, ..))) = self.events.peek() {
                if *at > self.now {
                    break;
                }
                let Reverse((_, _, event)) = self.events.pop().unwrap();
                self.deliver(event);
            }
            self.client.handle_deadline(self.now);
            let overdue = self.client.next_deadline().filter(|&next| next <= self.now);
            assert_eq!(overdue, None, "a deadline was missed");
            while let Some(completion) = self.client.poll_completion() {
                self.complete(completion);
            }
        }
    }

    fn complete(&mut self, completion: Completion<u64>) {
        let id = completion.context;
        if let Ok(response) = &completion.outcome {
            let target = self.targets[&id];
            assert_eq!(
                response.data[..8],
                target.to_be_bytes(),
                "the answer of another target"
            );
            assert_eq!(completion.modifier, id as u32);
        }
        let max_attempts = (usize::from(self.config.retries) + 1) * usize::from(self.rounds);
        assert!(usize::from(completion.attempts) <= max_attempts);
        let earlier = self.completions.insert(id, completion);
        assert!(earlier.is_none(), "request {id} completed twice");
    }

    fn transmit(&mut self) {
        while let Some(transmit) = self.client.poll_transmit(self.now) {
            let mad = transmit.datagram.mad;
            self.transcript.push((self.now, mad));
            let smp = Smp::from_bytes(&mad);
            let id = u64::from(smp.header().modifier());
            let tid = smp.header().tid().low();
            assert!(!self.completions.contains_key(&id), "sent after completion");
            assert!(self.tids.insert(tid), "a transaction identifier repeats");
            let sent = Sent {
                at: self.now,
                tid,
                is_settled: false,
            };
            self.sent.insert(id, sent);
            self.check_bounds(id);
            self.send_over_wire(mad, id, tid);
        }
    }

    /// Counts the requests that are certainly outstanding: they were sent less than the shortest
    /// timeout ago, and neither an answer nor a failure has arrived since.
    fn check_bounds(&self, id: u64) {
        let target_if_outstanding = |(other, sent): (&u64, &Sent)| {
            let is_outstanding = !sent.is_settled
                && !self.completions.contains_key(other)
                && self.now.since(sent.at) < self.config.timeout_floor;
            is_outstanding.then(|| self.targets[other])
        };
        let targets: Vec<u64> = self.sent.iter().filter_map(target_if_outstanding).collect();
        let stats = self.client.stats();
        assert!(stats.in_flight <= stats.window);
        assert!(stats.window <= self.config.max_window && stats.window >= self.config.min_window);
        assert!(targets.len() <= stats.in_flight as usize);
        let requests_to_target = targets.iter().filter(|&&other| other == self.targets[&id]);
        assert!(requests_to_target.count() <= usize::from(self.config.target_cap));
    }

    fn send_over_wire(&mut self, mad: MadBytes, id: u64, tid: u32) {
        let target = self.targets[&id];
        if self.random.percent(self.faults.send_failed) {
            return self.schedule(Duration::ZERO, Event::Failed(tid, false));
        }
        if target < self.faults.silent_targets || self.random.percent(self.faults.loss) {
            if self.random.percent(self.faults.reported) {
                self.schedule(Duration::from_micros(5), Event::Failed(tid, true));
            }
            return;
        }
        let Some(queued) = self.queue_at_target(target) else {
            return;
        };
        let copies = 1 + u32::from(self.random.percent(self.faults.duplicate));
        for _ in 0..copies {
            let mut answer = mad;
            let smp = Smp::from_bytes_mut(&mut answer);
            let busy = self.random.percent(self.faults.busy);
            smp.make_response(if busy { Status::BUSY } else { Status::OK });
            smp.data_mut()[..8].copy_from_slice(&target.to_be_bytes());
            if self.random.percent(self.faults.mismatch) {
                smp.header_mut().set_modifier(u32::MAX);
            }
            let jitter = self.random.below(self.faults.jitter.as_nanos() as u64);
            let delay = queued + Duration::from_micros(10) + Duration::from_nanos(jitter);
            self.schedule(delay, Event::Answer(Box::new(answer)));
        }
    }

    /// The time until the target answers; `None` if it has no room for the request.
    fn queue_at_target(&mut self, target: u64) -> Option<Duration> {
        if target >= self.faults.slow_targets {
            return Some(Duration::ZERO);
        }
        let busy_until = self.busy_until.entry(target).or_default();
        while busy_until
            .front()
            .is_some_and(|&finished_at| finished_at <= self.now)
        {
            busy_until.pop_front();
        }
        if busy_until.len() >= self.faults.buffer_len as usize {
            return None;
        }
        let free_at = busy_until.back().copied().unwrap_or(self.now).max(self.now);
        let finished_at = free_at + self.faults.service_time;
        busy_until.push_back(finished_at);
        Some(finished_at.since(self.now))
    }

    fn schedule(&mut self, delay: Duration, event: Event) {
        self.next_order += 1;
        self.events
            .push(Reverse((self.now + delay, self.next_order, event)));
    }

    fn deliver(&mut self, event: Event) {
        match event {
            Event::Answer(mad) => {
                let header = *Smp::from_bytes(&mad).header();
                if let Some(sent) = self.sent.get_mut(&u64::from(header.modifier())) {
                    sent.is_settled |= sent.tid == header.tid().low();
                }
                match self.client.handle(&mad, self.now) {
                    Handled::Completed(completion) => self.complete(completion),
                    Handled::Deferred | Handled::Stale => {}
                    Handled::Unsolicited => panic!("an answer counts as unsolicited"),
                }
            }
            Event::Failed(tid, timed_out) => {
                for sent in self.sent.values_mut() {
                    sent.is_settled |= sent.tid == tid;
                }
                let kind = if timed_out {
                    SendFailure::TimedOut
                } else {
                    SendFailure::Other(5)
                };
                self.client
                    .handle_send_failed(Tid(u64::from(tid)), kind, self.now);
                while let Some(completion) = self.client.poll_completion() {
                    self.complete(completion);
                }
            }
        }
    }
}
