//! Checks and answers requests of hosts.

use std::sync::Arc;

use rsm_config::TrustMode;
use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::header::{AttrId, BASE_VERSION, Class, Method, Status};
use rsm_mad::wire::sa::{
    CLASS_VERSION, GuidInfoRecord, InformInfo, McMemberRecord, Record as _, SaHeader, SaStatus,
    ServiceRecord,
};

use super::answer::{self, SaAnswer};
use super::directory::Directory;
use super::ends::EndIx;
use super::query_context::SaQueryContext;
use super::trust::{self, Offence, Trust};
use super::{Sa, SaRequest, Touched, breach, guids, query, services};

impl Sa {
    /// Answers `request`, which arrived at `now`. The time of the call is bounded: an answer that
    /// takes longer is [open](SaAnswer::is_open) or a table.
    ///
    /// Returns `None` in these cases:
    /// * The bytes are a response, or not a message of the class.
    /// * The SM_Key is wrong; without an answer, trying keys reveals nothing.
    /// * This manager is not master or has no plan, or the directory does not contain the
    ///   requester's LID yet. Clients turn any status into an error at once, but repeat a request
    ///   that is not answered.
    /// * Trust is enforced, and no port has the GID in the global route header.
    pub fn handle(&mut self, request: SaRequest<'_>, now: Time) -> Option<SaAnswer> {
        let Some((header, data)) = SaHeader::split(request.bytes).filter(|(header, _)| {
            let mad = header.mad();
            mad.class() == Class::SUBNET_ADMINISTRATION && header.expects_answer()
        }) else {
            if !self.handle_report_response(request) {
                self.statistics.ignored();
            }
            return None;
        };
        let Some(trust) = Trust::of(header.sm_key(), self.config.sm_key) else {
            self.statistics.wrong_key();
            return None;
        };
        let served = self.sa_snapshot.in_force().and_then(|directory| {
            let port = directory.requester(&request.requester)?;
            Some((Arc::clone(directory), port))
        });
        let Some((directory, port)) = served else {
            self.statistics.unserved();
            return None;
        };
        let shown_gid = self.check_gid(&directory, port, request.requester, now)?;
        let mad = header.mad();
        self.statistics.count_request(mad.attribute(), mad.method());
        let requester = (port, request.requester);
        if let Err(status) = shown_gid {
            self.statistics.count_answer(status);
            return Some(SaAnswer::refusal(request.requester, header, status));
        }
        let answer = match self.answer(&directory, (header, data), trust, requester, now) {
            Ok(body) => SaAnswer::new(request.requester, header, body),
            Err(status) => {
                if status == SaStatus::NO_RESOURCES {
                    self.record_exhausted_share(&directory, (header, data), port, now);
                }
                SaAnswer::refusal(request.requester, header, status)
            }
        };
        self.count(&answer);
        Some(answer)
    }

    /// Compares the GID in the global route header of a request with the port of the requester.
    /// `None` if the request gets no answer, because no port has the GID: the GID may belong to a
    /// new virtual port, which repeats the request.
    ///
    /// # Errors
    /// ERR_REQ_DENIED if the rules refuse the GID of another port.
    fn check_gid(
        &mut self,
        directory: &Directory,
        port: EndIx,
        address: RemoteAddress,
        now: Time,
    ) -> Option<Result<(), Status>> {
        if !trust::shows_foreign_gid(directory, port, &address) {
            return Some(Ok(()));
        }
        let gid_owner = address.grh.and_then(|grh| directory.by_gid(grh.gid));
        let rules = &self.config.trust;
        let mode = rules.of_port(directory, gid_owner.unwrap_or(port));
        match (mode, gid_owner) {
            (TrustMode::Off, _) | (TrustMode::Report, None) => Some(Ok(())),
            (TrustMode::Enforce, None) => {
                self.statistics.unserved();
                None
            }
            (TrustMode::Report | TrustMode::Enforce, Some(_)) => {
                let guid = directory.end(port).guid;
                let refuses = mode == TrustMode::Enforce;
                self.offences
                    .record_violation(guid, Offence::SourceGid, refuses, now);
                Some(match refuses {
                    true => Err(SaStatus::REQ_DENIED),
                    false => Ok(()),
                })
            }
        }
    }

