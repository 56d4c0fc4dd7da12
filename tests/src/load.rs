//! Hosts of a simulated fabric that query the SA as fast as it answers.
//!
//! A host runs on the simulation's thread, at the moment when an answer arrives, without its own
//! thread, socket or system call between an answer and the next request.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::{RemoteAddress, SaInbound, SaPort as _, SaSink, Sinks};
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{MadHeader, Method, Status};
use rsm_mad::wire::sa::{ComponentMask, PathRecord, PortInfoRecord, SaMad};
use rsm_sim::live::{LiveError, SimHandle, SimSaPort, SimTransport};

use crate::clock::now;
use crate::virtual_time::Dice;

/// The timeout after which a request is repeated, as in IP over InfiniBand.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum time for which a run waits for the last answers.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A port that sends requests or is the subject of a request.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The node.
    pub node: Guid,
    /// The port.
    pub port: PortNum,
    /// The LID of the port.
    pub lid: Lid,
    /// The GID of the port.
    pub gid: Gid,
}

/// The kind of request. The method is always Get, and each request names another port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// A PathRecord by GIDs and P_Key, like the request of IP over InfiniBand.
    Path,
    /// A PortInfoRecord by LID.
    Port,
}

/// The clients and the shape of their load.
#[derive(Clone, Debug)]
pub struct Load {
    /// The ports of the clients.
    pub clients: Vec<Place>,
    /// The number of requests under way per client.
    pub outstanding: usize,
    /// The kind of request.
    pub question: Question,
    /// The ports that requests name.
    pub targets: Arc<[Place]>,
    /// The LID of the SA.
    pub server: Lid,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The number of answers with status 0 during the measured time.
    pub answered: u64,
    /// The number of answers with status BUSY.
    pub busy: u64,
    /// The number of answers with any other status.
    pub refused: u64,
    /// The number of requests without an answer in time.
    pub unanswered: u64,
    /// The measured time.
    pub elapsed: Duration,
    /// The latency of each answer, sorted.
    pub latencies: Vec<Duration>,
}

impl Outcome {
    /// The number of answers per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency that `share` of the answers (0 to 1) do not exceed; zero without answers.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        let index = (self.latencies.len() as f64 * share) as usize;
        self.latencies
            .get(index.min(last))
            .copied()
            .unwrap_or_default()
    }
}

/// State that all clients share. The counts are those of [`Outcome`].
#[derive(Default)]
struct Shared {
    /// Whether clients send a next request after each answer.
    is_running: AtomicBool,
    /// The number of transactions in which clients still wait for an answer.
    under_way: AtomicUsize,
    busy: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
    latencies: Mutex<Vec<Duration>>,
}

/// The state of a client, on the simulation's thread.
struct Client {
    port: Arc<OnceLock<SimSaPort>>,
    shared: Arc<Shared>,
    load: Load,
    dice: Dice,
    own: Place,
    /// The request times of the transactions under way, by the low bits of the transaction numbers.
    sent_at: Vec<Instant>,
    latencies: Vec<Duration>,
}

