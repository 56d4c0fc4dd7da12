//! SMInfo orders to this manager. A rate limits the orders that make this manager read the whole
//! subnet. Orders to a master to stop, to stand by or to discover are refused: no manager of a
//! healthy subnet sends them.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_mad::allowance::{Allowance, Rate};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

/// Rate of orders that make this manager read the whole subnet. The burst is the number of managers
/// of a site, which may all have been master while the subnet was cut into parts. The pause is the
/// time that reading a large subnet takes.
const RATE: Rate = Rate {
    burst: 4,
    pause: Duration::from_secs(30),
};

/// Time for which the finding about a refusal is shown.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// Maximum number of senders with a finding about refused orders. Orders of further senders are
/// refused without a finding.
const SENDERS: usize = 64;

/// Why an order to a master is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Refusal {
    /// A handover above [`RATE`].
    TooManyHandovers,
    /// An order to stop, to stand by or to discover, sent to a master.
    NotAllowed,
}

/// Kinds of orders with a rate of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum LimitedOrder {
    /// A handover to this master.
    Handover,
    /// An order to this standby to discover.
    Discovery,
    /// A refused order that makes this master start an inquiry, during which it writes nothing.
    Inquiry,
}

/// The use of the rates, and the refused orders.
#[derive(Clone, Default, Debug)]
pub(crate) struct Orders {
    /// Use of [`RATE`] by each kind of order received so far.
    used: BTreeMap<LimitedOrder, Allowance>,
    /// (Sender, reason of the refusals) → time of the last refused order. An unknown sender is
    /// `None`.
    refused: BTreeMap<(Option<PortKey>, Refusal), Time>,
}

impl Orders {
    /// Whether an order of this kind at `now` is within [`RATE`], so that this manager acts on it.
    pub(crate) fn admit(&mut self, kind: LimitedOrder, now: Time) -> bool {
        let allowance = self.used.entry(kind);
        allowance.or_insert(Allowance::whole(now)).take(RATE, now)
    }

    /// Forgets the orders to a master, because this manager stands by from now on.
    pub(crate) fn forget_orders_to_master(&mut self) {
        self.refused.clear();
        self.used.remove(&LimitedOrder::Handover);
    }

    /// Records that an order from the port `from` was refused. Returns whether a finding begins.
    pub(crate) fn record_refusal(
        &mut self,
        from: Option<PortKey>,
        why: Refusal,
        now: Time,
    ) -> bool {
        let sender = (from, why);
        if self.refused.len() >= SENDERS && !self.refused.contains_key(&sender) {
            return false;
        }
        self.refused.insert(sender, now).is_none()
    }

    /// The known senders of refused orders, each with the time of its last refused order.
    pub(crate) fn senders(&self) -> impl Iterator<Item = (PortKey, Time)> {
        let refused = self.refused.iter();
        refused.filter_map(|(&(from, _), &last)| Some((from?, last)))
    }

    /// Ends the findings that are due at `now`. Returns whether there were any.
    pub(crate) fn release(&mut self, now: Time) -> bool {
        let before = self.refused.len();
        self.refused.retain(|_, last| *last + KEPT_FOR > now);
        self.refused.len() < before
    }

    /// Time at which [`Orders::release`] ends the next finding; `None` if there is none.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let first = self.refused.values().min();
        first.map(|&last| last + KEPT_FOR)
    }

    /// The findings about refused orders; `place` gives the name of a port and its cable.
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
            .filter(|_| orders.admit(LimitedOrder::Handover, Time::ZERO))
            .count();
        assert_eq!(admitted, RATE.burst as usize);
        let later = Time::ZERO + RATE.pause;
        assert!(orders.admit(LimitedOrder::Handover, later));
        assert!(!orders.admit(LimitedOrder::Handover, later));
    }

    /// The only finding about `orders`; `None` if there is none.
    fn finding(orders: &Orders) -> Option<Finding> {
        let mut all = orders.findings(|_| "host-7 port 1 at leaf-1".to_owned());
        let finding = all.next();
        assert!(all.next().is_none());
        finding
    }

    #[test]
    fn refused_orders_make_one_finding_about_their_port_until_its_time_is_over() {
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
            assert!(orders.record_refusal(Some(port), why, Time::ZERO));
            assert!(!orders.record_refusal(Some(port), why, Time::ZERO));
            let named = finding(&orders).unwrap();
            assert_eq!((named.kind, named.subject), (kind, Subject::Port(port)));
            let senders: Vec<_> = orders.senders().collect();
            assert_eq!(senders, [(port, Time::ZERO)], "the time of the order");
            let begin = format!("host-7 port 1 at leaf-1 {text} ");
            assert!(named.text.starts_with(&begin), "{}", named.text);
            let end = orders.deadline().unwrap();
            assert!(!orders.release(Time::ZERO));
            assert!(orders.release(end));
            assert_eq!(finding(&orders), None);
        }
    }

    #[test]
    fn number_of_senders_with_a_finding_is_bounded() {
        let mut orders = Orders::default();
        let port = |node| Some(PortKey::new(Guid(node), PortNum(1)));
        let news = (0..1000)
            .filter(|&node| orders.record_refusal(port(node), Refusal::NotAllowed, Time::ZERO));
        assert_eq!(news.count(), SENDERS);
    }
}
