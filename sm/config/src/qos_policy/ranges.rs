//! Sets of numbers as lists of ranges.

use std::fmt;

/// A set of numbers as ascending ranges that include both ends and are not adjacent.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Creates the set of these ranges, given in any order.
    pub fn of(mut ranges: Vec<(u64, u64)>) -> Ranges {
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Ranges(merged)
    }

    /// The set with the numbers of `more` added.
    pub fn with(self, more: Ranges) -> Ranges {
        let mut all = self.0;
        all.extend(more.0);
        Ranges::of(all)
    }

    /// Whether a number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        let after = self.0.partition_point(|&(first, _)| first <= number);
        let before = after.checked_sub(1).and_then(|before| self.0.get(before));
        before.is_some_and(|&(_, last)| number <= last)
    }

    /// Whether no number is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }
}

/// Formats in hexadecimal, such as `0x10-0x1f, 0x30`.
impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, &(first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            if first == last {
                write!(f, "{comma}{first:#x}")?;
            } else {
                write!(f, "{comma}{first:#x}-{last:#x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn adjacent_and_overlapping_ranges_are_merged() {
        let ranges = Ranges::of(vec![
            (5, 6),
            (0, 1),
            (2, 2),
            (9, 9),
            (6, 7),
            (u64::MAX, u64::MAX),
        ]);
        assert_eq!(
            ranges.to_string(),
            "0x0-0x2, 0x5-0x7, 0x9, 0xffffffffffffffff"
        );
        assert!(ranges.contains(u64::MAX) && !ranges.contains(8) && !ranges.contains(10));
        assert!(!Ranges::default().contains(0));
    }

    proptest! {
        #[test]
        fn set_contains_exactly_the_numbers_of_its_ranges(
            ranges in proptest::collection::vec((0_u64..40, 0_u64..6), 0..12),
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(first, len)| (first, first + len)).collect();
            let plain: BTreeSet<u64> = ranges.iter().flat_map(|&(a, b)| a..=b).collect();
            let set = Ranges::of(ranges);
            for number in 0..50 {
                prop_assert_eq!(set.contains(number), plain.contains(&number));
            }
        }
    }
}
