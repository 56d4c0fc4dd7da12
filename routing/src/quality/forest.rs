//! The ways that packets from all leaves take to one LID.

use crate::tables::{Lft, Tables};
use crate::topology::SwitchIdx;
use crate::verify::fabric::Fabric;

use super::order::{Host, Leaf};

/// The forwarding tables, one for each switch; missing ones are empty.
pub(super) fn rows(fabric: &Fabric<'_>, tables: &Tables) -> Vec<Lft> {
    let row = |switch| tables.lfts.get(switch).cloned().unwrap_or_default();
    (0..fabric.switches).map(row).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// On the way that is being followed.
    Open,
    Arrives,
    Lost,
}

/// Ways to one LID from some leaves, each followed as far as one that is known already.
///
/// They are kept as pieces, one for each leaf that no earlier way passes. A piece ends where an
/// earlier one passes, so that the last piece first, each from its start, is an order in which
/// every switch comes before the next on its way.
pub(super) struct Forest<'a> {
    fabric: &'a Fabric<'a>,
    rows: &'a [Lft],
    /// By switch: the round in which it was last passed.
    passed: Vec<u32>,
    round: u32,
    state: Vec<State>,
    /// (switch, channel it sends into) of all pieces that arrive.
    steps: Vec<(u16, u32)>,
    /// Where each piece ends in `steps`.
    ends: Vec<usize>,
}

impl<'a> Forest<'a> {
    pub(super) fn new(fabric: &'a Fabric<'a>, rows: &'a [Lft]) -> Forest<'a> {
        Forest {
            fabric,
            rows,
            passed: vec![0; fabric.switches],
            round: 0,
            state: vec![State::Lost; fabric.switches],
            steps: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Follows the packets from `leaves` to `host`, which hangs off `root`, and calls `lost` with
    /// the place in `leaves` of each leaf whose packets do not arrive.
    pub(super) fn grow(
        &mut self,
        host: &Host,
        root: SwitchIdx,
        leaves: &[Leaf],
        mut lost: impl FnMut(usize),
    ) {
        let byte = |switch: usize| self.rows[switch].entry(host.lid);
        self.round += 1;
        self.steps.clear();
        self.ends.clear();
        self.passed[root.index()] = self.round;
        let delivers = byte(root.index()) == host.port;
        self.state[root.index()] = if delivers {
            State::Arrives
        } else {
            State::Lost
        };
        for (place, leaf) in leaves.iter().enumerate() {
            let start = self.steps.len();
            let mut switch = leaf.switch.index();
            let arrives = loop {
                if switch == self.fabric.nowhere() {
                    break false;
                }
                if self.passed[switch] == self.round {
                    // A way that comes to itself goes round for ever.
                    break self.state[switch] == State::Arrives;
                }
                self.passed[switch] = self.round;
                self.state[switch] = State::Open;
                let channel = self.fabric.channel(switch, byte(switch));
                // Switches are fewer than LIDs, and have fewer than 256 ports.
                self.steps.push((switch as u16, channel as u32));
                switch = self.fabric.next(channel);
            };
            let state = if arrives { State::Arrives } else { State::Lost };
            for &(switch, _) in &self.steps[start..] {
                self.state[usize::from(switch)] = state;
            }
            if arrives {
                if self.steps.len() > start {
                    self.ends.push(self.steps.len());
                }
            } else {
                self.steps.truncate(start);
                lost(place);
            }
        }
    }

    /// Calls `step` with (switch, channel, next switch) for each switch on the ways that arrive:
    /// every one after all that send to it.
    pub(super) fn drain(&self, mut step: impl FnMut(usize, usize, usize)) {
        let mut end = self.steps.len();
        for piece in (0..self.ends.len()).rev() {
            let start = if piece == 0 { 0 } else { self.ends[piece - 1] };
            for &(switch, channel) in &self.steps[start..end] {
                let channel = channel as usize;
                step(usize::from(switch), channel, self.fabric.next(channel));
            }
            end = start;
        }
    }
}
