//! Sets of leaves as bit arrays, for one thread or shared by all threads.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::order::Leaf;

const WORD_BITS: usize = u64::BITS as usize;

/// The number of words in a set of this many leaves.
pub(super) fn words(leaves: usize) -> usize {
    leaves.div_ceil(WORD_BITS)
}

/// A set of leaves, by their indices. Leaves that are close in the tree have adjacent indices, so
/// that most sets have few words with members.
#[derive(Clone)]
pub(super) struct LeafSet {
    words: Vec<u64>,
    /// The range of words that may be nonzero; all other words are 0.
    span: Range<usize>,
}

impl LeafSet {
    /// Creates the empty set, with a bit for each leaf in `words` words.
    pub(super) fn new(words: usize) -> LeafSet {
        LeafSet {
            words: vec![0; words],
            span: 0..0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.words[self.span.clone()].fill(0);
        self.span = 0..0;
    }

    pub(super) fn insert(&mut self, leaf: usize) {
        let word = leaf / WORD_BITS;
        self.words[word] |= 1 << (leaf % WORD_BITS);
        self.widen(word..word + 1);
    }

    pub(super) fn insert_all(&mut self, other: &LeafSet) {
        let span = other.span.clone();
        let words = self.words[span.clone()].iter_mut();
        words
            .zip(&other.words[span.clone()])
            .for_each(|(word, other)| *word |= other);
        self.widen(span);
    }

    /// Extends the range of words that may be nonzero.
    fn widen(&mut self, span: Range<usize>) {
        self.span = if self.span.is_empty() {
            span
        } else {
            self.span.start.min(span.start)..self.span.end.max(span.end)
        };
    }
}

/// Sets of leaves of the same size, to which all threads add. The result does not depend on the
/// order of additions.
pub(super) struct SharedSets {
    /// The number of words of each set.
    words: usize,
    /// The words of all sets, set after set.
    bits: Vec<AtomicU64>,
}

impl SharedSets {
    /// Creates `count` empty sets.
    pub(super) fn new(count: usize, words: usize) -> SharedSets {
        let zeros = std::iter::repeat_with(AtomicU64::default);
        SharedSets {
            words,
            bits: zeros.take(count * words).collect(),
        }
    }

    /// Adds the members of `set` to the set with this number. Usually all of them are members
    /// already.
    pub(super) fn insert_all(&self, number: usize, set: &LeafSet) {
        let words = self.of(number)[set.span.clone()].iter();
        for (all, &set) in words.zip(&set.words[set.span.clone()]) {
            if set & !all.load(Ordering::Relaxed) != 0 {
                all.fetch_or(set, Ordering::Relaxed);
            }
        }
    }

    /// The number of hosts of the leaves in the set with this number, and of the leaf `own`.
    /// `leaves` are all leaves, by index.
    pub(super) fn hosts(&self, number: usize, own: Option<usize>, leaves: &[Leaf]) -> u32 {
        let words = self.of(number).iter().zip(leaves.chunks(WORD_BITS));
        let hosts = words.enumerate().map(|(place, (word, leaves))| {
            let own = own
                .filter(|own| own / WORD_BITS == place)
                .map_or(0, |own| 1 << (own % WORD_BITS));
            let mut bits = word.load(Ordering::Relaxed) | own;
            let mut hosts = 0;
            while bits != 0 {
                hosts += leaves[bits.trailing_zeros() as usize].hosts;
                bits &= bits - 1;
            }
            hosts
        });
        hosts.sum()
    }

    /// The words of the set with this number.
    fn of(&self, number: usize) -> &[AtomicU64] {
        &self.bits[number * self.words..][..self.words]
    }
}