impl Client {
    /// Sends a request in the transaction `slot`.
    fn ask(&mut self, slot: usize) {
        let target = self.load.targets[self.dice.below(self.load.targets.len())];
        let tid = Tid(slot as u64 + 1);
        let mad = match self.load.question {
            Question::Path => {
                let mut path = PathRecord::default();
                path.set_sgid(self.own.gid)
                    .set_dgid(target.gid)
                    .set_p_key(PKey::DEFAULT_FULL)
                    .set_numb_path(1);
                let mask =
                    PathRecord::SGID | PathRecord::DGID | PathRecord::P_KEY | PathRecord::NUMB_PATH;
                SaMad::request(Method::GET, tid, mask, &path)
            }
            Question::Port => {
                let mut port = PortInfoRecord::default();
                port.set_end_port_lid(target.lid);
                let mask: ComponentMask = PortInfoRecord::END_PORT_LID;
                SaMad::request(Method::GET, tid, mask, &port)
            }
        };
        self.sent_at[slot] = now();
        let server = RemoteAddress::gsi(self.load.server, 0);
        let sent = self
            .port
            .get()
            .is_some_and(|port| port.send(mad.as_bytes(), &server, REQUEST_TIMEOUT).is_ok());
        if !sent {
            self.shared.unanswered.fetch_add(1, Ordering::Relaxed);
            self.shared.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts an answer or a time-out, and sends the next request.
    fn handle(&mut self, inbound: &SaInbound) {
        let (tid, status) = match inbound {
            SaInbound::Datagram(datagram) => {
                let header = MadHeader::of(&datagram.mad);
                (header.tid(), Some(header.status()))
            }
            SaInbound::SendFailed { tid, .. } => (*tid, None),
            SaInbound::Message(_) => return,
        };
        let slot = (tid.0 as u32 as usize).wrapping_sub(1);
        let Some(sent_at) = self.sent_at.get(slot) else {
            return;
        };
        let latency = now() - *sent_at;
        match status {
            Some(Status::OK) => self.latencies.push(latency),
            Some(Status::BUSY) => {
                self.shared.busy.fetch_add(1, Ordering::Relaxed);
            }
            Some(_) => {
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                self.shared.unanswered.fetch_add(1, Ordering::Relaxed);
            }
        }
        if self.shared.is_running.load(Ordering::Relaxed) {
            self.ask(slot);
        } else {
            let mut latencies = self.shared.latencies.lock();
            latencies.append(&mut self.latencies);
            drop(latencies);
            self.shared.under_way.fetch_sub(1, Ordering::Release);
        }
    }
}

impl Load {
    /// Runs the clients for `duration`, and waits for the last answers.
    ///
    /// # Errors
    ///
    /// The fabric has stopped, or a port has a client already.
    pub fn run(&self, sim: &SimHandle, duration: Duration) -> Result<Outcome, LiveError> {
        let shared = Arc::new(Shared::default());
        shared.is_running.store(true, Ordering::Relaxed);
        let attached: Vec<SimTransport> = self
            .clients
            .iter()
            .enumerate()
            .map(|(index, &place)| self.attach(sim, index as u64, place, &shared))
            .collect::<Result<_, _>>()?;
        let started = now();
        for transport in &attached {
            self.begin(transport, &shared);
        }
        std::thread::sleep(duration);
        shared.is_running.store(false, Ordering::Relaxed);
        let elapsed = started.elapsed();
        let last = now() + END_LIMIT;
        while shared.under_way.load(Ordering::Acquire) > 0 && now() < last {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut latencies = std::mem::take(&mut *shared.latencies.lock());
        latencies.sort_unstable();
        Ok(Outcome {
            answered: latencies.len() as u64,
            busy: shared.busy.load(Ordering::Relaxed),
            refused: shared.refused.load(Ordering::Relaxed),
            unanswered: shared.unanswered.load(Ordering::Relaxed),
            elapsed,
            latencies,
        })
    }

    /// Attaches a client to its port; `seed` determines which ports its requests name.
    fn attach(
        &self,
        sim: &SimHandle,
        seed: u64,
        place: Place,
        shared: &Arc<Shared>,
    ) -> Result<SimTransport, LiveError> {
        shared
            .under_way
            .fetch_add(self.outstanding, Ordering::Relaxed);
        let port = Arc::new(OnceLock::new());
        let mut client = Client {
            port: Arc::clone(&port),
            shared: Arc::clone(shared),
            load: self.clone(),
            dice: Dice::new(seed),
            own: place,
            sent_at: vec![now(); self.outstanding],
            latencies: Vec::new(),
        };
        let sink: SaSink = Box::new(move |inbound| client.handle(&inbound));
        let sinks = Sinks {
            others: Box::new(|_| ()),
            sa: Some(sink),
            performance: None,
        };
        let transport = sim.attach(place.node, place.port, sinks)?;
        // The cell is new, so setting it cannot fail.
        let _ = port.set(transport.sa());
        Ok(transport)
    }

    /// Sends the first request in each transaction. Each answer, whatever its status, triggers the
    /// next request.
    fn begin(&self, transport: &SimTransport, shared: &Shared) {
        let port = transport.sa();
        let server = RemoteAddress::gsi(self.server, 0);
        for slot in 0..self.outstanding {
            let mut record = PortInfoRecord::default();
            record.set_end_port_lid(self.server);
            let tid = Tid(slot as u64 + 1);
            let mask = PortInfoRecord::END_PORT_LID;
            let mad = SaMad::request(Method::GET, tid, mask, &record);
            if port.send(mad.as_bytes(), &server, REQUEST_TIMEOUT).is_err() {
                shared.unanswered.fetch_add(1, Ordering::Relaxed);
                shared.under_way.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}
