//! Decides whether a kind of device lacks an optional attribute, by the answers of all devices of
//! the kind.

use std::collections::BTreeMap;

use rsm_model::habits::DeviceKind;

/// Number of unanswered Gets of an attribute after which a kind of device counts as without the
/// attribute, if no device of the kind has answered. More than one, because packets may be lost.
const SILENT_MAX: u8 = 3;

/// Maximum number of kinds of devices counted, far more than a subnet has. Further kinds are asked
/// in each sweep.
const KINDS_MAX: usize = 1024;

/// Answers of one kind of device so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answers {
    /// A device has answered with content.
    Some,
    /// No device has answered. The number counts the Gets that devices left unanswered.
    None(u8),
}

/// Answers of each kind of device to one attribute so far.
#[derive(Clone, Default, Debug)]
pub(super) struct KindAnswers(BTreeMap<DeviceKind, Answers>);

impl KindAnswers {
    /// Records that a device of this kind answered with content: the kind has the attribute, so
    /// later silence has another cause and is not counted.
    pub(super) fn answered(&mut self, kind: DeviceKind) {
        if self.has_room(kind) {
            self.0.insert(kind, Answers::Some);
        }
    }

    /// Records that a device of this kind left a Get unanswered. Returns whether the kind now
    /// counts as without the attribute; counting then starts again.
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

    /// Whether answers of this kind are counted.
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
    fn kind_lacks_the_attribute_after_its_third_unanswered_get() {
        let mut answers = KindAnswers::default();
        let silences = |answers: &mut KindAnswers, device| -> Vec<bool> {
            (0..4).map(|_| answers.unanswered(kind(device))).collect()
        };
        assert_eq!(silences(&mut answers, 1), [false, false, true, false]);
        assert_eq!(silences(&mut answers, 2), [false, false, true, false]);
    }

    #[test]
    fn unanswered_gets_of_a_kind_that_has_answered_are_not_counted() {
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
