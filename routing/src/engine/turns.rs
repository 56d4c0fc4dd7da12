//! The waits between channels, kept free of cycles while waits are added.
//!
//! A channel is a port group: all links from one switch to one neighbour. An acyclic graph of
//! groups is acyclic over links. A turn is a pair of channels, one into a switch and one out of it
//! that does not lead back. Channels are kept in an order that agrees with every turn in use; a
//! turn that agrees with it as well costs one comparison, any other one moves only the channels
//! between its two ends (Pearce and Kelly, "A dynamic topological sort algorithm for directed
//! acyclic graphs").

use crate::topology::{SwitchIdx, Topology};

/// The state of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Unused,
    Used,
    /// Using it would close a cycle. Turns in use only grow in number within one table of a
    /// destination; [`Turns::take_back`] takes back those of a table that is given up.
    Blocked,
}

/// The turns of a topology, and an order of its channels.
pub(super) struct Turns<'a> {
    topology: &'a Topology,
    /// By channel.
    from: Vec<SwitchIdx>,
    to: Vec<SwitchIdx>,
    /// By channel: the one in the other direction.
    reverse: Vec<u32>,
    /// By channel: the start of its turns in `turns`, one for each channel out of `to`.
    first: Vec<usize>,
    turns: Vec<Turn>,
    /// By channel: its place in the order.
    place: Vec<u32>,
    /// Channels visited by the search under way.
    seen: Vec<bool>,
    ahead: Vec<u32>,
    behind: Vec<u32>,
}

impl<'a> Turns<'a> {
    pub(super) fn new(topology: &'a Topology) -> Turns<'a> {
        let channels = topology.group_count();
        let mut from = Vec::with_capacity(channels);
        let mut to = Vec::with_capacity(channels);
        for switch in topology.indices() {
            for group in topology.groups(switch) {
                from.push(switch);
                to.push(group.neighbour);
            }
        }
        let mut reverse = vec![0; channels];
        let mut first = Vec::with_capacity(channels);
        let mut turns = 0;
        for channel in 0..channels {
            let back = topology
                .group_range(to[channel])
                .find(|&other| to[other] == from[channel]);
            // Every link has two ends.
            reverse[channel] = back.unwrap_or(channel) as u32;
            first.push(turns);
            turns += topology.group_range(to[channel]).len();
        }
        Turns {
            topology,
            from,
            to,
            reverse,
            first,
            turns: vec![Turn::Unused; turns],
            place: (0..channels as u32).collect(),
            seen: vec![false; channels],
            ahead: Vec::new(),
            behind: Vec::new(),
        }
    }

    pub(super) fn channels(&self) -> usize {
        self.to.len()
    }

    pub(super) fn from(&self, channel: u32) -> SwitchIdx {
        self.from[channel as usize]
    }

    pub(super) fn to(&self, channel: u32) -> SwitchIdx {
        self.to[channel as usize]
    }

    pub(super) fn reverse(&self, channel: u32) -> u32 {
        self.reverse[channel as usize]
    }

    /// The channels out of a switch.
    pub(super) fn out_of(&self, switch: SwitchIdx) -> impl Iterator<Item = u32> + use<> {
        let range = self.topology.group_range(switch);
        range.start as u32..range.end as u32
    }

    fn turn(&self, input: u32, output: u32) -> usize {
        let own = self.topology.group_range(self.to(input));
        self.first[input as usize] + (output as usize - own.start)
    }

    /// Whether a turn is known to close a cycle.
    pub(super) fn is_blocked(&self, input: u32, output: u32) -> bool {
        self.turns[self.turn(input, output)] == Turn::Blocked
    }

    /// Uses a turn. `Some` is whether it was unused before, `None` means that it would close a
    /// cycle.
    pub(super) fn take(&mut self, input: u32, output: u32) -> Option<bool> {
        let turn = self.turn(input, output);
        match self.turns[turn] {
            Turn::Used => Some(false),
            Turn::Blocked => None,
            Turn::Unused => {
                let fits = self.reorder(input, output);
                self.turns[turn] = if fits { Turn::Used } else { Turn::Blocked };
                fits.then_some(true)
            }
        }
    }

    /// Takes turns out of use. Fewer turns agree with the order all the more. Turns that they
    /// blocked stay blocked: another look at those would cost more than it can give.
    pub(super) fn take_back(&mut self, turns: &[(u32, u32)]) {
        for &(input, output) in turns {
            let turn = self.turn(input, output);
            self.turns[turn] = Turn::Unused;
        }
    }

    /// Makes the order put `input` before `output`; `false` where a way of turns leads from
    /// `output` to `input`.
    fn reorder(&mut self, input: u32, output: u32) -> bool {
        let (upper, lower) = (self.place[input as usize], self.place[output as usize]);
        if upper < lower {
            return true;
        }
        self.ahead.clear();
        self.ahead.push(output);
        self.seen[output as usize] = true;
        let mut done = 0;
        let mut closes = false;
        while let Some(&channel) = self.ahead.get(done) {
            done += 1;
            closes |= channel == input;
            for next in self.out_of(self.to(channel)) {
                if self.turns[self.turn(channel, next)] == Turn::Used
                    && self.place[next as usize] <= upper
                    && !std::mem::replace(&mut self.seen[next as usize], true)
                {
                    self.ahead.push(next);
                }
            }
        }
        if closes {
            for &channel in &self.ahead {
                self.seen[channel as usize] = false;
            }
            return false;
        }
        self.behind.clear();
        self.behind.push(input);
        self.seen[input as usize] = true;
        done = 0;
        while let Some(&channel) = self.behind.get(done) {
            done += 1;
            for out in self.out_of(self.from(channel)) {
                let before = self.reverse(out);
                if self.turns[self.turn(before, channel)] == Turn::Used
                    && self.place[before as usize] >= lower
                    && !std::mem::replace(&mut self.seen[before as usize], true)
                {
                    self.behind.push(before);
                }
            }
        }
        // Channels that lead to `input` first, then those that `output` leads to, in the places of
        // both.
        let mut behind = std::mem::take(&mut self.behind);
        let mut ahead = std::mem::take(&mut self.ahead);
        behind.sort_unstable_by_key(|&channel| self.place[channel as usize]);
        ahead.sort_unstable_by_key(|&channel| self.place[channel as usize]);
        let moved = || behind.iter().chain(&ahead).copied();
        let mut places: Vec<u32> = moved()
            .map(|channel| self.place[channel as usize])
            .collect();
        places.sort_unstable();
        for (channel, place) in moved().zip(places) {
            self.place[channel as usize] = place;
            self.seen[channel as usize] = false;
        }
        (self.behind, self.ahead) = (behind, ahead);
        true
    }
}
