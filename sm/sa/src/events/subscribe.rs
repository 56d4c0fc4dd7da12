//! Handles requests to subscribe and unsubscribe (IBA 13.4.8.3).

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, Lid};
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{InformInfo, SaStatus};

use super::limits::{MAX_PER_PORT, MAX_SUBSCRIPTIONS};
use super::published_notice::reports_wrong_key;
use super::{Events, Interest, Sources, Subscription, SubscriptionId};
use crate::directory::Directory;
use crate::ends::EndIx;
use crate::trust::Trust;

/// The requester of a subscription.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubscriptionRequester {
    /// Port of the requester.
    pub(crate) port: EndIx,
    /// Address from which the request came.
    pub(crate) address: RemoteAddress,
    pub(crate) trust: Trust,
}

impl Events {
    /// Answers a Set of InformInfo: subscribes or unsubscribes. A repeated subscription only
    /// updates the address for its reports and the response time.
    ///
    /// # Errors
    /// Fails with the status for the answer; then nothing has changed.
    pub(crate) fn set(
        &mut self,
        info: &InformInfo,
        requester: &SubscriptionRequester,
        directory: &Directory,
    ) -> Result<(), Status> {
        let mut interest = Interest::of(info).ok_or(SaStatus::REQ_INVALID)?;
        if let Sources::Port(gid) = interest.sources {
            // Notices contain the port's GID with the prefix of the subnet; the request may contain
            // another prefix.
            let in_subnet = directory.by_gid(gid).map(|ix| directory.gid(ix));
            interest.sources = Sources::Port(in_subnet.unwrap_or(gid));
        }
        if info.subscribe() == 1 {
            self.subscribe(info, interest, requester, directory)
        } else {
            self.unsubscribe(info, interest, requester, directory)
        }
    }

    fn subscribe(
        &mut self,
        info: &InformInfo,
        interest: Interest,
        requester: &SubscriptionRequester,
        directory: &Directory,
    ) -> Result<(), Status> {
        // IBA C15-0.2-1.16: an untrusted subscriber gets no reports about wrong keys. A request for
        // such reports only is refused.
        let of_keys = interest.generic && reports_wrong_key(info.trap_number());
        if of_keys && !requester.trust.is_trusted() {
            return Err(SaStatus::REQ_INVALID);
        }
        check_sources(interest.sources, requester, directory)?;
        let port = directory.end(requester.port).guid;
        let qpn = requester.address.qpn;
        let existing = self.find(port, qpn, &interest);
        let number = match existing {
            Some(id) => id.number,
            None => self.free_number(port)?,
        };
        let id = SubscriptionId { port, number };
        let mut info = *info;
        info.set_qpn(qpn);
        let subscription = Subscription {
            gid: directory.gid(requester.port),
            address: requester.address,
            p_key: directory.own_p_key(requester.address.pkey_index),
            trusted: requester.trust.is_trusted(),
            info,
            interest,
        };
        let before = Arc::make_mut(&mut self.subscriptions).insert(id, subscription);
        self.unsaved |= before != Some(subscription);
        self.reports.subscribe(&subscription, id, &self.journal);
        Ok(())
    }

    fn unsubscribe(
        &mut self,
        info: &InformInfo,
        interest: Interest,
        requester: &SubscriptionRequester,
        directory: &Directory,
    ) -> Result<(), Status> {
        let port = directory.end(requester.port).guid;
        // The request names the queue pair (IBA o13-2.1.1); 0 stands for the queue pair of the
        // requester.
        let qpn = match info.qpn() {
            0 => requester.address.qpn,
            qpn => qpn,
        };
        let existing = self.find(port, qpn, &interest);
        self.end_subscription(existing.ok_or(SaStatus::REQ_INVALID)?);
        Ok(())
    }

    /// The subscription of a queue pair to `interest`; `None` if no such subscription exists.
    fn find(&self, port: Guid, qpn: u32, interest: &Interest) -> Option<SubscriptionId> {
        let mut own = self.of_port(port);
        own.find(|(_, other)| other.address.qpn == qpn && other.interest == *interest)
            .map(|(id, _)| id)
    }

    /// Whether the port with this GUID has its maximum number of subscriptions.
    pub(crate) fn is_at_limit(&self, port: Guid) -> bool {
        self.of_port(port).count() >= MAX_PER_PORT
    }

    /// The lowest subscription number that the port does not use.
    ///
    /// # Errors
    /// ERR_NO_RESOURCES if the port, or all ports together, have the maximum number of
    /// subscriptions.
    fn free_number(&self, port: Guid) -> Result<u16, Status> {
        let used: BTreeSet<u16> = self.of_port(port).map(|(id, _)| id.number).collect();
        if used.len() >= MAX_PER_PORT || self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(SaStatus::NO_RESOURCES);
        }
        let free = (0..=u16::MAX).find(|number| !used.contains(number));
        free.ok_or(SaStatus::NO_RESOURCES)
    }
}

/// Checks that the requester can communicate with a port in `sources` (IBA o13-14.1.1). The answer
/// does not reveal whether a port with which the requester cannot communicate exists.
fn check_sources(
    sources: Sources,
    requester: &SubscriptionRequester,
    directory: &Directory,
) -> Result<(), Status> {
    let visible = |ix| requester.trust.is_trusted() || directory.may_see(requester.port, ix);
    match sources {
        Sources::All => Ok(()),
        Sources::Port(gid) => {
            let port = directory.by_gid(gid);
            let is_visible = port.is_some_and(visible);
            is_visible.then_some(()).ok_or(SaStatus::REQ_INVALID_GID)
        }
        // This range matches no port.
        Sources::Lids(Lid::NONE, Lid::NONE) => Ok(()),
        Sources::Lids(first, last) => {
            let mut ports = (first.0..=last.0).filter_map(|lid| directory.by_lid(Lid(lid)));
            let is_visible = ports.any(visible);
            is_visible.then_some(()).ok_or(SaStatus::REQ_INVALID)
        }
    }
}
