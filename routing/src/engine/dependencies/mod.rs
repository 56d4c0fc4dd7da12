//! An order of the channels, and with it an acyclic channel dependency graph.
//!
//! A packet that holds a channel waits for the next channel of its path. If the channels of every
//! path rise in one order, no cycle of channels can wait for itself (Dally and Seitz,
//! "Deadlock-free message routing in multiprocessor interconnection networks", IEEE ToC 1987). A
//! turn is legal if it leads to a later channel, which one comparison shows. Choosing the order
//! that makes most wanted turns legal is the feedback arc set problem: the order is the better of
//! an up*/down* order and a greedy one (Eades, Lin and Smyth, "A fast and effective heuristic for
//! the feedback arc set problem", 1993), improved one channel after the other.
//!
//! Engines choose the order before the paths, for each VL. Any number of columns that follow one
//! order are acyclic together, so that no search for cycles is needed. The order contains the turns
//! of a spanning tree, which reaches every switch.

mod greedy;
mod sift;
mod tree;

use rayon::prelude::*;

use super::channels::{Channels, NONE};
use crate::topology::{Order, SwitchIdx, Topology};

pub(super) use tree::Tree;

/// The amount of traffic that would use each turn, by turn number.
pub(super) type Wanted = Vec<u64>;

/// Adds the traffic of a column to its turns. For each switch, `next` is the channel by which the
/// switch forwards, and `flows` the traffic on it.
pub(super) fn add_turns(channels: &Channels, next: &[u32], flows: &[u64], wanted: &mut Wanted) {
    for (&channel, &flow) in next.iter().zip(flows) {
        if channel != NONE {
            let onward = next[channels.to(channel) as usize];
            if onward != NONE {
                wanted[channels.turn(channel, onward)] += flow;
            }
        }
    }
}

/// The weight of a turn of the spanning tree: more than all traffic together, because fewer than
/// 2^32 pairs of LIDs have paths.
const NEEDED: u64 = 1 << 36;

/// A total order of the channels: places rise along every legal path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChannelOrder {
    /// The place of each channel.
    places: Vec<u32>,
    /// The channels, sorted by place.
    channels: Vec<u32>,
}

impl ChannelOrder {
    /// The order in which the channels are listed, each once.
    fn of(channels: Vec<u32>) -> ChannelOrder {
        let mut places = vec![0; channels.len()];
        for (place, &channel) in channels.iter().enumerate() {
            places[channel as usize] = place as u32;
        }
        ChannelOrder { places, channels }
    }

    /// The channel order of up*/down* paths under an order of the switches: all channels up, the
    /// lowest first, then all channels down, the highest first. Every turn except from down to up
    /// is legal.
    pub(super) fn up_and_down(channels: &Channels, order: &Order) -> ChannelOrder {
        let key = |channel: u32| {
            let [from, to] = [channels.from(channel), channels.to(channel)]
                .map(|switch| order.place(SwitchIdx(switch)));
            let (is_down, along) = match from < to {
                true => (true, from),
                false => (false, order.highest_first().len() - from),
            };
            (is_down, along, channel)
        };
        let mut sorted: Vec<u32> = (0..channels.count() as u32).collect();
        sorted.sort_by_cached_key(|&channel| key(channel));
        ChannelOrder::of(sorted)
    }

    /// Computes an order in which the turns of the spanning tree are legal, and as much of the
    /// `wanted` traffic turns legally as the heuristics achieve.
    pub(super) fn around(
        topology: &Topology,
        channels: &Channels,
        tree: &Tree,
        wanted: Wanted,
    ) -> ChannelOrder {
        let wanted = tree.needed(channels, wanted);
        let start = tree.order(topology, channels);
        if start.refused(channels, &wanted) == 0 {
            return start;
        }
        let greedy = || sift::improve(channels, &wanted, greedy::order(channels, &wanted, &start));
        let improved = || sift::improve(channels, &wanted, start.clone());
        let (one, other) = rayon::join(improved, greedy);
        // All turns of the tree are legal in the greedy order as well, because each outweighs all
        // traffic.
        if other.refused(channels, &wanted) < one.refused(channels, &wanted) {
            other
        } else {
            one
        }
    }

    /// Computes an order greedily and improves it by sifting, so that much of the `wanted` traffic
    /// turns legally. The order `ties` breaks ties.
    pub(super) fn greedy(
        channels: &Channels,
        wanted: &Wanted,
        ties: &ChannelOrder,
    ) -> ChannelOrder {
        sift::improve(channels, wanted, greedy::order(channels, wanted, ties))
    }

    /// Adapts this order to other traffic; the turns of the tree stay legal.
    pub(super) fn refitted(self, channels: &Channels, tree: &Tree, wanted: Wanted) -> ChannelOrder {
        sift::improve(channels, &tree.needed(channels, wanted), self)
    }

    /// The place of a channel: the number of channels before it.
    pub(super) fn place(&self, channel: u32) -> u32 {
        self.places[channel as usize]
    }

    /// Whether packets may turn from `input` into `output`.
    pub(super) fn is_legal(&self, input: u32, output: u32) -> bool {
        self.place(input) < self.place(output)
    }

    /// All channels in the reverse order.
    pub(super) fn latest_first(&self) -> impl Iterator<Item = u32> {
        self.channels.iter().rev().copied()
    }

    /// The amount of traffic on turns that are not legal.
    pub(super) fn refused(&self, channels: &Channels, weights: &Wanted) -> u64 {
        let inputs = 0..channels.count() as u32;
        inputs
            .into_par_iter()
            .flat_map_iter(|input| {
                let outputs = channels.out_of(channels.to(input));
                outputs
                    .filter(move |&output| !self.is_legal(input, output))
                    .map(move |output| (input, output))
            })
            .map(|(input, output)| weights[channels.turn(input, output)])
            .sum()
    }
}
