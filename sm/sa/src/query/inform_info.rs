//! InformInfo and InformInfoRecord: subscriptions; see [`crate::events`].

use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{ComponentMask, InformInfo, InformInfoRecord, SaStatus};

use super::{Query, Record as _, SaQueryContext};
use crate::answer::Body;
use crate::directory::Directory;
use crate::ends::EndIx;
use crate::events::{
    Events, Subscription, SubscriptionId, SubscriptionRequester, SubscriptionsView,
};
use crate::trust::Trust;

/// Subscribes or unsubscribes. The answer repeats the request (IBA o13-12.1.1).
///
/// # Errors
/// Fails with the status for the answer.
pub(crate) fn change(
    events: &mut Events,
    directory: &Directory,
    data: &[u8],
    (port, address): (EndIx, RemoteAddress),
    trust: Trust,
) -> Result<Body, Status> {
    let info = InformInfo::from_prefix(data).ok_or(SaStatus::REQ_INVALID)?;
    let requester = SubscriptionRequester {
        port,
        address,
        trust,
    };
    events.set(info, &requester, directory)?;
    Ok(Body::record(info))
}

/// Searches subscriptions.
///
/// # Errors
/// Fails with the status for the answer.
pub(super) fn read(context: &SaQueryContext<'_>) -> Result<Body, Status> {
    let query = Query::<InformInfoRecord>::new(context, ComponentMask::NONE)?;
    context.read(Candidates {
        query,
        view: context.subscriptions.view(),
        last: None,
    })
}

/// Examines subscriptions, one in each step: yields a record, or `None` for a subscription that
/// does not match or that the requester may not see.
struct Candidates {
    query: Query<InformInfoRecord>,
    view: SubscriptionsView,
    /// The last subscription examined; `None` before the first subscription.
    last: Option<SubscriptionId>,
}

impl Iterator for Candidates {
    type Item = Option<InformInfoRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        let (id, subscription) = self.view.after(self.last).next()?;
        self.last = Some(id);
        Some(self.query.subscription(id, subscription))
    }
}

impl Query<InformInfoRecord> {
    /// The record of a subscription; `None` if the record does not match the query, or if the
    /// requester may not see the subscriber. The subscription of an absent port is shown only to
    /// trusted requesters.
    fn subscription(
        &self,
        id: SubscriptionId,
        subscription: &Subscription,
    ) -> Option<InformInfoRecord> {
        let subscriber = self.directory.by_guid(id.port);
        let is_visible = match subscriber {
            Some(ix) => self.may_see(ix),
            None => self.trust.is_trusted(),
        };
        if !is_visible {
            return None;
        }
        let mut record = subscription.record(id);
        if !self.trust.is_trusted() {
            // IBA C15-0.2-1.16: the queue pair is hidden before the record is compared, so that no
            // query can find it by trial.
            let mut info = record.inform_info();
            info.set_qpn(0);
            record.set_inform_info(&info);
        }
        self.if_matching(record)
    }
}