    /// Answers a Set or Delete. A request that breaches the rules of trust is counted as an
    /// offence, and refused under `enforce`.
    ///
    /// # Errors
    /// Fails with the status for the answer if the request is refused.
    fn change(
        &mut self,
        directory: &Arc<Directory>,
        request: (&SaHeader, &[u8]),
        trust: Trust,
        (requester, address): (EndIx, RemoteAddress),
        now: Time,
    ) -> Result<answer::Body, Status> {
        let guid = directory.end(requester).guid;
        let rules = &self.config.trust;
        let trust = trust.to_change(rules, guid);
        let breach = match trust.acts_for_all() {
            true => None,
            false => breach::breach(rules, directory, &self.multicast, requester, request),
        };
        let changed = match breach {
            Some((_, TrustMode::Enforce)) => Err(SaStatus::REQ_DENIED),
            _ => self.carry_out(directory, request, trust, (requester, address), now),
        };
        if let Some((offence, _)) = breach {
            self.offences
                .record_violation(guid, offence, changed.is_err(), now);
        }
        changed
    }

    /// Changes the records of the request's attribute.
    ///
    /// # Errors
    /// Fails with the status for the answer if the request is refused.
    fn carry_out(
        &mut self,
        directory: &Arc<Directory>,
        request: (&SaHeader, &[u8]),
        trust: Trust,
        (requester, address): (EndIx, RemoteAddress),
        now: Time,
    ) -> Result<answer::Body, Status> {
        let (header, data) = request;
        match header.mad().attribute() {
            McMemberRecord::ID => self.change_membership(directory, request, requester, trust, now),
            GuidInfoRecord::ID => self.change_aliases(directory, request, requester, trust),
            ServiceRecord::ID => self.change_service(directory, request, requester, trust, now),
            InformInfo::ID if header.mad().method() == Method::SET => {
                let subscriber = (requester, address);
                let events = &mut self.events;
                let body = query::inform_info::change(events, directory, data, subscriber, trust)?;
                let port = directory.end(requester).guid;
                self.touched.push(Touched::Subscriptions(port));
                Ok(body)
            }
            _ => self.read(directory, request, trust, requester, now),
        }
    }

    /// Continues the search of an answer that is [open](SaAnswer::is_open): examines up to
    /// [`WORK_PER_PULL`](answer::WORK_PER_PULL) candidates. Returns whether the search has ended.
    pub fn continue_search(&mut self, answer: &mut SaAnswer) -> bool {
        let was_open = answer.is_open();
        let has_ended = answer.continue_search();
        if was_open {
            self.count(answer);
        }
        has_ended
    }

    /// Counts an answer by its status, once the status is known.
    fn count(&self, answer: &SaAnswer) {
        if !answer.is_open() {
            self.statistics.count_answer(answer.status());
        }
    }

    /// Answers a request, if the SA supports its version, method and attribute.
    ///
    /// # Errors
    /// Fails with the status for the answer if the request is refused.
    fn answer(
        &mut self,
        directory: &Arc<Directory>,
        (header, data): (&SaHeader, &[u8]),
        trust: Trust,
        (requester, address): (EndIx, RemoteAddress),
        now: Time,
    ) -> Result<answer::Body, Status> {
        let mad = header.mad();
        if mad.base_version() != BASE_VERSION || mad.class_version() != CLASS_VERSION {
            return Err(Status::BAD_VERSION);
        }
        if !query::is_method(mad.method()) {
            return Err(Status::UNSUPPORTED_METHOD);
        }
        if !query::is_attribute(mad.attribute()) {
            return Err(Status::UNSUPPORTED_METHOD_ATTRIBUTE);
        }
        let request = (header, data);
        match mad.method() {
            Method::SET | Method::DELETE => {
                self.change(directory, request, trust, (requester, address), now)
            }
            _ => self.read(directory, request, trust, requester, now),
        }
    }

    /// Answers a query.
    ///
    /// # Errors
    /// Fails with the status for the answer if the query is refused, or if it is a request to
    /// change an attribute that cannot be changed.
    fn read(
        &mut self,
        directory: &Arc<Directory>,
        (header, data): (&SaHeader, &[u8]),
        trust: Trust,
        requester: EndIx,
        now: Time,
    ) -> Result<answer::Body, Status> {
        let view = if header.mad().attribute() == McMemberRecord::ID {
            self.multicast.lasting_view().ok_or(Status::BUSY)?
        } else {
            self.multicast.view()
        };
        query::answer(&SaQueryContext {
            header,
            data,
            trust,
            requester,
            lists_vports: self.config.lists_vports,
            directory,
            view: &view,
            services: &self.services,
            subscriptions: &self.events,
            act_count: self.statistics.act_count(),
            now,
        })
    }

    /// Answers a request to join or leave a multicast group.
    fn change_membership(
        &mut self,
        directory: &Directory,
        request: (&SaHeader, &[u8]),
        requester: EndIx,
        trust: Trust,
        now: Time,
    ) -> Result<answer::Body, Status> {
        let registry = &mut self.multicast;
        let body = query::mc_member::change(registry, directory, request, requester, trust);
        self.record_join_outcome(directory, request, requester, body.is_ok(), now);
        let body = body?;
        let record = body.only::<McMemberRecord>();
        self.touched
            .extend(record.map(|record| Touched::Membership {
                mgid: record.mgid(),
                member: Gid::new(directory.prefix(), record.port_gid().guid()),
            }));
        Ok(body)
    }

