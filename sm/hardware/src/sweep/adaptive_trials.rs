//! Trials of adaptive routing, by type of switch. The encodings of the tables are not public.
//! Before any switch of a type forwards by groups, the tables are written to one switch of the
//! type, with adaptive routing off, and read back.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;
use rsm_model::capabilities::DeviceType;

use crate::sweep::Query;

/// Number of refused attempts without a success after which a type counts as without adaptive
/// routing. One refusal is not enough: a switch that was just reset refuses requests that its type
/// supports.
const REFUSED_MAX: u8 = 3;

/// Number of successive unanswered attempts after which a type counts as without adaptive routing.
/// Lost packets and dead switches also leave attempts unanswered.
const SILENT_MAX: u8 = 6;

/// How an attempt failed; an attempt is one push, or one reading back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TrialFault {
    /// The switch did not answer.
    Silent,
    /// The switch refused the Set, or did not keep its content.
    Refused,
}

/// Numbers of failed attempts of a type since its last success. Any answer also resets `silent` to
/// 0.
#[derive(Clone, Copy, Default, Debug)]
struct Failures {
    silent: u8,
    refused: u8,
}

/// The trials of all types of switches.
#[derive(Clone, Default, Debug)]
pub struct AdaptiveTrials {
    /// Types with a switch that has shown its tables as written.
    passed: BTreeSet<DeviceType>,
    failures: BTreeMap<DeviceType, Failures>,
    /// Switches whose tables are being read back, each with its unanswered queries.
    open: BTreeMap<Guid, BTreeSet<Query>>,
    /// See [`AdaptiveTrials::take_plan_outdated`].
    is_plan_outdated: bool,
}

impl AdaptiveTrials {
    /// Whether a switch of the type has shown its tables as written.
    pub fn has_passed(&self, device: DeviceType) -> bool {
        self.passed.contains(&device)
    }

    /// Records that a switch of the type has shown its tables as written.
    pub fn pass(&mut self, device: DeviceType) {
        self.passed.insert(device);
        self.failures.remove(&device);
    }

    /// Records that a switch of the type answers requests about tables of adaptive routing.
    pub fn heard(&mut self, device: DeviceType) {
        if let Some(failures) = self.failures.get_mut(&device) {
            failures.silent = 0;
        }
    }

    /// Records a failed attempt. Returns whether the type now counts as without adaptive routing.
    pub fn fail(&mut self, device: DeviceType, fault: TrialFault) -> bool {
        let failures = self.failures.entry(device).or_default();
        let is_over = match fault {
            TrialFault::Silent => {
                failures.silent = failures.silent.saturating_add(1);
                failures.silent >= SILENT_MAX
            }
            TrialFault::Refused => {
                failures.refused = failures.refused.saturating_add(1);
                failures.refused >= REFUSED_MAX
            }
        };
        if is_over {
            self.give_up(device);
        }
        is_over
    }

    /// Makes the type count as without adaptive routing.
    pub fn give_up(&mut self, device: DeviceType) {
        self.failures.remove(&device);
        self.passed.remove(&device);
        self.is_plan_outdated = true;
    }

    /// Begins to read back the tables of a switch with these queries.
    pub fn begin(&mut self, switch: Guid, questions: BTreeSet<Query>) {
        self.open.insert(switch, questions);
    }

    /// Whether the tables of a switch are being read back.
    pub fn is_open(&self, switch: Guid) -> bool {
        self.open.contains_key(&switch)
    }

    /// The unanswered queries to a switch.
    pub fn questions(&self, switch: Guid) -> impl Iterator<Item = Query> + '_ {
        self.open.get(&switch).into_iter().flatten().copied()
    }

    /// Records that the answer to `query` equals the written content. Returns whether all queries
    /// to the switch are answered now.
    pub fn confirm(&mut self, switch: Guid, query: Query) -> bool {
        let Some(open) = self.open.get_mut(&switch) else {
            return false;
        };
        open.remove(&query);
        let is_last = open.is_empty();
        if is_last {
            self.open.remove(&switch);
        }
        is_last
    }

    /// Ends reading back a switch's tables without a result.
    pub fn end(&mut self, switch: Guid) {
        self.open.remove(&switch);
    }

    /// Records that a switch was found to be able to route adaptively.
    pub fn record_capable_switch(&mut self) {
        self.is_plan_outdated = true;
    }

    /// Whether, since the last call, a type was given up or a capable switch was found, so that the
    /// plan in force is outdated.
    pub fn take_plan_outdated(&mut self) -> bool {
        std::mem::take(&mut self.is_plan_outdated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: DeviceType = DeviceType {
        vendor: 0x2C9,
        device: 0xD2F2,
        revision: 0xA0,
    };

    #[test]
    fn type_is_given_up_after_three_refusals_or_six_silences_in_a_row() {
        for (fault, tries) in [(TrialFault::Refused, 3), (TrialFault::Silent, 6)] {
            let mut trials = AdaptiveTrials::default();
            assert!(!trials.fail(DEVICE, fault));
            trials.pass(DEVICE);
            for _ in 1..tries {
                assert!(!trials.fail(DEVICE, fault), "a success counts in between");
                assert!(!trials.take_plan_outdated());
            }
            assert!(trials.has_passed(DEVICE) && trials.fail(DEVICE, fault));
            assert!(
                !trials.has_passed(DEVICE)
                    && trials.take_plan_outdated()
                    && !trials.take_plan_outdated()
            );
        }
    }

    #[test]
    fn an_answer_resets_the_count_of_silences_and_not_of_refusals() {
        let mut trials = AdaptiveTrials::default();
        for _ in 0..20 {
            assert!(!trials.fail(DEVICE, TrialFault::Silent));
            trials.heard(DEVICE);
        }
        for _ in 1..3 {
            assert!(!trials.fail(DEVICE, TrialFault::Refused));
            trials.heard(DEVICE);
        }
        assert!(trials.fail(DEVICE, TrialFault::Refused));
    }

    #[test]
    fn reading_back_ends_with_the_last_answer() {
        let mut trials = AdaptiveTrials::default();
        let questions = [0, 1].map(|block| Query::ArGroups(Guid(1), block));
        trials.begin(Guid(1), questions.into_iter().collect());
        assert!(trials.is_open(Guid(1)) && !trials.is_open(Guid(2)));
        assert!(!trials.confirm(Guid(1), questions[0]));
        assert_eq!(
            trials.questions(Guid(1)).collect::<Vec<_>>(),
            [questions[1]]
        );
        assert!(trials.confirm(Guid(1), questions[1]) && !trials.is_open(Guid(1)));
        assert!(!trials.confirm(Guid(1), questions[1]), "nothing is open");
    }
}
