//! Ports whose answer to a Set of PortInfo does not show whether they accepted the values.
//!
//! Some agents answer a Set with the values from before the Set. Other agents change their state by
//! themselves, and then refuse the Set of this state. In both cases, only a Get shows the values
//! that the port holds. A Set stays unverified until an answer to a Get or to a later Set shows its
//! values. If a Get shows other values, the Set has failed, or this kind of device never keeps the
//! field.

use std::collections::BTreeMap;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::PortInfo;
use rsm_model::port_info::FieldMask;

/// A Set of PortInfo whose effect is not verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnverifiedSet {
    /// Fields that are not verified, because the answer and the Set have different values.
    pub fields: FieldMask,
    /// The content of the Set, with the values of fields that an earlier Set left unverified.
    pub asked: PortInfo,
    /// Whether a Get has followed, and its result.
    pub reading: Reading,
}

/// Whether a Get has followed the Set, and with which result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// The port was not read since the Set.
    None,
    /// The port was read since; the answer is not compared yet.
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
    /// Records a Set of `asked` whose answer does not show whether the port accepted `fields` or
    /// the state. Returns whether the port was read after an earlier unverified Set, so that
    /// another Get would show nothing new.
    ///
    /// `answer` is the port's answer; `None` if it shows nothing about the state. Records nothing
    /// if there is an answer, `fields` is empty, and no field of an earlier Set is left unverified.
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
            // Fields of an earlier Set stay unverified, unless this Set repeats them or its answer
            // shows their values.
            let earlier = before.fields.without(fields);
            let earlier = answer.map_or(earlier, |answer| earlier.differing(&before.asked, answer));
            earlier.copy(&mut set.asked, &before.asked);
            set.fields = FieldMask(fields.0 | earlier.0);
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
    fn an_answer_with_the_values_of_a_set_verifies_it() {
        let mut unverified = UnverifiedPorts::default();
        let lid = FieldMask::ESSENTIAL.differing(&asked(), &PortInfo::default());
        assert!(!unverified.raise(PORT, lid, asked(), Some(&PortInfo::default())));
        assert_eq!(unverified.iter().count(), 1);
        unverified.raise(PORT, FieldMask::default(), asked(), Some(&asked()));
        assert_eq!(unverified.iter().count(), 0);
    }

    #[test]
    fn raise_tells_whether_the_port_was_read_since_an_earlier_unverified_set() {
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

    /// The second Set keeps the old NeighborMTU, as Sets to Active ports do. The answer shows that
    /// old MTU, which does not verify the MTU of the first Set.
    #[test]
    fn fields_of_an_earlier_set_stay_unverified() {
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
