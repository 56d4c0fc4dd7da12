//! The traffic of probes: packets that cross a fabric without changing it.
//!
//! A probe holds one lock during its whole walk. Agents need no lock: the simulation has exclusive
//! access to the ledger whenever it reads or changes counters. Without probes the ledger allocates
//! no memory.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use rsm_mad::wire::perf::Counter;

use super::{Load, PortCounts};
use crate::causes::PacketLoss;
use crate::fabric::{Fabric, NONE};
use crate::route::WalkResult;

/// The number of packets and of words in one direction of a port.
#[derive(Debug, Clone, Copy, Default)]
struct Carried {
    words: u64,
    unicast: u64,
    multicast: u64,
}

impl Carried {
    fn add(&mut self, load: Load) {
        self.words = self.words.wrapping_add(load.words);
        let packets = match load.is_multicast {
            true => &mut self.multicast,
            false => &mut self.unicast,
        };
        *packets = packets.wrapping_add(1);
    }
}

/// The traffic over the link of one port.
#[derive(Debug, Clone, Copy, Default)]
struct Crossed {
    sent: Carried,
    received: Carried,
}

/// The traffic of probes that is not yet in the counters of ports.
#[derive(Debug, Clone, Default)]
struct Ledger {
    /// The traffic of each port; empty before the first probe.
    crossed: Vec<Crossed>,
    /// The lost packets, by the port that counts them. Used for look-ups only, never iterated.
    lost: HashMap<u32, PortCounts>,
}

impl Ledger {
    fn lose(&mut self, lost: &PacketLoss) {
        self.lost.entry(lost.port).or_default().lose(lost);
    }
}

/// The traffic of probes since the counters of each port were last brought up to date.
#[derive(Debug, Default)]
pub(crate) struct Walks(Mutex<Ledger>);

impl Clone for Walks {
    fn clone(&self) -> Walks {
        Walks(Mutex::new(self.0.lock().clone()))
    }
}

impl Walks {
    /// Begins the count of a packet's walk.
    pub(crate) fn begin<'a>(&'a self, fabric: &'a Fabric, load: Load) -> Walk<'a> {
        let mut ledger = self.0.lock();
        if ledger.crossed.len() < fabric.ports.len() {
            let ports = fabric.ports.len();
            ledger.crossed.resize(ports, Crossed::default());
        }
        Walk {
            ledger,
            fabric,
            load,
            last: None,
        }
    }

    /// Counts the loss of a packet whose walk had already ended.
    pub(crate) fn lose(&self, lost: &PacketLoss) {
        self.0.lock().lose(lost);
    }

    /// Moves the counted traffic of probes at a port into the counters of the port.
    pub(crate) fn move_to(&mut self, port: u32, counts: &mut PortCounts) {
        let ledger = self.0.get_mut();
        if let Some(lost) = ledger.lost.remove(&port) {
            counts.add_all(&lost);
        }
        let Some(crossed) = ledger.crossed.get_mut(port as usize) else {
            return;
        };
        let Crossed { sent, received } = std::mem::take(crossed);
        for (counter, count) in [
            (Counter::XmitData, sent.words),
            (Counter::XmitPkts, sent.unicast + sent.multicast),
            (Counter::UnicastXmitPkts, sent.unicast),
            (Counter::MulticastXmitPkts, sent.multicast),
            (Counter::RcvData, received.words),
            (Counter::RcvPkts, received.unicast + received.multicast),
            (Counter::UnicastRcvPkts, received.unicast),
            (Counter::MulticastRcvPkts, received.multicast),
        ] {
            counts.counters.add(counter, count);
        }
    }
}

/// The count of one packet's walk.
pub(crate) struct Walk<'a> {
    ledger: MutexGuard<'a, Ledger>,
    fabric: &'a Fabric,
    load: Load,
    /// The last port through which the packet left a node.
    last: Option<u32>,
}

impl Walk<'_> {
    /// Counts that the packet leaves through the port `exit` and arrives at the other end of the
    /// link.
    pub(crate) fn cross(&mut self, exit: u32) {
        self.last = Some(exit);
        let entry = self.fabric.port(exit).peer;
        if entry == NONE {
            return;
        }
        let load = self.load;
        self.ledger.crossed[exit as usize].sent.add(load);
        self.ledger.crossed[entry as usize].received.add(load);
    }

    /// Continues with the copy of the packet that left through the port `exit`; `None` means the
    /// copy at the source.
    pub(crate) fn turn_to(&mut self, exit: Option<u32>) {
        self.last = exit;
    }

    /// Counts the end of the walk: a lost packet counts at the port of its loss.
    pub(crate) fn end(&mut self, walk_result: &WalkResult) {
        if let Some(lost) = PacketLoss::of(self.fabric, walk_result, self.last) {
            self.ledger.lose(&lost);
        }
    }
}
