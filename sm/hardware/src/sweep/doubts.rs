//! Ports that may or may not hold a Set, by its answer.
//!
//! Some agents answer a Set with the values from before, and some take a state by themselves, so
//! that they refuse its Set. Only a Get shows the truth. A doubt lasts until a Get or another
//! answer shows the values; values that a Get does not show are a failure, or a habit of the kind
//! of device.

use std::collections::BTreeMap;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::PortInfo;
use rsm_model::port_info::FieldMask;

/// The open part of a Set of PortInfo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doubt {
    /// Fields for which the answer showed another value than was set.
    pub fields: FieldMask,
    /// The content of the Set.
    pub asked: PortInfo,
    /// The result of reading the port since.
    pub reading: Reading,
}

/// The result of a Get to a port in doubt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// The port was not read since the doubt arose.
    None,
    /// The port was read in this sweep.
    New,
    /// The port was read, and did not hold the values of the Set.
    Contradicted,
}

/// All doubts, by port.
#[derive(Clone, Default, Debug)]
pub struct Doubts {
    ports: BTreeMap<PortKey, Doubt>,
}

impl Doubts {
    /// Records that the answer to a Set of `asked` left open whether the port holds `fields`, or
    /// the state. Returns whether the port was read after an earlier doubt, so that another Get
    /// would show nothing new.
    ///
    /// `answer` is the port's answer; if it leaves nothing open, and nothing was open before, there
    /// is no doubt.
    pub fn raise(
        &mut self,
        key: PortKey,
        fields: FieldMask,
        asked: PortInfo,
        answer: Option<&PortInfo>,
    ) -> bool {
        let before = self.ports.remove(&key);
        let mut doubt = Doubt {
            fields,
            asked,
            reading: before.map_or(Reading::None, |before| before.reading),
        };
        if let Some(before) = before {
            // Fields left open by an earlier Set stay open, unless this Set repeats them or its
            // answer shows them.
            let rest = before.fields.without(fields);
            let rest = answer.map_or(rest, |answer| rest.differing(&before.asked, answer));
            rest.copy(&mut doubt.asked, &before.asked);
            doubt.fields = FieldMask(fields.0 | rest.0);
        }
        if answer.is_none() || !doubt.fields.is_empty() {
            self.ports.insert(key, doubt);
        }
        doubt.reading != Reading::None
    }

    /// Records that the port answered a Get.
    pub(super) fn on_read(&mut self, key: PortKey) {
        if let Some(doubt) = self.ports.get_mut(&key) {
            doubt.reading = Reading::New;
        }
    }

    /// Records that the port was read, and does not hold the values of the Set.
    pub fn contradict(&mut self, key: PortKey) {
        if let Some(doubt) = self.ports.get_mut(&key) {
            doubt.reading = Reading::Contradicted;
        }
    }

    /// Records that the port holds the values of the Set.
    pub fn settle(&mut self, key: PortKey) {
        self.ports.remove(&key);
    }

    /// Drops the doubts about ports for which `is_open` is false.
    pub fn retain(&mut self, is_open: impl Fn(PortKey) -> bool) {
        self.ports.retain(|&key, _| is_open(key));
    }

    /// All doubts.
    pub fn iter(&self) -> impl Iterator<Item = (PortKey, Doubt)> + '_ {
        self.ports.iter().map(|(&key, &doubt)| (key, doubt))
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
    fn doubt_ends_with_an_answer_that_shows_the_values() {
        let mut doubts = Doubts::default();
        let lid = FieldMask::ESSENTIAL.differing(&asked(), &PortInfo::default());
        assert!(!doubts.raise(PORT, lid, asked(), Some(&PortInfo::default())));
        assert_eq!(doubts.iter().count(), 1);
        doubts.raise(PORT, FieldMask::default(), asked(), Some(&asked()));
        assert_eq!(doubts.iter().count(), 0);
    }

    #[test]
    fn doubt_raised_again_after_a_reading_says_so() {
        let mut doubts = Doubts::default();
        let lid = FieldMask::ESSENTIAL.differing(&asked(), &PortInfo::default());
        assert!(!doubts.raise(PORT, lid, asked(), None));
        assert!(!doubts.raise(PORT, lid, asked(), None), "not read between");
        doubts.on_read(PORT);
        assert!(doubts.raise(PORT, lid, asked(), None));
    }

    /// A Set of an Active port leaves NeighborMTU as it is: its answer shows nothing about a field
    /// that an earlier one left open.
    #[test]
    fn fields_of_an_earlier_set_stay_open() {
        let mut doubts = Doubts::default();
        let mut first = PortInfo::default();
        first.set_neighbor_mtu(rsm_mad::wire::attr::Mtu::from_code(5));
        let (old, mtu) = (PortInfo::default(), FieldMask::ESSENTIAL);
        let mtu = mtu.differing(&first, &old);
        doubts.raise(PORT, mtu, first, Some(&old));
        doubts.raise(PORT, FieldMask::default(), old, Some(&old));
        let (_, doubt) = doubts.iter().next().expect("MTU is open");
        assert_eq!(
            (doubt.fields, doubt.asked.neighbor_mtu()),
            (mtu, first.neighbor_mtu())
        );
    }
}
