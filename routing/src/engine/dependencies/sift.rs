//! Local improvement of an order: each channel moves to its best place among its turns.

use super::{ChannelOrder, Wanted};
use crate::engine::channels::Channels;

/// The number of passes over all channels; most of the gain comes in the first passes.
const ROUNDS: usize = 4;

/// The gap between the keys of two neighbouring channels, into which others can move. A channel
/// moves to the middle of a gap, and each pass restores the gaps.
const ROOM: u64 = 1 << 32;

/// Moves channels as long as that makes more of the `wanted` traffic legal.
pub(super) fn improve(
    channels: &Channels,
    wanted: &Wanted,
    mut order: ChannelOrder,
) -> ChannelOrder {
    for _ in 0..ROUNDS {
        let mut round = Round {
            channels,
            wanted,
            keys: order
                .places
                .iter()
                .map(|&place| u64::from(place + 1) * ROOM)
                .collect(),
            near: Vec::new(),
        };
        let moved = order
            .channels
            .iter()
            .filter(|&&channel| round.place(channel))
            .count();
        if moved == 0 {
            break;
        }
        let mut sorted = order.channels.clone();
        sorted.sort_unstable_by_key(|&channel| (round.keys[channel as usize], channel));
        order = ChannelOrder::of(sorted);
    }
    order
}

struct Round<'a> {
    channels: &'a Channels,
    wanted: &'a Wanted,
    /// The sort key of each channel; ties are broken by channel number.
    keys: Vec<u64>,
    /// The turns of the current channel: the other channel's key, and what a place behind it gains
    /// over a place before it.
    near: Vec<(u64, i64)>,
}

impl Round<'_> {
    /// Moves a channel to its best place; `false` if it is already there.
    fn place(&mut self, channel: u32) -> bool {
        self.collect(channel);
        let own = self.keys[channel as usize];
        // Gains are relative to a place before all others.
        let (mut gain, mut best, mut best_at, mut current) = (0i64, 0i64, 0, 0i64);
        for (number, &(key, step)) in self.near.iter().enumerate() {
            gain += step;
            if key < own {
                current = gain;
            }
            let is_last_of_key = self.near.get(number + 1).is_none_or(|next| next.0 != key);
            if is_last_of_key && gain > best {
                (best, best_at) = (gain, number + 1);
            }
        }
        if best <= current {
            return false;
        }
        let below = best_at
            .checked_sub(1)
            .map_or(0, |number| self.near[number].0);
        let above = self.near.get(best_at).map_or(u64::MAX / 2, |near| near.0);
        let middle = below + (above - below) / 2;
        if middle == below {
            return false;
        }
        self.keys[channel as usize] = middle;
        true
    }

    fn collect(&mut self, channel: u32) {
        let channels = self.channels;
        self.near.clear();
        for output in channels.out_of(channels.to(channel)) {
            let weight = self.wanted[channels.turn(channel, output)];
            if weight > 0 {
                self.near
                    .push((self.keys[output as usize], -(weight as i64)));
            }
        }
        for out in channels.out_of(channels.from(channel)) {
            let input = channels.reverse(out);
            let weight = self.wanted[channels.turn(input, channel)];
            if weight > 0 {
                self.near.push((self.keys[input as usize], weight as i64));
            }
        }
        self.near.sort_unstable();
    }
}
