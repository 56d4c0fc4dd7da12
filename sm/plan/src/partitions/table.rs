//! Assigns an index in the P_KeyTable to each key.

use rsm_mad::wire::attr::PKey;
use rsm_model::p_keys::PKeyImage;

/// The keys of one table by index.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Arrangement {
    /// Keys by index, up to the last one in use.
    pub(super) keys: Vec<PKey>,
    /// Keys for which there was no room.
    pub(super) left_out: Vec<PKey>,
}

/// The key that must be at index 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum First {
    /// The operator claims index 0 for this key, which moves there.
    Claimed(PKey),
    /// This key goes to index 0, unless the port holds it at another index and index 0 has another
    /// key that stays. If the key at index 0 is removed, this key takes its place, as with OpenSM.
    Usual(PKey),
    /// Any key may be at index 0.
    Any,
}

impl First {
    /// The key to put at index 0 of a port that holds the keys `held`; `None` to keep the key
    /// there.
    fn put(self, held: &[PKey]) -> Option<PKey> {
        match self {
            First::Claimed(key) => Some(key),
            First::Usual(key) => {
                let is_it = |held: &PKey| held.is_valid() && held.base() == key.base();
                let stays = held.iter().position(is_it).is_some_and(|index| index > 0);
                (!stays).then_some(key)
            }
            First::Any => None,
        }
    }
}

/// Arranges `wanted` in a table of `capacity` keys, with `first` at index 0. While there is room,
/// no other new key goes to a reserved index 0. A reserved index 0 is never empty, because programs
/// that know only one partition use the key there. There is one exception: OpenSM leaves it empty
/// beside the limited membership of the usual key, and such a table keeps its content.
///
/// Queue pairs refer to keys by index: a key keeps its index in `held`, even if its membership
/// changes. New keys get the lowest indices, empty indices before vacated ones.
pub(super) fn arrange(
    held: Option<&PKeyImage>,
    wanted: &[PKey],
    first: First,
    capacity: usize,
) -> Arrangement {
    let arrangement = place(held, wanted, first, capacity);
    let at_0 = arrangement.keys.first().copied();
    let held_at_0 = held.and_then(|held| held.keys().first().copied());
    let stays =
        |key: PKey| key.is_valid() && held_at_0.is_some_and(|held| held.base() == key.base());
    let is_as_by_opensm = |usual: PKey| {
        let is_empty = held_at_0.is_some_and(|held| !held.is_valid());
        !usual.is_full() && is_empty && held.is_some_and(|held| held.keys().contains(&usual))
    };
    match (first, at_0) {
        (First::Usual(usual), Some(key))
            if key != usual && !stays(key) && !is_as_by_opensm(usual) =>
        {
            place(held, wanted, First::Claimed(usual), capacity)
        }
        _ => arrangement,
    }
}

fn place(held: Option<&PKeyImage>, wanted: &[PKey], first: First, capacity: usize) -> Arrangement {
    let held = held.map_or(&[][..], PKeyImage::keys);
    let held = &held[..held.len().min(capacity)];
    let mut slots = Slots { keys: Vec::new() };
    let mut left = wanted.to_vec();
    let mut lowest = 0;
    if let Some(first) = first.put(held).filter(|_| capacity > 0) {
        slots.put(0, first);
        left.retain(|&key| key != first);
        lowest = 1;
    }
    let same: [fn(PKey, PKey) -> bool; 2] = [|a, b| a == b, |a, b| a.base() == b.base()];
    for same in same {
        for (index, &key) in held.iter().enumerate().skip(lowest) {
            if !key.is_valid() || slots.has(index) {
                continue;
            }
            if let Some(at) = left.iter().position(|&wanted| same(wanted, key)) {
                slots.put(index, left.remove(at));
            }
        }
    }
    let is_held = |index: usize| held.get(index).is_some_and(|key| key.is_valid());
    let mut left = left.into_iter().peekable();
    let reserved = usize::from(first != First::Any);
    for (vacated, lowest) in [(false, reserved), (true, reserved), (false, 0), (true, 0)] {
        for index in lowest..capacity {
            if left.peek().is_none() {
                break;
            }
            if !slots.has(index)
                && is_held(index) == vacated
                && let Some(key) = left.next()
            {
                slots.put(index, key);
            }
        }
    }
    Arrangement {
        keys: slots.keys,
        left_out: left.collect(),
    }
}

struct Slots {
    keys: Vec<PKey>,
}

impl Slots {
    fn has(&self, index: usize) -> bool {
        self.keys.get(index).is_some_and(|key| key.is_valid())
    }

