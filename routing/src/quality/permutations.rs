//! Measures phases of traffic in which each host sends to at most one host and receives from at
//! most one.
//!
//! A thread follows a few dozen phases together, block of LIDs by block, so that the table entries
//! of a block stay in the cache. Afterwards it sums the load phase by phase, so that the load of a
//! phase stays in the cache.

use crate::tables::BLOCK_LIDS;
use crate::verify::fabric::Blocks;

use super::carry::{self, Carrier};

/// The maximum number of phases that a thread follows together: enough to make gathering the table
/// entries a small part of the work.
const MAX_PER_THREAD: usize = 32;

/// The maximum number of phases that all threads together follow at a time, to limit memory: the
/// flows of one phase take 1 MB at 45,056 hosts.
const MAX_AT_A_TIME: usize = 256;

/// The mark of a receiver to which no host sends.
const NO_SENDER: u16 = u16::MAX;

/// The number of `phases` that each thread should follow together.
pub(super) fn share(phases: usize) -> usize {
    let threads = rayon::current_num_threads().max(1);
    let together = (MAX_AT_A_TIME / threads).clamp(1, MAX_PER_THREAD);
    let shares = phases.div_ceil(together).next_multiple_of(threads);
    phases.div_ceil(shares.max(1)).max(1)
}

/// Phases of traffic between hosts, by their indices in [`Hosts::all`](super::order::Hosts::all).
pub(super) struct Permutations<'a> {
    carrier: &'a Carrier<'a>,
    phases: usize,
    /// The index of the sender, by phase and then by receiver in the order of LIDs.
    senders: Vec<u16>,
}

/// The flows of one phase that cross links, in the order of their receivers' LIDs.
#[derive(Clone, Default)]
pub(super) struct Flows {
    /// The indices of the flows' senders.
    senders: Vec<u16>,
    /// The channels of all flows, flow after flow; the last channel of each flow is marked with
    /// [`LAST`].
    channels: Vec<u32>,
}

/// The mark of the last channel of a flow. Channel numbers are below 2^24.
const LAST: u32 = 1 << 31;

impl<'a> Permutations<'a> {
    /// Creates phases without traffic.
    pub(super) fn new(carrier: &'a Carrier<'a>, phases: usize) -> Permutations<'a> {
        Permutations {
            carrier,
            phases,
            senders: vec![NO_SENDER; phases * carrier.hosts.all.len()],
        }
    }

    /// Adds to a phase a flow from the first to the second host of each pair.
    pub(super) fn add(&mut self, phase: usize, pairs: impl IntoIterator<Item = (usize, usize)>) {
        let hosts = self.carrier.hosts;
        let senders = &mut self.senders[phase * hosts.all.len()..][..hosts.all.len()];
        for (from, to) in pairs {
            let sender = &mut senders[usize::from(hosts.numbers[to])];
            debug_assert_eq!(*sender, NO_SENDER, "host {to} receives twice");
            // There are fewer hosts than LIDs.
            *sender = from as u16;
        }
    }

    /// The flows of each phase. Flows within a leaf cross no link, and flows that do not arrive are
    /// left out.
    pub(super) fn follow(&self) -> Vec<Flows> {
        let Carrier { fabric, hosts, .. } = self.carrier;
        let mut rows = Blocks::new(self.carrier.tables, fabric.switches);
        let mut entries = Vec::new();
        let mut flows = vec![Flows::default(); self.phases];
        for block in &hosts.blocks {
            rows.gather((block.index, u64::MAX), &mut entries);
            for (phase, flows) in flows.iter_mut().enumerate() {
                let senders = &self.senders[phase * hosts.all.len()..][block.hosts.clone()];
                for (&from, &to) in senders.iter().zip(hosts.in_block(block)) {
                    if from != NO_SENDER {
                        flows.follow(self.carrier, &entries, (from, usize::from(to)));
                    }
                }
            }
        }
        flows
    }
}

impl Flows {
    /// Adds the flow between two hosts, using the table entries of the block of the receiver's LID.
    fn follow(&mut self, carrier: &Carrier<'_>, entries: &[u8], (from, to): (u16, usize)) {
        let Carrier { fabric, hosts, .. } = carrier;
        let root = usize::from(hosts.switches[to]);
        let mut at = usize::from(hosts.switches[usize::from(from)]);
        if at == root || !carrier.arrives(usize::from(from), to) {
            return;
        }
        self.senders.push(from);
        let offset = hosts.all[to].lid.index() % BLOCK_LIDS;
        while at != root {
            let channel = fabric.channel(at, entries[at * BLOCK_LIDS + offset]);
            at = fabric.next(channel);
            let last = if at == root { LAST } else { 0 };
            self.channels.push(channel as u32 | last);
        }
    }

    /// The sender and the channels of each flow.
    fn iter(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = usize>)> {
        let channels = self
            .channels
            .split_inclusive(|channel| channel & LAST != 0)
            .map(|flow| flow.iter().map(|channel| (channel & !LAST) as usize));
        let senders = self.senders.iter().map(|&sender| usize::from(sender));
        senders.zip(channels)
    }
}

/// The load of a phase on the links.
pub(super) struct Load<'a> {
    /// The number of flows on each channel. A phase has fewer flows than there are LIDs.
    by_channel: Vec<u16>,
    /// The number of flows on the fullest link, relative to its rate.
    fullest: f64,
    /// For each channel, the ratio of the fastest rate to its own rate; `None` if all channels have
    /// one rate.
    slowness: Option<&'a [f64]>,
}

impl<'a> Load<'a> {
    /// Creates a load of zero.
    pub(super) fn new(carrier: &Carrier<'a>) -> Load<'a> {
        Load {
            by_channel: vec![0; carrier.fabric.channels()],
            fullest: 0.0,
            slowness: carrier.slowness,
        }
    }

    /// Replaces the load by the load of `flows`.
    pub(super) fn set(&mut self, flows: &Flows) {
        self.by_channel.fill(0);
        let mut fullest = 0;
        for channel in &flows.channels {
            let load = &mut self.by_channel[(channel & !LAST) as usize];
            *load += 1;
            fullest = fullest.max(*load);
        }
        self.fullest = f64::from(fullest);
        if self.slowness.is_some() {
            let channels = flows.channels.iter();
            let loads = channels.map(|channel| self.by_rate((channel & !LAST) as usize));
            self.fullest = loads.fold(0.0, f64::max);
        }
    }

    /// The flows on a link, relative to rate.
    fn by_rate(&self, channel: usize) -> f64 {
        carry::by_rate(self.slowness, channel, f64::from(self.by_channel[channel]))
    }

    /// The number of flows on the fullest link, relative to its rate.
    pub(super) fn fullest(&self) -> f64 {
        self.fullest
    }

    /// For each sender, the number of flows on the fullest link that its flow among `flows`
    /// crosses, relative to rate; 0 for hosts without a flow.
    pub(super) fn fullest_of(&self, flows: &Flows, hosts: usize) -> Vec<f64> {
        let mut fullest = vec![0.0; hosts];
        for (sender, channels) in flows.iter() {
            let loads = channels.map(|channel| self.by_rate(channel));
            fullest[sender] = loads.fold(0.0, f64::max);
        }
        fullest
    }
}
