//! In which order Sets leave: tables in phases, one after the other everywhere.
//!
//! ```text
//! Interim(0)  the first interim tables; SwitchInfo, but where it raises LinearFDBTop; multicast tables let go of ports
//! Lanes       SLtoVLMappingTables
//! Links       nothing is written but ports: links that later tables lead to become Active
//! Interim(1…) further interim tables
//! Last        the planned tables; multicast tables gain ports
//! ```
//!
//! Most pushes have the last phase alone. Ports take no part in phases: they are armed as soon as
//! they are met, and go Active as soon as what [`Push::consider`](super::Push) asks for is there.

/// A part of a push that has to be settled before the next one begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// This interim table of every switch.
    Interim(usize),
    /// SLtoVLMappingTables.
    SlToVl,
    /// Links that are to be Active.
    Links,
    /// The planned tables.
    Last,
}

/// The phases of one push, and which one it is in.
#[derive(Debug)]
pub(super) struct Phases {
    list: Vec<Phase>,
    at: usize,
    /// What has to be settled before the next phase begins.
    pub(super) unmet: usize,
}

impl Phases {
    /// The last phase alone.
    pub(super) fn last() -> Phases {
        Phases {
            list: vec![Phase::Last],
            at: 0,
            unmet: 0,
        }
    }

    /// With so many interim tables, and the other two where there is something to do in them.
    ///
    /// The first `cuts` interim tables only take entries out; the one after them is the first one
    /// that links wait for.
    pub(super) fn new(interim: usize, cuts: usize, sl2vl: bool, links: bool) -> Phases {
        let mut list: Vec<Phase> = (0..=cuts).map(Phase::Interim).collect();
        list.extend(sl2vl.then_some(Phase::SlToVl));
        list.extend(links.then_some(Phase::Links));
        list.extend((cuts + 1..interim).map(Phase::Interim));
        list.push(Phase::Last);
        Phases {
            list,
            at: 0,
            unmet: 0,
        }
    }

    pub(super) fn current(&self) -> Phase {
        self.list.get(self.at).copied().unwrap_or(Phase::Last)
    }

    pub(super) fn is_last(&self) -> bool {
        self.current() == Phase::Last
    }

    /// Whether SLtoVLMappingTables are held, or none are to be written.
    pub(super) fn is_sl2vl_held(&self) -> bool {
        let sl2vl = self.list.iter().position(|&phase| phase == Phase::SlToVl);
        sl2vl.is_none_or(|sl2vl| sl2vl < self.at)
    }

    /// How many phases are behind.
    pub(super) fn passed(&self) -> usize {
        self.at
    }

    /// Goes on to the next phase, if this one is settled and not the last one.
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

    fn order(mut phases: Phases) -> Vec<Phase> {
        let mut order = vec![phases.current()];
        while let Some(phase) = phases.next() {
            order.push(phase);
        }
        order
    }

    #[test]
    fn a_fault_without_interim_tables_is_one_phase() {
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
    fn links_become_active_after_what_is_taken_out() {
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
    fn a_phase_waits_for_what_is_unmet() {
        let mut phases = Phases::new(1, 0, false, true);
        phases.unmet = 1;
        assert_eq!(phases.next(), None);
        phases.unmet = 0;
        assert_eq!(phases.next(), Some(Phase::Links));
        assert!(!phases.is_last());
    }
}