    fn put(&mut self, index: usize, key: PKey) {
        if self.keys.len() <= index {
            self.keys.resize(index + 1, PKey::INVALID);
        }
        self.keys[index] = key;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rsm_mad::wire::attr::PKeyTable;

    use super::*;

    fn keys(raw: &[u16]) -> Vec<PKey> {
        raw.iter().copied().map(PKey).collect()
    }

    fn image(raw: &[u16]) -> PKeyImage {
        let mut image = PKeyImage::default();
        for (block, part) in keys(raw).chunks(PKeyTable::ENTRIES).enumerate() {
            image.store(block as u16, part);
        }
        image
    }

    fn arranged(held: &[u16], wanted: &[u16], first: Option<u16>, capacity: usize) -> Vec<u16> {
        let held = image(held);
        let first = first.map_or(First::Any, |first| First::Claimed(PKey(first)));
        let arrangement = arrange(Some(&held), &keys(wanted), first, capacity);
        assert_eq!(arrangement.left_out, []);
        arrangement.keys.iter().map(|key| key.0).collect()
    }

    #[test]
    fn fresh_table_is_filled_from_index_0() {
        let wanted = [0x8001, 0x0002, 0x7fff];
        assert_eq!(
            arranged(&[0xffff], &wanted, Some(0x7fff), 32),
            [0x7fff, 0x8001, 2]
        );
        assert_eq!(arranged(&[], &wanted, None, 3), [0x8001, 2, 0x7fff]);
    }

    #[test]
    fn held_keys_keep_their_indices() {
        let held = [0xffff, 0x8001, 0x8002, 0x8003];
        // Key 1 is removed, the membership of key 3 changes, keys 4 and 5 are new: key 4 does not
        // take the index of key 1 while another index is empty.
        assert_eq!(
            arranged(&held, &[0x8002, 3, 4, 5, 0xffff], Some(0xffff), 32),
            [0xffff, 0, 0x8002, 3, 4, 5]
        );
        assert_eq!(
            arranged(&held, &[0x8002, 3, 4, 5, 0xffff], Some(0xffff), 5),
            [0xffff, 5, 0x8002, 3, 4]
        );
        // There is a duplicate key, and both keys of one partition.
        assert_eq!(
            arranged(
                &[0xffff, 1, 1, 0x8001],
                &[1, 0x8001, 0xffff],
                Some(0xffff),
                8
            ),
            [0xffff, 1, 0, 0x8001]
        );
    }

    #[test]
    fn first_key_moves_to_index_0() {
        let held = [0xffff, 0x8001, 0x8002];
        assert_eq!(
            arranged(&held, &[0x8001, 0x8002, 0xffff], Some(0x8002), 8),
            [0x8002, 0x8001, 0, 0xffff]
        );
        assert_eq!(
            arranged(&[0x8002], &[0x8002, 0xffff], Some(0xffff), 2),
            [0xffff, 0x8002]
        );
    }

    #[test]
    fn usual_first_key_stays_at_the_index_where_it_is_held() {
        let arranged = |held: &[u16], wanted: &[u16], capacity| {
            let first = First::Usual(PKey(0x7fff));
            let arrangement = arrange(Some(&image(held)), &keys(wanted), first, capacity);
            let raw = |keys: Vec<PKey>| keys.iter().map(|key| key.0).collect::<Vec<_>>();
            (raw(arrangement.keys), raw(arrangement.left_out))
        };
        // Another manager has put the key after a tenant's key; new keys leave index 0 alone.
        let held = [0x8020, 0, 0x7fff];
        assert_eq!(arranged(&held, &[0x8020, 0x7fff], 8).0, held);
        let with_new = arranged(&held, &[0x8010, 0x8020, 0x7fff], 8).0;
        assert_eq!(with_new, [0x8020, 0x8010, 0x7fff]);
        // The membership may change in place; a port without the key gets it at index 0.
        assert_eq!(
            arranged(&[0x8020, 0xffff], &[0x8020, 0x7fff], 8).0,
            [0x8020, 0x7fff]
        );
        assert_eq!(arranged(&[0xffff, 0x7fff], &[0x7fff], 8).0, [0x7fff]);
        assert_eq!(arranged(&[], &[0x7fff], 8).0, [0x7fff]);
        assert_eq!(
            arranged(&[0x8020], &[0x8020, 0x7fff], 8).0,
            [0x7fff, 0x8020]
        );
    }

    #[test]
    fn limited_first_key_stays_where_opensm_left_index_0_empty() {
        let arranged = |held: &[u16]| {
            let first = First::Usual(PKey(0x7fff));
            let wanted = keys(&[0x7fff, 0x0020]);
            let arrangement = arrange(Some(&image(held)), &wanted, first, 8);
            arrangement.keys.iter().map(|key| key.0).collect::<Vec<_>>()
        };
        assert_eq!(arranged(&[0, 0x7fff, 0x0020]), [0, 0x7fff, 0x0020]);
        // A removed partition leaves no empty index 0.
        assert_eq!(arranged(&[0x8010, 0x7fff, 0x0020]), [0x7fff, 0, 0x0020]);
        assert_eq!(arranged(&[]), [0x7fff, 0x0020]);
    }

    #[test]
    fn usual_first_key_moves_to_an_index_0_that_is_empty_or_whose_key_goes() {
        let arranged = |held: &[u16], wanted: &[u16], capacity| {
            let first = First::Usual(PKey(0xffff));
            let arrangement = arrange(Some(&image(held)), &keys(wanted), first, capacity);
            let raw = |keys: Vec<PKey>| keys.iter().map(|key| key.0).collect::<Vec<_>>();
            (raw(arrangement.keys), raw(arrangement.left_out))
        };
        // The partition at index 0 is removed; another manager, or an earlier version, left it
        // empty.
        assert_eq!(arranged(&[0x8010, 0xffff], &[0xffff], 8).0, [0xffff]);
        assert_eq!(arranged(&[0, 0xffff], &[0xffff], 8).0, [0xffff]);
        let held = [0, 0x8020, 0x7fff];
        assert_eq!(arranged(&held, &[0x8020, 0xffff], 8).0, [0xffff, 0x8020]);
        let with_new = arranged(&held, &[0x8010, 0x8020, 0xffff], 8).0;
        assert_eq!(with_new, [0xffff, 0x8020, 0, 0x8010]);
        // The key at index 0 is wanted, and also held at another index, where it stays.
        assert_eq!(
            arranged(&[0x0010, 0xffff, 0x8010], &[0x8010, 0xffff], 8).0,
            [0xffff, 0, 0x8010]
        );
        let full = arranged(&held, &[0x8010, 0x8020, 0x8030, 0xffff], 3);
        assert_eq!(full, (vec![0xffff, 0x8020, 0x8010], vec![0x8030]));
    }

    #[test]
    fn keys_beyond_the_capacity_are_left_out() {
        let held = image(&[0xffff, 0x8005]);
        let wanted = keys(&[0x8001, 0x8005, 0x8006, 0xffff]);
        let arrangement = arrange(Some(&held), &wanted, First::Claimed(PKey(0xffff)), 2);
        assert_eq!(arrangement.keys, keys(&[0xffff, 0x8005]));
        assert_eq!(arrangement.left_out, keys(&[0x8001, 0x8006]));
        let none = arrange(None, &wanted, First::Claimed(PKey(0xffff)), 0);
        assert_eq!((none.keys.len(), none.left_out.len()), (0, 4));
    }

    /// A port's membership in a partition, and whether the partition claims index 0.
    fn one_partition() -> impl Strategy<Value = Option<(bool, bool)>> {
        proptest::option::of((any::<bool>(), any::<bool>()))
    }

    proptest! {
        /// Whatever partitions are added and removed, and whatever the table held before: a port
        /// with keys has one at index 0, the claimed one, or that of the default partition if the
        /// partition there was removed; and no other key moves.
        #[test]
        fn index_0_is_never_empty_over_changes_of_partitions(
            mut held in proptest::collection::vec(0u16..8, 0..10),
            steps in proptest::collection::vec(proptest::collection::vec(one_partition(), 7), 1..12),
            capacity in 1usize..12,
        ) {
            for step in steps {
                let default = PKey(0xffff);
                let mut wanted = vec![default];
                let mut first = First::Usual(default);
                for (base, partition) in (1u16..).zip(step) {
                    let Some((is_full, claims)) = partition else { continue };
                    let key = PKey(base | if is_full { 0x8000 } else { 0 });
                    wanted.push(key);
                    if claims {
                        first = First::Claimed(key);
                    }
                }
                let got = arrange(Some(&image(&held)), &wanted, first, capacity);
                prop_assert!(got.keys[0].is_valid(), "{held:x?}: {got:?}");
                prop_assert_eq!(got.left_out.is_empty(), wanted.len() <= capacity);
                match first {
                    First::Claimed(key) => prop_assert_eq!(got.keys[0], key),
                    First::Usual(_) | First::Any => {
                        let stays = held.first().is_some_and(|&key| PKey(key).base() == got.keys[0].base());
                        prop_assert!(stays || got.keys[0] == default, "{held:x?}: {got:?}");
                    }
                }
                held = got.keys.iter().map(|key| key.0).collect();
            }
        }

        #[test]
        fn each_key_has_one_index_and_held_keys_stay(
            held in proptest::collection::vec(0u16..40, 0..70),
            wanted in proptest::collection::btree_set(1u16..40, 1..40),
            capacity in 1usize..70,
        ) {
            let wanted: Vec<u16> = wanted.into_iter().collect();
            let first = wanted[wanted.len() / 2];
            let Arrangement { keys: got, left_out } =
                arrange(Some(&image(&held)), &keys(&wanted), First::Claimed(PKey(first)), capacity);
            prop_assert!(got.len() <= capacity);
            prop_assert_eq!(got[0], PKey(first));
            let mut all: Vec<u16> = got.iter().filter(|key| key.is_valid()).chain(&left_out).map(|key| key.0).collect();
            all.sort_unstable();
            prop_assert_eq!(&all, &wanted);
            let full = got.iter().filter(|key| key.is_valid()).count() == capacity;
            prop_assert!(left_out.is_empty() || full);
            let mut seen = vec![first, 0];
            for (index, key) in held.iter().enumerate().take(capacity).skip(1) {
                if wanted.contains(key) && !seen.contains(key) {
                    prop_assert_eq!(got[index], PKey(*key));
                    seen.push(*key);
                }
            }
        }
    }
}
