//! The phases of a push. The Sets of one phase must be settled on all switches before the Sets of
//! the next phase are sent.
//!
//! ```text
//! Adaptive    groups of adaptive routing go out of force where tables change
//! Interim(0)  the first interim tables; SwitchInfo, unless it is sent last;
//!             multicast tables lose ports
//! SlToVl      SLtoVLMappingTables
//! Links       no tables: links that later tables lead to become Active
//! Interim(1…) further interim tables
//! Last        the planned tables; multicast tables gain ports
//! ```
//!
//! Most pushes have only the last phase. [`Task::needs`](super::Task::needs) lists the other
//! conditions of each Set.

/// A part of a push that must be settled before the next part begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Groups of adaptive routing go out of force.
    Adaptive,
    /// Every switch gets the interim table with this index.
    Interim(usize),
    /// SLtoVLMappingTables are written.
    SlToVl,
    /// Links that later tables lead to become Active.
    Links,
    /// The planned tables are written.
    Last,
}

/// The phases of one push, and the current one.
#[derive(Debug)]
pub(super) struct Phases {
    list: Vec<Phase>,
    /// Index of the current phase in the list.
    at: usize,
    /// Number of phases in the list that precede the interim tables: 1 with [`Phase::Adaptive`],
    /// else 0.
    before: usize,
    /// Number of Sets or links that must be settled before the next phase begins.
    pub(super) unmet: usize,
}

impl Phases {
    /// A push with only the last phase.
    pub(super) fn last() -> Phases {
        Phases {
            list: vec![Phase::Last],
            at: 0,
            before: 0,
            unmet: 0,
        }
    }

    /// A push with this many interim tables, with an SLtoVL phase if `sl2vl`, and with a phase of
    /// links if `links`.
    ///
    /// The first `cuts` interim tables only remove entries. The phase of links follows the interim
    /// table after these.
    pub(super) fn new(interim: usize, cuts: usize, sl2vl: bool, links: bool) -> Phases {
        let mut list: Vec<Phase> = (0..=cuts).map(Phase::Interim).collect();
        list.extend(sl2vl.then_some(Phase::SlToVl));
        list.extend(links.then_some(Phase::Links));
        list.extend((cuts + 1..interim).map(Phase::Interim));
        list.push(Phase::Last);
        Phases {
            list,
            at: 0,
            before: 0,
            unmet: 0,
        }
    }

    /// Prepends a phase in which groups of adaptive routing go out of force.
    pub(super) fn after_groups(mut self) -> Phases {
        self.list.insert(0, Phase::Adaptive);
        self.before = 1;
        self
    }

    /// The current phase.
    pub(super) fn current(&self) -> Phase {
        self.list.get(self.at).copied().unwrap_or(Phase::Last)
    }

    /// Whether the current phase is the last one.
    pub(super) fn is_last(&self) -> bool {
        self.current() == Phase::Last
    }

    /// Whether a Set of tables that is settled now counts for the current phase. During
    /// [`Phase::Adaptive`], such Sets belong to the next phase.
    pub(super) fn counts(&self) -> bool {
        !matches!(self.current(), Phase::Adaptive | Phase::Last)
    }

    /// Whether the SLtoVLMappingTables are written, or there are none to write.
    pub(super) fn is_sl2vl_held(&self) -> bool {
        let sl2vl = self.list.iter().position(|&phase| phase == Phase::SlToVl);
        sl2vl.is_none_or(|sl2vl| sl2vl < self.at)
    }

    /// Whether the first `count` phases are completed, not counting [`Phase::Adaptive`].
    pub(super) fn have_passed(&self, count: usize) -> bool {
        self.at >= count + self.before || self.is_last()
    }

    /// Moves to the next phase, and returns it. `None` if the current phase is not settled, or is
    /// the last one.
    pub(super) fn next(&mut self) -> Option<Phase> {
        if self.unmet > 0 || self.is_last() {
            return None;
        }
        self.at += 1;
        Some(self.current())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The phases in the order in which a push passes them.
    fn order(mut phases: Phases) -> Vec<Phase> {
        let mut order = vec![phases.current()];
        while let Some(phase) = phases.next() {
            order.push(phase);
        }
        order
    }

    #[test]
    fn push_without_interim_tables_has_one_phase() {
        assert_eq!(order(Phases::last()), [Phase::Last]);
    }

    #[test]
    fn links_become_active_before_the_second_interim_tables() {
        let phases = order(Phases::new(3, 0, true, true));
        let expected = [
            Phase::Interim(0),
            Phase::SlToVl,
            Phase::Links,
            Phase::Interim(1),
            Phase::Interim(2),
            Phase::Last,
        ];
        assert_eq!(phases, expected);
    }

    #[test]
    fn links_become_active_after_entries_are_removed() {
        let phases = order(Phases::new(2, 1, false, true));
        let expected = [
            Phase::Interim(0),
            Phase::Interim(1),
            Phase::Links,
            Phase::Last,
        ];
        assert_eq!(phases, expected);
    }

    #[test]
    fn groups_go_out_of_force_before_all_tables() {
        let mut phases = Phases::new(2, 1, false, true).after_groups();
        assert_eq!(phases.current(), Phase::Adaptive);
        phases.next();
        assert!(!phases.have_passed(1), "the removals have only begun");
        phases.next();
        assert!(phases.have_passed(1));
        let phases = order(Phases::last().after_groups());
        assert_eq!(phases, [Phase::Adaptive, Phase::Last]);
    }

    #[test]
    fn phase_ends_only_when_no_set_or_link_is_unsettled() {
        let mut phases = Phases::new(1, 0, false, true);
        phases.unmet = 1;
        assert_eq!(phases.next(), None);
        phases.unmet = 0;
        assert_eq!(phases.next(), Some(Phase::Links));
        assert!(!phases.is_last());
    }
}
