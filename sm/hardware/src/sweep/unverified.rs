//! Ports whose answer to a Set of PortInfo leaves open whether they hold its values.
//!
//! Some agents answer a Set with the values from before the Set. Other agents change their state by
//! themselves and then refuse the Set of this state. Only a Get shows the values that such a port
//! holds. A Set stays unverified until a Get or another answer shows its values. If a Get shows
//! other values, the Set has failed, or this kind of device never keeps the field.

use std::collections::BTreeMap;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::PortInfo;
use rsm_model::port_info::FieldMask;

/// A Set of PortInfo whose effect is not verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnverifiedSet {
    /// Fields whose value in the answer differs from their value in the Set.
    pub fields: FieldMask,
    /// The content of the Set.
    pub asked: PortInfo,
    /// The result of the Get that followed, if any.
    pub reading: Reading,
}

/// Result of a Get that verifies a Set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// The port was not read since the Set.
    None,
    /// The port was read in this sweep; the answer is not compared yet.
    New,
    /// The port was read, and did not hold the values of the Set.
    Contradicted,
}

/// The unverified Set of each port that has one.
#[derive(Clone, Default, Debug)]
pub struct UnverifiedPorts {
    ports: BTreeMap<PortKey, UnverifiedSet>,
}

impl UnverifiedPorts {
    /// Records that the answer to a Set of `asked` left open whether the port holds `fields`, or
    /// the state. Returns whether the port was read after an earlier unverified Set, so that
    /// another Get would show nothing new.
    ///
    /// `answer` is the port's answer; `None` if it shows nothing about the state. Records nothing
    /// if the answer shows all fields and no earlier Set left any open.
    pub fn raise(
        &mut self,
        key: PortKey,
        fields: FieldMask,
        asked: PortInfo,
        answer: Option<&PortInfo>,
    ) -> bool {
        let before = self.ports.remove(&key);
        let mut set = UnverifiedSet {
            fields,
            asked,
            reading: before.map_or(Reading::None, |before| before.reading),
        };
        if let Some(before) = before {
            // Fields that an earlier Set left open stay open, unless this Set repeats them or its
            // answer shows them.
            let rest = before.fields.without(fields);
            let rest = answer.map_or(rest, |answer| rest.differing(&before.asked, answer));
            rest.copy(&mut set.asked, &before.asked);
            set.fields = FieldMask(fields.0 | rest.0);
        }
        if answer.is_none() || !set.fields.is_empty() {
            self.ports.insert(key, set);
        }
        set.reading != Reading::None
    }

    /// Records that the port answered a Get.
    pub(super) fn on_read(&mut self, key: PortKey) {
        if let Some(set) = self.ports.get_mut(&key) {
            set.reading = Reading::New;
        }
    }

    /// Records that the port was read, and does not hold the values of the Set.
    pub fn contradict(&mut self, key: PortKey) {
        if let Some(set) = self.ports.get_mut(&key) {
            set.reading = Reading::Contradicted;
        }
    }

    /// Records that the port holds the values of the Set.
    pub fn settle(&mut self, key: PortKey) {
        self.ports.remove(&key);
    }

    /// Drops the unverified Sets of ports for which `is_open` returns false.
    pub fn retain(&mut self, is_open: impl Fn(PortKey) -> bool) {
        self.ports.retain(|&key, _| is_open(key));
    }

    /// The unverified Sets, in the order of ports.
    pub fn iter(&self) -> impl Iterator<Item = (PortKey, UnverifiedSet)> + '_ {
        self.ports.iter().map(|(&key, &set)| (key, set))
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, Lid, PortNum};

    use super::*;

    const PORT: PortKey = PortKey::new(Guid(1), PortNum(1));

    fn asked() -> PortInfo {
        let mut info = PortInfo::default();
        info.set_lid(Lid(7)).set_hoq_life(3);
        info
    }

    #[test]
    fn an_answer_with_the_values_verifies_a_set() {
        let mut unverified = UnverifiedPorts::default();
        let lid = FieldMask::ESSENTIAL.differing(&asked(), &PortInfo::default());
        assert!(!unverified.raise(PORT, lid, asked(), Some(&PortInfo::default())));
        assert_eq!(unverified.iter().count(), 1);
        unverified.raise(PORT, FieldMask::default(), asked(), Some(&asked()));
        assert_eq!(unverified.iter().count(), 0);
    }

    #[test]
    fn an_unverified_set_after_a_reading_says_so() {
        let mut unverified = UnverifiedPorts::default();
        let lid = FieldMask::ESSENTIAL.differing(&asked(), &PortInfo::default());
        assert!(!unverified.raise(PORT, lid, asked(), None));
        assert!(
            !unverified.raise(PORT, lid, asked(), None),
            "not read between"
        );
        unverified.on_read(PORT);
        assert!(unverified.raise(PORT, lid, asked(), None));
    }

    /// A Set of an Active port leaves NeighborMTU as it is, so that its answer shows nothing about
    /// a field that an earlier Set left open.
    #[test]
    fn fields_of_an_earlier_set_stay_open() {
        let mut unverified = UnverifiedPorts::default();
        let mut first = PortInfo::default();
        first.set_neighbor_mtu(rsm_mad::wire::attr::Mtu::from_code(5));
        let (old, mtu) = (PortInfo::default(), FieldMask::ESSENTIAL);
        let mtu = mtu.differing(&first, &old);
        unverified.raise(PORT, mtu, first, Some(&old));
        unverified.raise(PORT, FieldMask::default(), old, Some(&old));
        let (_, set) = unverified.iter().next().expect("MTU is open");
        assert_eq!(
            (set.fields, set.asked.neighbor_mtu()),
            (mtu, first.neighbor_mtu())
        );
    }
}
