//! Handles requests to subscribe and unsubscribe (IBA 13.4.8.3).

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, Lid};
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{InformInfo, SaStatus};

use super::limits::{MAX_PER_PORT, MAX_SUBSCRIPTIONS};
use super::news::is_of_keys;
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
    /// Answers Set of InformInfo: subscribes or unsubscribes. A repeated subscription only updates
    /// the address of its reports and the response time.
    ///
    /// # Errors
    /// The status of the answer; nothing has changed then.
    pub(crate) fn set(
        &mut self,
        info: &InformInfo,
        requester: &SubscriptionRequester,
        directory: &Directory,
    ) -> Result<(), Status> {
        let mut interest = Interest::of(info).ok_or(SaStatus::REQ_INVALID)?;
        if let Sources::Port(gid) = interest.sources {
            // Notices contain only one GID of the port.
            let known = directory.by_gid(gid).map(|ix| directory.gid(ix));
            interest.sources = Sources::Port(known.unwrap_or(gid));
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
        // C15-0.2-1.16: an untrusted subscriber gets no notices about wrong keys, and a request for
        // only these is refused.
        let of_keys = interest.generic && is_of_keys(info.trap_number());
        if of_keys && !requester.trust.is_trusted() {
            return Err(SaStatus::REQ_INVALID);
        }
        check_sources(interest.sources, requester, directory)?;
        let port = directory.end(requester.port).guid;
        let qpn = requester.address.qpn;
        let known = self.find(port, qpn, &interest);
        let number = match known {
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
        // The request names the queue pair (o13-2.1.1); 0 means the requester's own.
        let qpn = match info.qpn() {
            0 => requester.address.qpn,
            qpn => qpn,
        };
        let known = self.find(port, qpn, &interest);
        self.end_one(known.ok_or(SaStatus::REQ_INVALID)?);
        Ok(())
    }

    fn find(&self, port: Guid, qpn: u32, interest: &Interest) -> Option<SubscriptionId> {
        let mut own = self.of_port(port);
        own.find(|(_, other)| other.address.qpn == qpn && other.interest == *interest)
            .map(|(id, _)| id)
    }

    /// Whether the port with this GUID has its maximum number of subscriptions.
    pub(crate) fn is_used_up(&self, port: Guid) -> bool {
        self.of_port(port).count() >= MAX_PER_PORT
    }

    /// The lowest number that the port does not use.
    fn free_number(&self, port: Guid) -> Result<u16, Status> {
        let used: BTreeSet<u16> = self.of_port(port).map(|(id, _)| id.number).collect();
        if used.len() >= MAX_PER_PORT || self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(SaStatus::NO_RESOURCES);
        }
        let free = (0..=u16::MAX).find(|number| !used.contains(number));
        free.ok_or(SaStatus::NO_RESOURCES)
    }
}

/// Checks that the requester can communicate with a port in `sources` (o13-14.1.1). A port with
/// which the requester cannot communicate does not exist for the requester.
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
            let seen = port.is_some_and(visible);
            seen.then_some(()).ok_or(SaStatus::REQ_INVALID_GID)
        }
        // This range matches no port.
        Sources::Lids(Lid::NONE, Lid::NONE) => Ok(()),
        Sources::Lids(first, last) => {
            let mut ports = (first.0..=last.0).filter_map(|lid| directory.by_lid(Lid(lid)));
            let seen = ports.any(visible);
            seen.then_some(()).ok_or(SaStatus::REQ_INVALID)
        }
    }
}
