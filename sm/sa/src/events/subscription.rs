//! Subscriptions and their identifiers.

use rsm_ids::Guid;
use rsm_mad::ids::Gid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::sa::{InformInfo, InformInfoRecord};

use super::interest::{Interest, Sources};
use super::news::{Audience, News};

/// A subscription: its subscriber's port, and the number that tells it from the port's others
/// (InformInfoRecord's Enum).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionId {
    /// GUID of the subscriber's port.
    pub port: Guid,
    /// From 0.
    pub number: u16,
}

/// Where reports go: a queue pair of a port. One report at a time is under way to each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriberId {
    /// GUID of the port.
    pub port: Guid,
    /// The queue pair; 24 bits.
    pub qpn: u32,
}

/// A subscription to notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscription {
    /// The subscriber's GID.
    pub gid: Gid,
    /// Where reports go; they use the port's LID at the time of sending.
    pub address: RemoteAddress,
    /// The P_Key of the request, at whichever index this manager's port has it when a report is
    /// sent. `None`: the index in `address` is all that is known.
    pub p_key: Option<PKey>,
    /// The subscriber showed the SM_Key, and may receive notices of wrong keys.
    pub trusted: bool,
    /// The request, with the queue pair that reports go to.
    pub info: InformInfo,
    /// The meaning of the request.
    pub interest: Interest,
}

impl Subscription {
    /// The queue pair that its reports go to.
    pub fn subscriber(&self, id: SubscriptionId) -> SubscriberId {
        SubscriberId {
            port: id.port,
            qpn: self.address.qpn,
        }
    }

    /// How to treat a notice for a subscriber with these P_Keys.
    pub(super) fn verdict(&self, news: &News, p_keys: &[PKey]) -> Verdict {
        if !self.interest.includes(&news.notice) {
            return Verdict::Nothing;
        }
        if self.trusted {
            return Verdict::Tell;
        }
        if news.is_security() {
            return Verdict::Nothing;
        }
        if news.audience.includes(p_keys) {
            return Verdict::Tell;
        }
        match news.audience {
            Audience::Issuer(_) if self.interest.sources != Sources::All => Verdict::Barred,
            _ => Verdict::Nothing,
        }
    }

    /// As a record.
    pub fn record(&self, id: SubscriptionId) -> InformInfoRecord {
        let mut record = InformInfoRecord::default();
        record
            .set_subscriber_gid(self.gid)
            .set_enumeration(id.number)
            .set_inform_info(&self.info);
        record
    }
}

/// The treatment of a notice for a subscription.
pub(super) enum Verdict {
    Tell,
    Nothing,
    /// The subscriber can no longer talk to the sources; the subscription ends (o13-17.1.2).
    Barred,
}
