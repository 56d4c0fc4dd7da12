//! How kinds of devices answer an optional attribute: from how many unanswered Gets on a kind counts
//! as without it.

use std::collections::BTreeMap;

use rsm_model::habits::DeviceKind;

/// How many Gets of an attribute a kind of device may leave unanswered before it counts as without
/// the attribute, if none of its devices has answered one: some of them may have been lost.
const SILENT_MAX: u8 = 3;

/// How many kinds of devices are counted: far more than a subnet has. Kinds beyond it are asked
/// again in each sweep.
const KINDS_MAX: usize = 1024;

/// How a kind of device has answered so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answers {
    /// With content.
    Some,
    /// So many times not at all.
    None(u8),
}

/// How each kind of device has answered one attribute so far.
#[derive(Clone, Default, Debug)]
pub(super) struct KindAnswers(BTreeMap<DeviceKind, Answers>);

impl KindAnswers {
    /// Records that a device of this kind has answered with content: silence of another one has
    /// another reason than its kind.
    pub(super) fn answered(&mut self, kind: DeviceKind) {
        if self.has_room(kind) {
            self.0.insert(kind, Answers::Some);
        }
    }

    /// Records that a device of this kind has left a Get unanswered. Returns whether the kind counts
    /// as without the attribute now; its count then begins anew.
    pub(super) fn unanswered(&mut self, kind: DeviceKind) -> bool {
        if !self.has_room(kind) {
            return false;
        }
        let answers = self.0.entry(kind).or_insert(Answers::None(0));
        if let Answers::None(times) = answers {
            *times = times.saturating_add(1);
        }
        let is_without = matches!(answers, Answers::None(SILENT_MAX..));
        if is_without {
            self.0.remove(&kind);
        }
        is_without
    }

    fn has_room(&self, kind: DeviceKind) -> bool {
        self.0.len() < KINDS_MAX || self.0.contains_key(&kind)
    }
}

#[cfg(test)]
mod tests {
    use rsm_model::habits::PortRole;

    use super::*;

    fn kind(device: u16) -> DeviceKind {
        DeviceKind {
            vendor: 0x2C9,
            device,
            revision: 0,
            role: PortRole::End,
        }
    }

    #[test]
    fn third_silence_of_a_kind_says_that_it_lacks_the_attribute() {
        let mut answers = KindAnswers::default();
        let silences = |answers: &mut KindAnswers, device| -> Vec<bool> {
            (0..4).map(|_| answers.unanswered(kind(device))).collect()
        };
        assert_eq!(silences(&mut answers, 1), [false, false, true, false]);
        assert_eq!(silences(&mut answers, 2), [false, false, true, false]);
    }

    #[test]
    fn silence_of_a_kind_that_has_answered_counts_no_more() {
        let mut answers = KindAnswers::default();
        assert!(!answers.unanswered(kind(1)) && !answers.unanswered(kind(1)));
        answers.answered(kind(1));
        assert!((0..300).all(|_| !answers.unanswered(kind(1))));
    }

    #[test]
    fn kinds_beyond_the_bound_are_not_counted() {
        let mut answers = KindAnswers::default();
        for device in 0..KINDS_MAX as u16 {
            answers.answered(kind(device));
        }
        let beyond = kind(u16::MAX);
        assert!((0..10).all(|_| !answers.unanswered(beyond)));
        answers.answered(beyond);
        assert_eq!(answers.0.len(), KINDS_MAX);
    }
}
