//! Phases of traffic in which no host sends to two hosts or receives from two.
//!
//! Many such phases are followed at the same time, destination by destination: the packets of all
//! phases to one LID pass the same few links and table entries, which stay in the cache.

use crate::tables::BLOCK_LIDS;
use crate::verify::fabric::Blocks;

use super::carry::Carrier;

/// Phases that a thread follows together: those of one link fill two cache lines.
const TOGETHER: usize = 64;

/// Phases that all threads follow at the same time: at 45,056 hosts their loads take 230 MB.
const AT_A_TIME: usize = 512;

/// No host sends.
const NOBODY: u16 = u16::MAX;

/// How many of `phases` each thread should follow together.
pub(super) fn share(phases: usize) -> usize {
    let threads = rayon::current_num_threads().max(1);
    let together = (AT_A_TIME / threads).clamp(1, TOGETHER);
    let shares = phases.div_ceil(together).next_multiple_of(threads);
    phases.div_ceil(shares.max(1)).max(1)
}

/// Phases of traffic between hosts, by their places in [`Hosts::all`](super::order::Hosts::all).
pub(super) struct Permutations<'a> {
    carrier: &'a Carrier<'a>,
    phases: usize,
    /// By phase, then by place of the receiver: the place of the sender.
    senders: Vec<u16>,
}

/// A flow of one phase passes a link.
#[derive(Clone, Copy)]
pub(super) struct Hop {
    pub(super) phase: usize,
    /// The place of the sender.
    pub(super) from: usize,
    channel: usize,
}

impl<'a> Permutations<'a> {
    /// Phases without traffic.
    pub(super) fn new(carrier: &'a Carrier<'a>, phases: usize) -> Permutations<'a> {
        Permutations {
            carrier,
            phases,
            senders: vec![NOBODY; phases * carrier.hosts.all.len()],
        }
    }

    /// Lets the first of each two hosts send to the second.
    pub(super) fn add(&mut self, phase: usize, pairs: impl IntoIterator<Item = (usize, usize)>) {
        let hosts = self.carrier.hosts.all.len();
        let senders = &mut self.senders[phase * hosts..][..hosts];
        for (from, to) in pairs {
            debug_assert_eq!(senders[to], NOBODY, "host {to} receives twice");
            // Fewer hosts than LIDs.
            senders[to] = from as u16;
        }
    }

    /// Visits every link of every flow, those of one flow one after the other. Flows within a leaf
    /// pass no link, and flows that do not arrive are left out.
    pub(super) fn for_each_hop(&self, mut visit: impl FnMut(Hop)) {
        let Carrier { fabric, hosts, .. } = self.carrier;
        let mut rows = Blocks::new(self.carrier.tables, fabric.switches);
        let mut entries = Vec::new();
        for block in &hosts.blocks {
            rows.gather((block.index, u64::MAX), &mut entries);
            for &to in hosts.in_block(block) {
                let to = usize::from(to);
                let root = usize::from(hosts.switches[to]);
                let offset = hosts.all[to].lid.index() % BLOCK_LIDS;
                for phase in 0..self.phases {
                    let Some(from) = self.sender(phase, to) else {
                        continue;
                    };
                    let mut at = usize::from(hosts.switches[from]);
                    while at != root {
                        let channel = fabric.channel(at, entries[at * BLOCK_LIDS + offset]);
                        visit(Hop {
                            phase,
                            from,
                            channel,
                        });
                        at = fabric.next(channel);
                    }
                }
            }
        }
    }

    /// The host whose packets arrive at a host.
    fn sender(&self, phase: usize, to: usize) -> Option<usize> {
        let from = self.senders[phase * self.carrier.hosts.all.len() + to];
        let from = (from != NOBODY).then_some(usize::from(from))?;
        self.carrier.arrives(from, to).then_some(from)
    }
}

/// The load of some phases on the links.
pub(super) struct Loads {
    phases: usize,
    /// By channel, then by phase. A phase has fewer flows than there are LIDs.
    load: Vec<u16>,
}

impl Loads {
    pub(super) fn of(permutations: &Permutations<'_>) -> Loads {
        let phases = permutations.phases;
        let mut load = vec![0; permutations.carrier.fabric.channels() * phases];
        permutations.for_each_hop(|hop| load[hop.channel * phases + hop.phase] += 1);
        Loads { phases, load }
    }

    /// Flows on the link of a hop, in its phase.
    pub(super) fn on(&self, hop: Hop) -> u16 {
        self.load[hop.channel * self.phases + hop.phase]
    }

    /// Flows on the fullest link of each phase.
    pub(super) fn fullest(&self) -> Vec<u16> {
        let mut fullest = vec![0; self.phases];
        for load in self.load.chunks_exact(self.phases.max(1)) {
            for (fullest, &load) in fullest.iter_mut().zip(load) {
                *fullest = load.max(*fullest);
            }
        }
        fullest
    }
}
