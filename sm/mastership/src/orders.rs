//! Orders to this manager: those for which it reads the whole subnet have a rate; no manager of a
//! healthy subnet orders a master to stop, to stand by or to discover.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mad::allowance::{Allowance, Rate};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

/// Orders that are obeyed by reading the whole subnet: at once as many as a site has managers, which
/// may all have been master while the subnet was in parts; then one in a time in which a large
/// subnet is read.
const RATE: Rate = Rate {
    burst: 4,
    pause: Duration::from_secs(30),
};

/// Time for which the finding about a refusal stays.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// Maximum number of senders with a finding about refused orders. Orders of further senders are
/// refused without one.
const SENDERS: usize = 64;

/// Why an order to a master is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Refusal {
    /// A handover above [`RATE`].
    TooManyHandovers,
    /// An order that no manager gives a master.
    NotAllowed,
}

/// Kinds of orders with a rate of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Limited {
    /// A handover to this master.
    Handover,
    /// An order to this standby to discover.
    Discovery,
    /// A refused order that makes this master inquire who is master, during which it writes nothing.
    Inquiry,
}

/// The use of the rates, and the refused orders.
#[derive(Clone, Default, Debug)]
pub(crate) struct Orders {
    /// Use of [`RATE`] by each kind of order; a kind without one so far is absent.
    used: BTreeMap<Limited, Allowance>,
    /// When the findings about refused orders end, by their sender, where it is known.
    refused: BTreeMap<(Option<PortKey>, Refusal), Time>,
}

impl Orders {
    /// Whether an order of this kind at `now` is within [`RATE`], and has its consequence.
    pub(crate) fn admit(&mut self, kind: Limited, now: Time) -> bool {
        let allowance = self.used.entry(kind);
        allowance.or_insert(Allowance::whole(now)).take(RATE, now)
    }

    /// Forgets the orders to a master, which stands by from now on.
    pub(crate) fn forget_those_to_a_master(&mut self) {
        self.refused.clear();
        self.used.remove(&Limited::Handover);
    }

    /// Notes that an order from the port `from` was refused. Returns whether that is news.
    pub(crate) fn note_refused(&mut self, from: Option<PortKey>, why: Refusal, now: Time) -> bool {
        let sender = (from, why);
        if self.refused.len() >= SENDERS && !self.refused.contains_key(&sender) {
            return false;
        }
        self.refused.insert(sender, now + KEPT_FOR).is_none()
    }

    /// Known senders of refused orders, each with the time its finding ends; every further order
    /// extends it.
    pub(crate) fn senders(&self) -> impl Iterator<Item = (PortKey, Time)> {
        let refused = self.refused.iter();
        refused.filter_map(|(&(from, _), &until)| Some((from?, until)))
    }

    /// Ends the findings that are due at `now`. Returns whether there were any.
    pub(crate) fn release(&mut self, now: Time) -> bool {
        let before = self.refused.len();
        self.refused.retain(|_, until| *until > now);
        self.refused.len() < before
    }

    /// When [`Orders::release`] ends the next finding.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.refused.values().min().copied()
    }

    /// The findings about refused orders; `place` has the name of a port and its cable.
    pub(crate) fn findings(
        &self,
        place: impl Fn(PortKey) -> String,
    ) -> impl Iterator<Item = Finding> {
        let remedy = "see what runs there, and give the managers an sm.sm_key of their own or name them in \
                      sm.allowed_sm_guids";
        self.refused.keys().map(move |&(from, why)| {
            let sender = from.map_or_else(|| "a manager that is not known".to_owned(), &place);
            let (kind, text) = match why {
                Refusal::TooManyHandovers => (
                    FindingKind::HandoverFlood,
                    format!(
                        "{sender} hands the subnet over to this manager, which is master, again and again: rsm \
                         answers BUSY and reads nothing for it; {remedy}"
                    ),
                ),
                Refusal::NotAllowed => (
                    FindingKind::ManagerNotAllowed,
                    format!(
                        "{sender} orders this manager, which is master, to stop, to stand by or to discover: rsm \
                         refuses it, and no manager of a healthy subnet gives such an order; {remedy}"
                    ),
                ),
            };
            let subject = from.map_or(Subject::Subnet, Subject::Port);
            Finding::new(kind, subject, Severity::Warning, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortNum};

    use super::*;

    #[test]
    fn handovers_beyond_the_burst_are_refused_until_the_pause_is_over() {
        let mut orders = Orders::default();
        let admitted = (0..1000)
            .filter(|_| orders.admit(Limited::Handover, Time::ZERO))
            .count();
        assert_eq!(admitted, RATE.burst as usize);
        let later = Time::ZERO + RATE.pause;
        assert!(orders.admit(Limited::Handover, later));
        assert!(!orders.admit(Limited::Handover, later));
    }

    fn finding(orders: &Orders) -> Option<Finding> {
        let mut all = orders.findings(|_| "host-7 port 1 at leaf-1".to_owned());
        let finding = all.next();
        assert!(all.next().is_none());
        finding
    }

    #[test]
    fn refused_orders_are_findings_with_their_port_for_five_minutes() {
        let port = PortKey::new(Guid(7), PortNum(1));
        for (why, kind, text) in [
            (
                Refusal::TooManyHandovers,
                FindingKind::HandoverFlood,
                "hands",
            ),
            (
                Refusal::NotAllowed,
                FindingKind::ManagerNotAllowed,
                "orders",
            ),
        ] {
            let mut orders = Orders::default();
            assert_eq!(finding(&orders), None);
            assert!(orders.note_refused(Some(port), why, Time::ZERO));
            assert!(!orders.note_refused(Some(port), why, Time::ZERO));
            let named = finding(&orders).unwrap();
            assert_eq!((named.kind, named.subject), (kind, Subject::Port(port)));
            let begin = format!("host-7 port 1 at leaf-1 {text} ");
            assert!(named.text.starts_with(&begin), "{}", named.text);
            let end = orders.deadline().unwrap();
            assert!(!orders.release(Time::ZERO));
            assert!(orders.release(end));
            assert_eq!(finding(&orders), None);
        }
    }

    #[test]
    fn many_senders_are_bounded() {
        let mut orders = Orders::default();
        let port = |node| Some(PortKey::new(Guid(node), PortNum(1)));
        let news = (0..1000)
            .filter(|&node| orders.note_refused(port(node), Refusal::NotAllowed, Time::ZERO));
        assert_eq!(news.count(), SENDERS);
    }
}
