//! The counters of ports: the counts of packets, and the counters that grow without traffic.

mod walks;

use std::collections::{BTreeMap, HashMap};

use rsm_mad::Time;
use rsm_mad::wire::MAD_LEN;
use rsm_mad::wire::perf::{Counter, CounterSet};

pub(crate) use self::walks::Walk;
use self::walks::Walks;
use crate::causes::{self, Causes, PacketLoss};

/// The length in bytes of the headers of a datagram on a link, as counters see it (IBA 16.1.3.5):
/// LRH, BTH, DETH and ICRC, without the VCRC.
const HEADERS_LEN: usize = 8 + 12 + 8 + 4;

/// The length of the global route header in bytes.
const GRH_LEN: usize = 40;

/// A data packet as counters see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// The length of the packet in the unit of PortXmitData, 4 bytes.
    pub(crate) words: u64,
    pub(crate) is_multicast: bool,
}

impl Load {
    /// A datagram within the subnet with a payload of this many bytes.
    pub(crate) fn unicast(payload: u16) -> Load {
        Load {
            words: words(usize::from(payload) + HEADERS_LEN),
            is_multicast: false,
        }
    }

    /// A datagram with a global route header.
    pub(crate) fn global(payload: u16) -> Load {
        Load {
            words: words(usize::from(payload) + HEADERS_LEN + GRH_LEN),
            is_multicast: false,
        }
    }

    /// A multicast datagram, which always has a global route header.
    pub(crate) fn multicast(payload: u16) -> Load {
        Load {
            is_multicast: true,
            ..Load::global(payload)
        }
    }
}

/// The number of 4-byte words of this many bytes; the payload is padded to whole words.
fn words(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

/// An error counter that grows without traffic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symptom {
    /// The number of errors per second.
    pub(crate) per_second: f64,
    /// The time from which errors occur at this rate.
    pub(crate) since: Time,
    /// The number of errors since then that the counter includes.
    pub(crate) counted: u64,
}

/// The counters of a port, and the causes of losses that further attributes report.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PortCounts {
    pub(crate) counters: CounterSet,
    pub(crate) causes: Causes,
}

impl PortCounts {
    pub(crate) fn add_all(&mut self, other: &PortCounts) {
        self.counters.add_all(&other.counters);
        self.causes.add_all(&other.causes);
    }

    /// Counts a lost packet with its cause.
    pub(crate) fn lose(&mut self, lost: &PacketLoss) {
        self.counters.add(lost.counter, 1);
        if let Some(cause) = lost.cause {
            self.causes.add(cause, 1);
        }
    }
}

/// The counters of all ports. A port without an entry has counted nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Performance {
    /// The counters of each port. Used for look-ups only, never iterated.
    pub(crate) ports: HashMap<u32, PortCounts>,
    /// The counters that grow without traffic, by port and counter.
    pub(crate) symptoms: BTreeMap<(u32, Counter), Symptom>,
    /// The packets of probes, which are not yet in `ports`.
    pub(crate) walks: Walks,
}

impl Performance {
    /// Adds `count` to a counter of a port.
    pub(crate) fn count(&mut self, port: u32, counter: Counter, count: u64) {
        let counts = self.ports.entry(port).or_default();
        counts.counters.add(counter, count);
    }

    /// Counts a unicast datagram that crosses the link from the port `exit` to the port `entry`.
    pub(crate) fn cross(&mut self, exit: u32, entry: u32) {
        let words = Load::unicast(MAD_LEN as u16).words;
        let sent = &mut self.ports.entry(exit).or_default().counters;
        sent.add(Counter::XmitData, words);
        sent.add(Counter::XmitPkts, 1);
        sent.add(Counter::UnicastXmitPkts, 1);
        let received = &mut self.ports.entry(entry).or_default().counters;
        received.add(Counter::RcvData, words);
        received.add(Counter::RcvPkts, 1);
        received.add(Counter::UnicastRcvPkts, 1);
    }

    /// Brings the counters of a port up to `now`, and returns them.
    pub(crate) fn at(&mut self, port: u32, now: Time) -> &mut PortCounts {
        let counts = self.ports.entry(port).or_default();
        self.walks.move_to(port, counts);
        let first = (port, Counter::ALL[0]);
        let own = self.symptoms.range_mut(first..);
        for (&(_, counter), symptom) in own.take_while(|((at, _), _)| *at == port) {
            let elapsed = now.since(symptom.since);
            let total = (symptom.per_second * elapsed.as_secs_f64()) as u64;
            let more = total.saturating_sub(symptom.counted);
            counts.counters.add(counter, more);
            for &cause in causes::of_damage(counter) {
                counts.causes.add(cause, more);
            }
            symptom.counted = symptom.counted.max(total);
        }
        counts
    }

    /// Resets the counters of the ports of a node that loses its power. The symptoms stay, because
    /// they belong to the cables.
    pub(crate) fn forget(&mut self, ports: impl Iterator<Item = u32>, now: Time) {
        for port in ports {
            *self.at(port, now) = PortCounts::default();
        }
    }
}
