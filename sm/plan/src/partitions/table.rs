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

/// The rule for index 0 of a P_KeyTable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Index0 {
    /// The operator claims index 0 for this key, which moves there.
    Claimed(PKey),
    /// The default key. The key goes to index 0, except where the port holds it at another index
    /// and the key at index 0 stays. If the key at index 0 is removed, the default key takes its
    /// place, as with OpenSM.
    Default(PKey),
    /// Any key may be at index 0.
    Any,
}

impl Index0 {
    /// The key to put at index 0 of a port that holds the keys `held`; `None` if no key must be
    /// there.
    fn forced_key(self, held: &[PKey]) -> Option<PKey> {
        match self {
            Index0::Claimed(key) => Some(key),
            Index0::Default(key) => {
                let is_key = |held: &PKey| held.is_valid() && held.base() == key.base();
                let index = held.iter().position(is_key);
                index.is_none_or(|index| index == 0).then_some(key)
            }
            Index0::Any => None,
        }
    }
}

/// Assigns `wanted` to the indices of a table of `capacity` keys. `held` is the present table;
/// `None` if it is not known.
///
/// `index_0` decides about index 0. Unless it is [`Index0::Any`], a new key goes to index 0 only
/// when no other index is free, and index 0 is never empty, because programs that know only one
/// partition use the key there. Exception: a table in which OpenSM left index 0 empty, with a
/// limited default key at another index, is kept.
///
/// Queue pairs refer to keys by index: a key keeps its index in `held`, even if its membership
/// changes. New keys get the lowest indices, empty indices before vacated ones.
pub(super) fn arrange(
    held: Option<&PKeyImage>,
    wanted: &[PKey],
    index_0: Index0,
    capacity: usize,
) -> Arrangement {
    let arrangement = assign(held, wanted, index_0, capacity);
    let at_0 = arrangement.keys.first().copied();
    let held_at_0 = held.and_then(|held| held.keys().first().copied());
    let stays =
        |key: PKey| key.is_valid() && held_at_0.is_some_and(|held| held.base() == key.base());
    let is_left_by_opensm = |default: PKey| {
        let is_empty = held_at_0.is_some_and(|held| !held.is_valid());
        !default.is_full() && is_empty && held.is_some_and(|held| held.keys().contains(&default))
    };
    match (index_0, at_0) {
        (Index0::Default(default), Some(key))
            if key != default && !stays(key) && !is_left_by_opensm(default) =>
        {
            assign(held, wanted, Index0::Claimed(default), capacity)
        }
        _ => arrangement,
    }
}

/// Assigns `wanted` to indices by one pass over the rules; may leave index 0 empty.
fn assign(
    held: Option<&PKeyImage>,
    wanted: &[PKey],
    index_0: Index0,
    capacity: usize,
) -> Arrangement {
    let held = held.map_or(&[][..], PKeyImage::keys);
    let held = &held[..held.len().min(capacity)];
    let mut slots = Slots { keys: Vec::new() };
    let mut remaining = wanted.to_vec();
    let mut lowest = 0;
    if let Some(first) = index_0.forced_key(held).filter(|_| capacity > 0) {
        slots.put(0, first);
        remaining.retain(|&key| key != first);
        lowest = 1;
    }
    // Exact matches first, so that both memberships of one partition keep their indices.
    let matches: [fn(PKey, PKey) -> bool; 2] = [|a, b| a == b, |a, b| a.base() == b.base()];
    for matches in matches {
        for (index, &key) in held.iter().enumerate().skip(lowest) {
            if !key.is_valid() || slots.has(index) {
                continue;
            }
            if let Some(at) = remaining.iter().position(|&wanted| matches(wanted, key)) {
                slots.put(index, remaining.remove(at));
            }
        }
    }
    let is_held = |index: usize| held.get(index).is_some_and(|key| key.is_valid());
    let mut new = remaining.into_iter().peekable();
    let after_0 = usize::from(index_0 != Index0::Any);
    for (vacated, lowest) in [(false, after_0), (true, after_0), (false, 0), (true, 0)] {
        for index in lowest..capacity {
            if new.peek().is_none() {
                break;
            }
            if !slots.has(index)
                && is_held(index) == vacated
                && let Some(key) = new.next()
            {
                slots.put(index, key);
            }
        }
    }
    Arrangement {
        keys: slots.keys,
        left_out: new.collect(),
    }
}

/// A table under construction.
struct Slots {
    /// Keys by index; [`PKey::INVALID`] at empty indices.
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
        for (block, block_keys) in keys(raw).chunks(PKeyTable::ENTRIES).enumerate() {
            image.store(block as u16, block_keys);
        }
        image
    }

    fn arranged(held: &[u16], wanted: &[u16], first: Option<u16>, capacity: usize) -> Vec<u16> {
        let held = image(held);
        let first = first.map_or(Index0::Any, |first| Index0::Claimed(PKey(first)));
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
    fn claimed_key_moves_to_index_0() {
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
    fn default_key_stays_at_the_index_where_it_is_held() {
        let arranged = |held: &[u16], wanted: &[u16], capacity| {
            let first = Index0::Default(PKey(0x7fff));
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
    fn limited_default_key_stays_where_opensm_left_index_0_empty() {
        let arranged = |held: &[u16]| {
            let first = Index0::Default(PKey(0x7fff));
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
    fn default_key_moves_to_index_0_if_it_is_empty_or_its_key_is_removed() {
        let arranged = |held: &[u16], wanted: &[u16], capacity| {
            let first = Index0::Default(PKey(0xffff));
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
        let arrangement = arrange(Some(&held), &wanted, Index0::Claimed(PKey(0xffff)), 2);
        assert_eq!(arrangement.keys, keys(&[0xffff, 0x8005]));
        assert_eq!(arrangement.left_out, keys(&[0x8001, 0x8006]));
        let none = arrange(None, &wanted, Index0::Claimed(PKey(0xffff)), 0);
        assert_eq!((none.keys.len(), none.left_out.len()), (0, 4));
    }

    /// A port's membership in a partition, and whether the partition claims index 0.
    fn one_partition() -> impl Strategy<Value = Option<(bool, bool)>> {
        proptest::option::of((any::<bool>(), any::<bool>()))
    }

    proptest! {
        /// After any additions and removals of partitions, from any initial table, a port with keys
        /// has a key at index 0: the claimed key; otherwise the key that was there before, or the
        /// default key if that partition was removed.
        #[test]
        fn index_0_is_never_empty_over_changes_of_partitions(
            mut held in proptest::collection::vec(0u16..8, 0..10),
            steps in proptest::collection::vec(proptest::collection::vec(one_partition(), 7), 1..12),
            capacity in 1usize..12,
        ) {
            for step in steps {
                let default = PKey(0xffff);
                let mut wanted = vec![default];
                let mut first = Index0::Default(default);
                for (base, partition) in (1u16..).zip(step) {
                    let Some((is_full, claims)) = partition else { continue };
                    let key = PKey(base | if is_full { 0x8000 } else { 0 });
                    wanted.push(key);
                    if claims {
                        first = Index0::Claimed(key);
                    }
                }
                let got = arrange(Some(&image(&held)), &wanted, first, capacity);
                prop_assert!(got.keys[0].is_valid(), "{held:x?}: {got:?}");
                prop_assert_eq!(got.left_out.is_empty(), wanted.len() <= capacity);
                match first {
                    Index0::Claimed(key) => prop_assert_eq!(got.keys[0], key),
                    Index0::Default(_) | Index0::Any => {
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
                arrange(Some(&image(&held)), &keys(&wanted), Index0::Claimed(PKey(first)), capacity);
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
