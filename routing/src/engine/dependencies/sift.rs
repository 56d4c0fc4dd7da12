//! Improves an order of channels: each channel moves to the place where the most wanted traffic
//! turns legally between it and its neighbours.

use super::{ChannelOrder, Wanted};
use crate::engine::channels::Channels;

/// The number of passes over all channels; most of the gain comes in the first passes.
const PASSES: usize = 4;

/// The difference between the keys of two successive channels at the start of a pass. A channel
/// moves to the middle of a gap, and the next pass begins with new keys.
const KEY_GAP: u64 = 1 << 32;

/// Moves channels as long as that makes more of the `wanted` traffic legal.
pub(super) fn improve(
    channels: &Channels,
    wanted: &Wanted,
    mut order: ChannelOrder,
) -> ChannelOrder {
    for _ in 0..PASSES {
        let mut pass = Pass {
            channels,
            wanted,
            keys: order
                .places
                .iter()
                .map(|&place| u64::from(place + 1) * KEY_GAP)
                .collect(),
            turns: Vec::new(),
        };
        let moved = order
            .channels
            .iter()
            .filter(|&&channel| pass.move_to_best(channel))
            .count();
        if moved == 0 {
            break;
        }
        let mut sorted = order.channels.clone();
        sorted.sort_unstable_by_key(|&channel| (pass.keys[channel as usize], channel));
        order = ChannelOrder::of(sorted);
    }
    order
}

/// The state of one pass over all channels.
struct Pass<'a> {
    channels: &'a Channels,
    wanted: &'a Wanted,
    /// The sort key of each channel; ties are broken by channel number.
    keys: Vec<u64>,
    /// The turns of the current channel: the other channel's key, and the gain of a place behind
    /// that channel over a place before it.
    turns: Vec<(u64, i64)>,
}

impl Pass<'_> {
    /// Moves a channel to its best place. Returns whether it moved: `false` if no place is better,
    /// or if the gap there has no room left.
    fn move_to_best(&mut self, channel: u32) -> bool {
        self.find_turns(channel);
        let own = self.keys[channel as usize];
        // Gains are relative to a place before all others.
        let (mut gain, mut best, mut best_at, mut current) = (0i64, 0i64, 0, 0i64);
        for (number, &(key, step)) in self.turns.iter().enumerate() {
            gain += step;
            if key < own {
                current = gain;
            }
            let is_last_of_key = self.turns.get(number + 1).is_none_or(|next| next.0 != key);
            if is_last_of_key && gain > best {
                (best, best_at) = (gain, number + 1);
            }
        }
        if best <= current {
            return false;
        }
        let below = best_at
            .checked_sub(1)
            .map_or(0, |number| self.turns[number].0);
        let above = self.turns.get(best_at).map_or(u64::MAX / 2, |turn| turn.0);
        let middle = below + (above - below) / 2;
        if middle == below {
            return false;
        }
        self.keys[channel as usize] = middle;
        true
    }

    /// Finds the turns of a channel, sorted by key.
    fn find_turns(&mut self, channel: u32) {
        let channels = self.channels;
        self.turns.clear();
        for output in channels.out_of(channels.to(channel)) {
            let weight = self.wanted[channels.turn(channel, output)];
            if weight > 0 {
                self.turns
                    .push((self.keys[output as usize], -(weight as i64)));
            }
        }
        for out in channels.out_of(channels.from(channel)) {
            let input = channels.reverse(out);
            let weight = self.wanted[channels.turn(input, channel)];
            if weight > 0 {
                self.turns.push((self.keys[input as usize], weight as i64));
            }
        }
        self.turns.sort_unstable();
    }
}
