//! Classes of columns to which the same ways lead.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::Filler;
use super::keys::{Key, ways};
use crate::digest::WordHasher;
use crate::tables::NO_PATH;

/// The ports towards the columns of a class.
pub(super) enum Class {
    /// No way leads to these columns.
    Nowhere,
    /// A single port leads to these columns.
    Port(u8),
    /// Several ports, or a port that is missing now, lead to these columns.
    Mixed(Box<Mixed>),
}

/// Ports over which destinations are spread.
pub(super) struct Mixed {
    /// The number of consecutive destination numbers that share a port.
    pub(super) divider: u32,
    /// The round-robin list of ports while nothing is missing.
    pub(super) base: Vec<u8>,
    /// For each port, whether it is present and on a cheapest way.
    pub(super) eligible: [bool; 256],
    /// Whether every port of `base` is eligible.
    pub(super) is_intact: bool,
    /// The round-robin list of ports for destinations whose port is missing.
    pub(super) detours: Vec<u8>,
}

impl Mixed {
    /// [`Mixed::base`], padded to a fixed length.
    pub(super) fn port_of_slot(&self) -> [u8; 256] {
        let mut ports = [NO_PATH; 256];
        ports[..self.base.len()].copy_from_slice(&self.base);
        ports
    }
}

/// The classes of one switch found so far.
pub(super) struct Classes<'f, 'a> {
    filler: &'f Filler<'a>,
    list: Vec<Class>,
    /// For each way, the class of the columns to which only this way leads, now and in the complete
    /// fabric; `None` if no such column was seen.
    of_single_way: Vec<Option<usize>>,
    /// Classes by the present ways and the ways of the complete fabric.
    by_ways: HashMap<(Key, Key), usize, BuildHasherDefault<WordHasher>>,
}

impl<'f, 'a> Classes<'f, 'a> {
    pub(super) fn new(filler: &'f Filler<'a>) -> Classes<'f, 'a> {
        Classes {
            of_single_way: vec![None; filler.ways.len()],
            filler,
            list: Vec::new(),
            by_ways: HashMap::default(),
        }
    }

    /// The index of the class of columns with these ways, in the present and in the complete
    /// fabric.
    pub(super) fn of(&mut self, now: Key, intact: Key) -> usize {
        let next = self.list.len();
        let class = match only_way(&now).filter(|_| now == intact) {
            Some(way) => *self.of_single_way[way].get_or_insert(next),
            None => *self.by_ways.entry((now, intact)).or_insert(next),
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

    /// All classes, by index.
    pub(super) fn into_list(self) -> Vec<Class> {
        self.list
    }
}

/// The index of the only way of a key; `None` if it has no way or several.
fn only_way(key: &Key) -> Option<usize> {
    let mut words = key.iter().enumerate().filter(|(_, word)| **word != 0);
    let (number, word) = words.next()?;
    let is_only = word.is_power_of_two() && words.next().is_none();
    is_only.then(|| number * u64::BITS as usize + word.trailing_zeros() as usize)
}
