//! Classes of columns with the same ways.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::Filler;
use super::keys::{Key, ways};
use crate::digest::WordHasher;
use crate::tables::NO_PATH;

pub(super) enum Class {
    /// There is no way.
    Nowhere,
    /// There is one port.
    Port(u8),
    Mixed(Box<Mixed>),
}

/// Ports that destinations are spread over.
pub(super) struct Mixed {
    /// The divider of numbers.
    pub(super) divider: u32,
    /// The ports by turn when nothing is missing.
    pub(super) base: Vec<u8>,
    /// By port: whether it is present, and leads the cheapest way.
    pub(super) eligible: [bool; 256],
    /// Every port of `base` is eligible.
    pub(super) is_intact: bool,
    /// The ports by turn for destinations that have lost theirs.
    pub(super) detours: Vec<u8>,
}

impl Mixed {
    /// By turn: the port of [`Mixed::base`].
    pub(super) fn port_of_turn(&self) -> [u8; 256] {
        let mut ports = [NO_PATH; 256];
        ports[..self.base.len()].copy_from_slice(&self.base);
        ports
    }
}

/// The classes of one switch found so far.
pub(super) struct Classes<'f, 'a> {
    filler: &'f Filler<'a>,
    list: Vec<Class>,
    /// By way: the class of columns that have it alone, now and in the complete fabric.
    alone: Vec<Option<usize>>,
    /// By the present ways, and the ways of the complete fabric.
    others: HashMap<(Key, Key), usize, BuildHasherDefault<WordHasher>>,
}

impl<'f, 'a> Classes<'f, 'a> {
    pub(super) fn new(filler: &'f Filler<'a>) -> Classes<'f, 'a> {
        Classes {
            alone: vec![None; filler.ways.len()],
            filler,
            list: Vec::new(),
            others: HashMap::default(),
        }
    }

    /// The class of columns with these ways, of the present and of the complete fabric, one bit for
    /// each.
    pub(super) fn of(&mut self, now: Key, intact: Key) -> usize {
        let next = self.list.len();
        let class = match only_way(&now).filter(|_| now == intact) {
            Some(way) => *self.alone[way].get_or_insert(next),
            None => *self.others.entry((now, intact)).or_insert(next),
        };
        if class < next {
            return class;
        }
        let cheapest = ways(&now);
        self.list.push(if now == intact {
            self.filler.classify(&cheapest, &cheapest)
        } else {
            self.filler.classify(&cheapest, &ways(&intact))
        });
        class
    }

    pub(super) fn into_list(self) -> Vec<Class> {
        self.list
    }
}

/// The way, where there is only one.
fn only_way(key: &Key) -> Option<usize> {
    let mut words = key.iter().enumerate().filter(|(_, word)| **word != 0);
    let (number, word) = words.next()?;
    let is_only = word.is_power_of_two() && words.next().is_none();
    is_only.then(|| number * u64::BITS as usize + word.trailing_zeros() as usize)
}
