//! A transport with injected faults, which a seed makes reproducible.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Datagram, Inbound, IsSmError, LocalPort, SendError, Sink, Transport};
use crate::wire::header::{AttrId, MadHeader};

mod sa;

pub use sa::FaultySaPort;

/// A probability in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Chance(u32);

impl Chance {
    /// The chance 0: the event never happens.
    pub const NEVER: Chance = Chance(0);
    /// The chance 1: the event always happens.
    pub const ALWAYS: Chance = Chance(1_000_000);

    /// The chance of `percent` in a hundred; values above a hundred count as always.
    pub fn percent(percent: u8) -> Chance {
        Chance(u32::from(percent.min(100)) * 10_000)
    }

    /// The chance of `millionths` in a million; values above a million count as always.
    pub fn millionths(millionths: u32) -> Chance {
        Chance(millionths.min(Self::ALWAYS.0))
    }
}

/// The chance of each fault for one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultRates {
    /// The chance that an outgoing datagram is lost.
    pub drop_out: Chance,
    /// The chance that an incoming datagram is lost.
    pub drop_in: Chance,
    /// The chance that an outgoing datagram is sent twice.
    pub duplicate_out: Chance,
    /// The chance that an incoming datagram is delivered twice.
    pub duplicate_in: Chance,
    /// The chance that an incoming datagram is delayed until [`FaultPlan::hold`] later datagrams
    /// have arrived.
    pub delay_in: Chance,
}

/// The fault rates of each attribute, and the seed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultPlan {
    /// The seed of the random numbers: with equal seeds, the same datagrams in the same order have
    /// the same faults.
    pub seed: u64,
    /// The rates for datagrams of one attribute; the first entry for an attribute is used.
    pub by_attribute: Vec<(AttrId, FaultRates)>,
    /// The rates for all other attributes.
    pub others: FaultRates,
    /// The number of datagrams that overtake a delayed datagram; 0 disables delays. A delayed
    /// datagram is not delivered before that many later datagrams have arrived.
    pub hold: u32,
}

impl FaultPlan {
    /// The rates for datagrams of `attribute`.
    fn rates(&self, attribute: AttrId) -> FaultRates {
        let own = self.by_attribute.iter().find(|(id, _)| *id == attribute);
        own.map_or(self.others, |&(_, rates)| rates)
    }
}

/// The numbers of datagrams and of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultCounts {
    /// The number of outgoing datagrams, before any fault.
    pub sent: u64,
    /// The number of incoming datagrams, before any fault.
    pub received: u64,
    /// The number of outgoing datagrams that were lost.
    pub dropped_out: u64,
    /// The number of incoming datagrams that were lost.
    pub dropped_in: u64,
    /// The number of outgoing datagrams that were sent twice.
    pub duplicated_out: u64,
    /// The number of incoming datagrams that were delivered twice.
    pub duplicated_in: u64,
    /// The number of incoming datagrams that were delayed.
    pub delayed: u64,
}

/// The counters that become the public statistics.
#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
    dropped_out: AtomicU64,
    dropped_in: AtomicU64,
    duplicated_out: AtomicU64,
    duplicated_in: AtomicU64,
    delayed: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The random number generator SplitMix64. Each half of the transport has its own generator, so
/// that the faults of one half never depend on the timing of the other half.
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// Draws a number, and returns whether an event of this chance happens.
    fn hits(&mut self, chance: Chance) -> bool {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        mixed % u64::from(Chance::ALWAYS.0) < u64::from(chance.0)
    }
}

/// Injects faults by wrapping both halves of a transport.
#[derive(Debug, Clone)]
pub struct FaultInjector {
    plan: Arc<FaultPlan>,
    counters: Arc<Counters>,
}

impl FaultInjector {
    /// Creates an injector of the faults in `plan`.
    pub fn new(plan: FaultPlan) -> FaultInjector {
        FaultInjector {
            plan: Arc::new(plan),
            counters: Arc::default(),
        }
    }

    /// Wraps the receiving half of the transport: datagrams suffer the faults of the plan; other
    /// events pass unchanged.
    pub fn sink(&self, mut sink: Sink) -> Sink {
        let mut half = InboundHalf::new(self);
        let plan = Arc::clone(&self.plan);
        Box::new(move |inbound| match inbound {
            Inbound::Mad(datagram) => {
                let rates = plan.rates(MadHeader::of(&datagram.mad).attribute());
                half.inject(datagram, rates, |datagram| sink(Inbound::Mad(datagram)));
            }
            other => sink(other),
        })
    }

