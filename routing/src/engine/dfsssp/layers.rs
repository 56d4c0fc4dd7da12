//! Assigns a VL to each pair of switches.

use rayon::prelude::*;

use super::super::channels::{Channels, NONE};
use super::super::columns::Column;
use super::super::dependencies::{ChannelOrder, Wanted, add_turns};
use crate::topology::SwitchIdx;

/// The mark of a pair without a VL.
const OPEN: u8 = u8::MAX;

/// The minimum number of destinations that one parallel task follows.
const TASK: usize = 32;

/// The traffic on each turn of the paths in `columns`; `weight` returns the number of paths from a
/// source switch to a destination switch.
pub(super) fn wanted(
    channels: &Channels,
    columns: &[Vec<Column>],
    weight: impl Fn(usize, usize) -> u64 + Sync,
) -> Wanted {
    let add = |mut wanted: Wanted, to: usize| {
        for column in &columns[to] {
            let next = channels.next(column);
            let mut flows: Vec<u64> = (0..next.len()).map(|from| weight(from, to)).collect();
            channels.gather(&next, &mut flows);
            add_turns(channels, &next, &flows, &mut wanted);
        }
        wanted
    };
    let sum = |mut one: Wanted, other: Wanted| {
        one.iter_mut()
            .zip(other)
            .for_each(|(one, other)| *one += other);
        one
    };
    (0..columns.len())
        .into_par_iter()
        .with_min_len(columns.len().div_ceil(2 * rayon::current_num_threads()))
        .fold(|| vec![0; channels.turns()], add)
        .reduce(|| vec![0; channels.turns()], sum)
}

/// Whether all paths follow an order.
pub(super) fn follow(channels: &Channels, columns: &[Vec<Column>], order: &ChannelOrder) -> bool {
    columns.par_iter().flatten().all(|column| {
        let next = channels.next(column);
        next.iter()
            .all(|&channel| is_legal(channels, &next, channel, order))
    })
}

/// Whether the turn that follows `channel` is legal; true if the path ends there.
fn is_legal(channels: &Channels, next: &[u32], channel: u32, order: &ChannelOrder) -> bool {
    if channel == NONE {
        return true;
    }
    let onward = next[channels.to(channel) as usize];
    onward == NONE || order.is_legal(channel, onward)
}

/// The VLs of all pairs.
pub(super) struct Layers<'a> {
    channels: &'a Channels,
    columns: &'a [Vec<Column>],
    /// The VL by destination, then by source; [`OPEN`] if there is none yet. Both directions have
    /// one VL, because an answer has the service level of its request.
    levels: Vec<u8>,
    /// The number of VLs.
    count: u8,
}

impl<'a> Layers<'a> {
    /// Assigns a VL to every pair; `None` if `most` VLs do not suffice. `first_order` is the
    /// channel order of the first VL.
    pub(super) fn new(
        channels: &'a Channels,
        columns: &'a [Vec<Column>],
        most: u8,
        first_order: &ChannelOrder,
    ) -> Option<Layers<'a>> {
        let mut layers = Layers {
            channels,
            columns,
            levels: vec![OPEN; columns.len() * columns.len()],
            count: 0,
        };
        while layers.levels.contains(&OPEN) {
            if layers.count == most {
                return None;
            }
            layers.fill(first_order);
        }
        Some(layers)
    }

    /// The VL of the packets from one switch to another.
    pub(super) fn level(&self, from: SwitchIdx, to: SwitchIdx) -> u8 {
        self.levels[to.index() * self.columns.len() + from.index()]
    }

    /// The number of VLs, at least 1.
    pub(super) fn count(&self) -> u8 {
        self.count.max(1)
    }

    /// Adds a VL for the pairs without a VL whose paths follow an order: `first_order` for the
    /// first VL, else an order that suits these pairs.
    fn fill(&mut self, first_order: &ChannelOrder) {
        let count = self.columns.len();
        let fits = if self.count == 0 {
            self.fitting(first_order)
        } else {
            let is_open = |from: usize, to: usize| self.levels[to * count + from] == OPEN;
            let weight = |from: usize, to: usize| u64::from(is_open(from, to));
            let wanted = wanted(self.channels, self.columns, weight);
            self.fitting(&ChannelOrder::greedy(self.channels, &wanted, first_order))
        };
        for (level, fits) in self.levels.iter_mut().zip(fits) {
            if fits {
                *level = self.count;
            }
        }
        self.count += 1;
    }

    /// For each destination and source, whether the pair has no VL yet, and its paths in both
    /// directions follow the order.
    fn fitting(&self, order: &ChannelOrder) -> Vec<bool> {
        let count = self.columns.len();
        let mut one_way = vec![true; count * count];
        one_way
            .par_chunks_mut(count.max(1))
            .with_min_len(TASK)
            .enumerate()
            .for_each(|(to, fits)| {
                for column in &self.columns[to] {
                    legal_from(self.channels, &self.channels.next(column), order, fits);
                }
            });
        let fits = |at: usize| {
            let reverse_pair = at % count * count + at / count;
            self.levels[at] == OPEN && one_way[at] && one_way[reverse_pair]
        };
        (0..count * count).into_par_iter().map(fits).collect()
    }
}

/// Sets the element of `fits` to false for each switch whose path has an illegal turn.
fn legal_from(channels: &Channels, next: &[u32], order: &ChannelOrder, fits: &mut [bool]) {
    // Whether the path of a switch is legal; `None` until known.
    let mut known: Vec<Option<bool>> = vec![None; next.len()];
    let mut path = Vec::new();
    for (start, fits) in fits.iter_mut().enumerate() {
        path.clear();
        let mut at = start;
        while known[at].is_none() && next[at] != NONE {
            path.push(at);
            at = channels.to(next[at]) as usize;
        }
        let mut legal = known[at].unwrap_or(true);
        for &switch in path.iter().rev() {
            legal = legal && is_legal(channels, next, next[switch], order);
            known[switch] = Some(legal);
        }
        *fits = *fits && legal;
    }
}
