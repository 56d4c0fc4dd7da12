//! The paths that packets from all leaves take to one LID.

use crate::topology::SwitchIdx;
use crate::verify::fabric::Fabric;

use super::order::{Host, Leaf};

/// A switch on a path, with its next switch and the channel between them.
#[derive(Clone, Copy)]
pub(super) struct PathStep {
    switch: u16,
    next: u16,
    channel: u32,
}

impl PathStep {
    /// The switch from which packets go.
    pub(super) fn switch(self) -> usize {
        usize::from(self.switch)
    }

    /// The switch to which packets go next.
    pub(super) fn next(self) -> usize {
        usize::from(self.next)
    }

    /// The channel into which packets go.
    pub(super) fn channel(self) -> usize {
        self.channel as usize
    }
}

/// The paths from some leaves to one LID, each followed until it meets an earlier path.
///
/// The paths are kept as pieces, one for each leaf that no earlier path passes. A piece ends where
/// it meets an earlier piece. The pieces in reverse order, each from its start, list every switch
/// before the next switch on its path.
pub(super) struct Forest<'a> {
    fabric: &'a Fabric<'a>,
    /// For each switch, the number of the piece that last passed it.
    passed: Vec<u32>,
    /// The number of pieces of all forests so far. Each forest has two more: one for lost packets
    /// and one for its root. Hosts and switches share the LIDs, so that hosts times switches stay
    /// below 2^31.
    pieces: u32,
    /// The steps of all pieces that arrive.
    steps: Vec<PathStep>,
    /// The end of each piece in `steps`.
    ends: Vec<usize>,
}

impl<'a> Forest<'a> {
    pub(super) fn new(fabric: &'a Fabric<'a>) -> Forest<'a> {
        Forest {
            fabric,
            passed: vec![0; fabric.switches],
            pieces: 0,
            steps: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Follows the packets from `leaves` to `host`, which is attached to `root`, and calls `lost`
    /// with the index in `leaves` of each leaf whose packets do not arrive. `byte` returns a
    /// switch's table entry for the host's LID.
    pub(super) fn grow(
        &mut self,
        byte: impl Fn(usize) -> u8,
        (host, root): (&Host, SwitchIdx),
        leaves: &[Leaf],
        mut lost: impl FnMut(usize),
    ) {
        self.steps.clear();
        self.ends.clear();
        let lost_piece = self.pieces + 1;
        self.pieces += 2;
        let delivers = byte(root.index()) == host.port;
        self.passed[root.index()] = if delivers { self.pieces } else { lost_piece };
        for (place, leaf) in leaves.iter().enumerate() {
            let start = self.steps.len();
            if self.follow(&byte, leaf.switch.index(), lost_piece) {
                if self.steps.len() > start {
                    self.ends.push(self.steps.len());
                }
            } else {
                for step in &self.steps[start..] {
                    self.passed[step.switch()] = lost_piece;
                }
                self.steps.truncate(start);
                lost(place);
            }
        }
    }

    /// Follows the packets from one switch until they meet an earlier piece of the same forest, and
    /// returns whether they arrive. `lost_piece` is the number of the first piece of the forest,
    /// which stands for lost packets.
    fn follow(&mut self, byte: &impl Fn(usize) -> u8, from: usize, lost_piece: u32) -> bool {
        self.pieces += 1;
        let mut switch = from;
        while switch != self.fabric.nowhere() {
            let passed = self.passed[switch];
            if passed >= lost_piece {
                // A path that meets itself is a loop.
                return passed != lost_piece && passed != self.pieces;
            }
            self.passed[switch] = self.pieces;
            let channel = self.fabric.channel(switch, byte(switch));
            let next = self.fabric.next(channel);
            // There are fewer switches than LIDs, and each has fewer than 256 ports.
            self.steps.push(PathStep {
                switch: switch as u16,
                next: next as u16,
                channel: channel as u32,
            });
            switch = next;
        }
        false
    }

    /// Calls `pass` with the steps of the paths that arrive, each after all steps that lead to its
    /// switch.
    pub(super) fn drain(&self, mut pass: impl FnMut(PathStep)) {
        let mut end = self.steps.len();
        for piece in (0..self.ends.len()).rev() {
            let start = if piece == 0 { 0 } else { self.ends[piece - 1] };
            for &step in &self.steps[start..end] {
                pass(step);
            }
            end = start;
        }
    }
}
