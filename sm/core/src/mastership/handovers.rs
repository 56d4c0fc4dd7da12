//! Handovers to this manager while it is the master: each reads the whole subnet, and so they have
//! a rate.

use std::time::Duration;

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use crate::allowance::{Allowance, Rate};

/// Handovers that are obeyed: at once as many as a site has managers, which may all have been master
/// while the subnet was in parts; then one in a time in which a large subnet is read.
const RATE: Rate = Rate {
    burst: 4,
    pause: Duration::from_secs(30),
};

/// How long a refusal is a finding.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// The rate of handovers, and those above it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Handovers {
    /// The use of [`RATE`]; `None` before the first handover.
    allowance: Option<Allowance>,
    /// The last refusal: the port that the order came from, where it is known, and the end of its
    /// finding.
    refused: Option<(Option<PortKey>, Time)>,
}

impl Handovers {
    /// Whether a handover at `now` is obeyed.
    pub(super) fn admit(&mut self, now: Time) -> bool {
        let allowance = self.allowance.get_or_insert(Allowance::whole(now));
        allowance.take(RATE, now)
    }

    /// Notes that an order from the port `from` was refused. Returns whether that is news.
    pub(super) fn note_refused(&mut self, from: Option<PortKey>, now: Time) -> bool {
        let before = self.refused.replace((from, now + KEPT_FOR));
        before.is_none_or(|(port, _)| port != from)
    }

    /// Ends the finding when its time has come. Returns whether it did.
    pub(crate) fn release(&mut self, now: Time) -> bool {
        self.refused.take_if(|(_, until)| *until <= now).is_some()
    }

    /// When [`Handovers::release`] ends the finding.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.refused.map(|(_, until)| until)
    }

    /// The finding about refused handovers; `place` has the name of a port and its cable.
    pub(crate) fn finding(&self, place: impl Fn(PortKey) -> String) -> Option<Finding> {
        let (from, _) = self.refused?;
        let sender = from.map_or_else(|| "a manager that is not known".to_owned(), place);
        let text = format!(
            "{sender} hands the subnet over to this manager, which is master, again and again: rsm answers BUSY and \
             reads nothing for it; see what runs there, and give the managers an sm.sm_key of their own or name them \
             in sm.allowed_sm_guids"
        );
        let subject = from.map_or(Subject::Subnet, Subject::Port);
        let kind = FindingKind::HandoverFlood;
        Some(Finding::new(kind, subject, Severity::Warning, text))
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortNum};

    use super::*;

    #[test]
    fn handovers_beyond_the_burst_are_refused_until_the_pause_is_over() {
        let mut handovers = Handovers::default();
        let admitted = (0..1000).filter(|_| handovers.admit(Time::ZERO)).count();
        assert_eq!(admitted, RATE.burst as usize);
        let later = Time::ZERO + RATE.pause;
        assert!(handovers.admit(later));
        assert!(!handovers.admit(later));
    }

    #[test]
    fn refused_handover_is_a_finding_with_its_port_for_five_minutes() {
        let mut handovers = Handovers::default();
        assert_eq!(handovers.finding(|_| String::new()), None);
        let port = PortKey::new(Guid(7), PortNum(1));
        assert!(handovers.note_refused(Some(port), Time::ZERO));
        assert!(!handovers.note_refused(Some(port), Time::ZERO));
        let finding = handovers
            .finding(|_| "host-7 port 1 at leaf-1".to_owned())
            .unwrap();
        assert_eq!(finding.subject, Subject::Port(port));
        assert!(finding.text.starts_with("host-7 port 1 at leaf-1 hands"));
        let end = handovers.deadline().unwrap();
        assert!(!handovers.release(Time::ZERO));
        assert!(handovers.release(end));
        assert_eq!(handovers.finding(|_| String::new()), None);
    }
}