    /// Answers a request to assign or release alias GUIDs of a port.
    fn change_aliases(
        &mut self,
        directory: &Arc<Directory>,
        request: (&SaHeader, &[u8]),
        requester: EndIx,
        trust: Trust,
    ) -> Result<answer::Body, Status> {
        let requester = guids::AliasRequester {
            directory,
            port: requester,
            trust,
            multicast: &self.multicast,
        };
        let answer = query::guid_info::change(&mut self.guids, request, &requester);
        self.publish_alias_guids();
        let body = answer?;
        let port = GuidInfoRecord::from_prefix(request.1)
            .and_then(|record| directory.by_lid(record.lid()))
            .map(|port| directory.end(port).guid);
        self.touched.extend(port.map(Touched::AliasGuids));
        Ok(body)
    }

    /// Answers a request to register or delete a service.
    fn change_service(
        &mut self,
        directory: &Arc<Directory>,
        request: (&SaHeader, &[u8]),
        requester: EndIx,
        trust: Trust,
        now: Time,
    ) -> Result<answer::Body, Status> {
        let requester = services::ServiceRequester {
            directory,
            port: requester,
            trust,
        };
        let body = query::service::change(&mut self.services, request, &requester, now)?;
        let record = body.only::<ServiceRecord>();
        self.touched.extend(record.map(|record| {
            Touched::Service(services::Id {
                service: record.service_id(),
                gid: record.service_gid(),
                p_key: record.service_p_key(),
            })
        }));
        Ok(body)
    }

    /// Records the outcome of a request of `requester` to join or leave a group for its own port.
    /// Refused joins by proxy are not recorded.
    fn record_join_outcome(
        &mut self,
        directory: &Directory,
        (header, data): (&SaHeader, &[u8]),
        requester: EndIx,
        is_done: bool,
        now: Time,
    ) {
        let Some(record) = McMemberRecord::from_prefix(data) else {
            return;
        };
        if directory.by_gid(record.port_gid()) != Some(requester) {
            return;
        }
        let (guid, mgid) = (directory.end(requester).guid, record.mgid());
        if is_done {
            return self.refused_joins.end(guid, mgid);
        }
        let mask = header.component_mask();
        if header.mad().method() == Method::SET
            && let Some(port) = directory.member(requester)
            && let Some(why) = self.multicast.refusal(record, mask, &port)
        {
            self.refused_joins.record(guid, mgid, why, now);
        }
    }

    /// Records an offence if a change was refused because the requester has used up its own share;
    /// or of the port that holds the most, if a table of all ports is full.
    fn record_exhausted_share(
        &mut self,
        directory: &Directory,
        (header, data): (&SaHeader, &[u8]),
        requester: EndIx,
        now: Time,
    ) {
        let guid = directory.end(requester).guid;
        let cause = match header.mad().attribute() {
            McMemberRecord::ID => {
                let record = McMemberRecord::from_prefix(data);
                let port = record.and_then(|record| directory.by_gid(record.port_gid()));
                let member = |ix| directory.member(ix);
                let ports = member(requester).zip(port.and_then(member));
                ports.and_then(|(of, port)| self.multicast.cause_of_refusal(&of, &port))
            }
            ServiceRecord::ID => self
                .services
                .cause_of_refusal(guid, directory.physical_guid(requester)),
            InformInfo::ID => self
                .events
                .is_at_limit(guid)
                .then_some((guid, Offence::Subscriptions)),
            _ => None,
        };
        if let Some((port, offence)) = cause {
            self.offences.record_excess(port, offence, 1, now);
        }
    }

    /// Handles the message if it is a response to a report from a port in the directory. Returns
    /// whether it is.
    fn handle_report_response(&mut self, request: SaRequest<'_>) -> bool {
        let Some((header, _)) = SaHeader::split(request.bytes) else {
            return false;
        };
        let mad = header.mad();
        let is_report_response = mad.class() == Class::SUBNET_ADMINISTRATION
            && (mad.attribute(), mad.method()) == (AttrId::NOTICE, Method::REPORT_RESPONSE);
        let remote = request.requester;
        let from = self
            .sa_snapshot
            .in_force()
            .filter(|_| is_report_response)
            .and_then(|directory| Some(directory.end(directory.requester(&remote)?).guid));
        match from {
            Some(port) => {
                self.events.answered(mad.tid(), port, remote.qpn);
                true
            }
            None => false,
        }
    }
}
