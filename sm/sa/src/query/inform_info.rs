//! InformInfo and InformInfoRecord: subscriptions; see [`crate::events`].

use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{ComponentMask, InformInfo, InformInfoRecord, SaStatus};

use super::{Asked, Query, Record as _};
use crate::answer::Body;
use crate::directory::Directory;
use crate::ends::EndIx;
use crate::events::{
    Events, Subscription, SubscriptionId, SubscriptionRequester, SubscriptionsView,
};
use crate::trust::Trust;

/// Subscribes or unsubscribes. The answer repeats the request (o13-12.1.1).
///
/// # Errors
/// The status to answer with.
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
/// The status to answer with.
pub(super) fn read(asked: &Asked<'_>) -> Result<Body, Status> {
    let query = Query::<InformInfoRecord>::new(asked, ComponentMask::NONE)?;
    asked.read(Candidates {
        query,
        view: asked.subscriptions.view(),
        last: None,
    })
}

/// Examines subscriptions one after the other.
struct Candidates {
    query: Query<InformInfoRecord>,
    view: SubscriptionsView,
    last: Option<SubscriptionId>,
}

impl Iterator for Candidates {
    type Item = Option<InformInfoRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        let (id, subscription) = self.view.behind(self.last).next()?;
        self.last = Some(id);
        Some(self.query.subscription(id, subscription))
    }
}

impl Query<InformInfoRecord> {
    fn subscription(
        &self,
        id: SubscriptionId,
        subscription: &Subscription,
    ) -> Option<InformInfoRecord> {
        let subscriber = self.directory.by_guid(id.port);
        let visible = match subscriber {
            Some(ix) => self.may_see(ix),
            None => self.trust.is_trusted(),
        };
        if !visible {
            return None;
        }
        let mut record = subscription.record(id);
        if !self.trust.is_trusted() {
            // C15-0.2-1.16: the key is hidden before the record is matched, so that no query can
            // find it by trial.
            let mut info = record.inform_info();
            info.set_qpn(0);
            record.set_inform_info(&info);
        }
        self.keep(record)
    }
}