    /// Wraps the sending half of the transport.
    pub fn transport<T: Transport>(&self, transport: T) -> Faulty<T> {
        Faulty {
            transport,
            faults: self.clone(),
            random: Random(self.plan.seed),
        }
    }

    /// The number of copies of an outgoing datagram to send: 0, 1 or 2.
    fn copies(&self, attribute: AttrId, random: &mut Random) -> usize {
        let counters = &self.counters;
        count(&counters.sent);
        let rates = self.plan.rates(attribute);
        let [dropped, duplicated] =
            [rates.drop_out, rates.duplicate_out].map(|rate| random.hits(rate));
        if dropped {
            count(&counters.dropped_out);
            0
        } else if duplicated {
            count(&counters.duplicated_out);
            2
        } else {
            1
        }
    }

    /// The counts of both halves so far.
    pub fn counts(&self) -> FaultCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FaultCounts {
            sent: read(&self.counters.sent),
            received: read(&self.counters.received),
            dropped_out: read(&self.counters.dropped_out),
            dropped_in: read(&self.counters.dropped_in),
            duplicated_out: read(&self.counters.duplicated_out),
            duplicated_in: read(&self.counters.duplicated_in),
            delayed: read(&self.counters.delayed),
        }
    }
}

/// The receiving half, for datagrams or messages.
#[derive(Debug)]
struct InboundHalf<T> {
    faults: FaultInjector,
    random: Random,
    /// The delayed items, each with the number of items that still have to overtake it. An item is
    /// delivered after `hold` other items.
    held: Vec<(u32, T)>,
}

impl<T: Clone> InboundHalf<T> {
    fn new(faults: &FaultInjector) -> InboundHalf<T> {
        InboundHalf {
            faults: faults.clone(),
            random: Random(!faults.plan.seed),
            held: Vec::new(),
        }
    }

    /// Applies `rates` to one incoming item, and passes on its copies and the delayed items that
    /// are now due.
    fn inject(&mut self, item: T, rates: FaultRates, mut pass: impl FnMut(T)) {
        let counters = &self.faults.counters;
        count(&counters.received);
        // All three numbers are drawn every time, so that no rate changes the effect of another
        // rate.
        let [dropped, duplicated, delayed] =
            [rates.drop_in, rates.duplicate_in, rates.delay_in].map(|rate| self.random.hits(rate));
        let hold = self.faults.plan.hold;
        if dropped {
            count(&counters.dropped_in);
        } else if delayed && hold > 0 {
            count(&counters.delayed);
            self.held.push((hold + 1, item));
        } else {
            if duplicated {
                count(&counters.duplicated_in);
                pass(item.clone());
            }
            pass(item);
        }
        for (overtaking, _) in &mut self.held {
            *overtaking -= 1;
        }
        while self
            .held
            .first()
            .is_some_and(|&(overtaking, _)| overtaking == 0)
        {
            pass(self.held.remove(0).1);
        }
    }
}

/// A transport that loses and duplicates outgoing datagrams.
#[derive(Debug)]
pub struct Faulty<T> {
    transport: T,
    faults: FaultInjector,
    random: Random,
}

impl<T> Faulty<T> {
    /// The wrapped transport.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// The counts of both halves so far.
    pub fn counts(&self) -> FaultCounts {
        self.faults.counts()
    }
}

impl<T: Transport> Transport for Faulty<T> {
    /// Sends the datagram, unless a fault loses it. A lost datagram counts as sent, and no
    /// [`Inbound::SendFailed`] follows: the sender relies on its own timeouts.
    fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), SendError> {
        let attribute = MadHeader::of(&datagram.mad).attribute();
        for _ in 0..self.faults.copies(attribute, &mut self.random) {
            self.transport.send(datagram, timeout)?;
        }
        Ok(())
    }

    fn local_port(&self) -> LocalPort {
        self.transport.local_port()
    }

    fn set_is_sm(&mut self, on: bool) -> Result<(), IsSmError> {
        self.transport.set_is_sm(on)
    }
}
