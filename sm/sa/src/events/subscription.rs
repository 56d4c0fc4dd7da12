//! Subscriptions and their identifiers.

use rsm_ids::Guid;
use rsm_mad::ids::Gid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::sa::{InformInfo, InformInfoRecord};

use super::interest::{Interest, Sources};
use super::published_notice::{Audience, PublishedNotice};

/// Identifies a subscription: the subscriber's port, and the number among the subscriptions of that
/// port (Enum in InformInfoRecord).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionId {
    /// GUID of the subscriber's port.
    pub port: Guid,
    /// Number of the subscription, from 0.
    pub number: u16,
}

/// Identifies a subscriber: a queue pair of a port. At most one report to a subscriber is in
/// flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriberId {
    /// GUID of the port.
    pub port: Guid,
    /// Number of the queue pair; 24 bits.
    pub qpn: u32,
}

/// A subscription to notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// GID of the subscriber.
    pub gid: Gid,
    /// Address for reports. The LID in it is replaced by the port's LID at the time of sending.
    pub address: RemoteAddress,
    /// P_Key of the request, whose index in the table of this manager's port is looked up for each
    /// report. `None` if only the index in `address` is known.
    pub p_key: Option<PKey>,
    /// Whether the subscriber showed the SM_Key, so that it may receive notices about wrong keys.
    pub trusted: bool,
    /// The request, with the queue pair to which reports are sent.
    pub info: InformInfo,
    /// Interpretation of the request.
    pub interest: Interest,
}

impl Subscription {
    /// The queue pair to which reports are sent.
    pub fn subscriber(&self, id: SubscriptionId) -> SubscriberId {
        SubscriberId {
            port: id.port,
            qpn: self.address.qpn,
        }
    }

    /// Decides whether a subscriber with these P_Keys gets a report of a notice.
    pub(super) fn verdict(&self, published: &PublishedNotice, p_keys: &[PKey]) -> Verdict {
        if !self.interest.includes(&published.notice) {
            return Verdict::NoReport;
        }
        if self.trusted {
            return Verdict::Report;
        }
        if published.is_security() {
            return Verdict::NoReport;
        }
        if published.audience.includes(p_keys) {
            return Verdict::Report;
        }
        match published.audience {
            Audience::Issuer(_) if self.interest.sources != Sources::All => Verdict::Barred,
            _ => Verdict::NoReport,
        }
    }

    /// The subscription as an InformInfoRecord.
    pub fn record(&self, id: SubscriptionId) -> InformInfoRecord {
        let mut record = InformInfoRecord::default();
        record
            .set_subscriber_gid(self.gid)
            .set_enumeration(id.number)
            .set_inform_info(&self.info);
        record
    }
}

/// Decision about a notice for a subscription.
pub(super) enum Verdict {
    /// The subscriber gets a report.
    Report,
    /// The subscriber gets no report.
    NoReport,
    /// The subscriber can no longer communicate with the sources, so that the subscription ends
    /// (IBA o13-17.1.2).
    Barred,
}
