//! Mutates the inputs of a corpus.

use super::{MAX_INPUT, Seed};
use crate::virtual_time::Dice;

/// Boundary values that overwrite numbers.
const EDGES: [u64; 18] = [
    0,
    1,
    2,
    19,
    20,
    21,
    63,
    64,
    127,
    128,
    220,
    221,
    255,
    256,
    0x7FFF,
    0xBFFF,
    0xC000,
    u64::MAX,
];

/// The maximum number of changes in one mutant.
const CHANGES: usize = 8;

/// The mutant of a corpus for `seed`; it depends only on the corpus and the seed.
#[must_use]
pub fn mutant(corpus: &[Seed], seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let parent = |dice: &mut Dice| match corpus.len() {
        0 => &[][..],
        count => &corpus[dice.below(count)].bytes,
    };
    let mut input = parent(&mut dice).to_vec();
    for _ in 0..=dice.below(CHANGES) {
        match dice.below(8) {
            0 => flip(&mut input, &mut dice),
            1 | 2 => overwrite(&mut input, &mut dice),
            3 => remove(&mut input, &mut dice),
            4 => repeat(&mut input, &mut dice),
            5 => insert(&mut input, &mut dice),
            6 => {
                let other = parent(&mut dice);
                splice(&mut input, other, &mut dice);
            }
            _ => {
                let other = parent(&mut dice);
                input.extend_from_slice(other);
            }
        }
        input.truncate(MAX_INPUT);
    }
    input
}

/// A random range of `input`, of at most 300 bytes; the range may be empty.
fn random_range(input: &[u8], dice: &mut Dice) -> std::ops::Range<usize> {
    let start = dice.below(input.len() + 1);
    let end = start + dice.below((input.len() - start).min(300) + 1);
    start..end
}

fn flip(input: &mut [u8], dice: &mut Dice) {
    if !input.is_empty() {
        input[dice.below(input.len())] ^= 1 << dice.below(8);
    }
}

/// Overwrites bytes of the input with a number.
fn overwrite(input: &mut [u8], dice: &mut Dice) {
    let number = match dice.below(3) {
        0 => dice.number(),
        1 => dice.pick(&EDGES),
        _ => dice.pick(&EDGES).wrapping_sub(dice.number() % 3),
    };
    let width = dice.pick(&[1, 2, 4, 8]);
    if input.len() >= width {
        let at = dice.below(input.len() - width + 1);
        input[at..at + width].copy_from_slice(&number.to_be_bytes()[8 - width..]);
    }
}

fn remove(input: &mut Vec<u8>, dice: &mut Dice) {
    let removed = random_range(input, dice);
    input.drain(removed);
}

fn repeat(input: &mut Vec<u8>, dice: &mut Dice) {
    let repeated = input[random_range(input, dice)].to_vec();
    let at = dice.below(input.len() + 1);
    input.splice(at..at, repeated);
}

fn insert(input: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(input.len() + 1);
    let byte = dice.number() as u8;
    let count = dice.below(16);
    input.splice(at..at, std::iter::repeat_n(byte, count));
}

/// Replaces a range of the input by a range of another input.
fn splice(input: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let inserted = other[random_range(other, dice)].to_vec();
    let removed = random_range(input, dice);
    input.splice(removed, inserted);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_mutant_and_seeds_differ() {
        let corpus = [
            Seed::new("a", (0..200).collect()),
            Seed::new("b", vec![7; 500]),
        ];
        let mutants: Vec<_> = (0..500).map(|seed| mutant(&corpus, seed)).collect();
        let repeated: Vec<_> = (0..500).map(|seed| mutant(&corpus, seed)).collect();
        assert_eq!(mutants, repeated);
        let different: std::collections::BTreeSet<_> = mutants.iter().collect();
        assert!(different.len() > 450, "{}", different.len());
        assert!(mutants.iter().all(|input| input.len() <= MAX_INPUT));
        // An empty corpus has mutants as well.
        assert!((0..500).any(|seed| !mutant(&[], seed).is_empty()));
    }
}
