//! Handles requests to register and delete services (IBA 15.2.5.14).

use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{ComponentMask, SaStatus, ServiceRecord};

use super::{Id, Service, ServiceRegistry, normalized_gid};
use crate::directory::Directory;
use crate::ends::EndIx;
use crate::template::Template;
use crate::trust::Trust;

/// Components that a request to register a service must contain.
const REQUIRED: ComponentMask =
    ComponentMask(ServiceRecord::SERVICE_ID.0 | ServiceRecord::SERVICE_GID.0);

/// The requester of a change.
#[derive(Clone, Copy)]
pub(crate) struct ServiceRequester<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) port: EndIx,
    pub(crate) trust: Trust,
}

impl ServiceRequester<'_> {
    fn guid(&self) -> Guid {
        self.directory.end(self.port).guid
    }

    /// Whether `port` is a full or limited member of the partition of `p_key`.
    fn is_in(&self, port: EndIx, p_key: PKey) -> bool {
        let mut keys = self.directory.p_keys(port).iter();
        p_key.is_valid() && keys.any(|key| key.base() == p_key.base())
    }
}

impl ServiceRegistry {
    /// Answers Set of ServiceRecord: registers a service, or changes its data and lease. Without
    /// ServiceLease, the service stays until it is deleted; without ServiceP_Key, it can be reached
    /// in any partition.
    ///
    /// # Errors
    /// Fails with the status for the answer; then nothing has changed.
    pub(crate) fn register(
        &mut self,
        record: &ServiceRecord,
        mask: ComponentMask,
        requester: &ServiceRequester<'_>,
        now: Time,
    ) -> Result<ServiceRecord, Status> {
        if !mask.contains(REQUIRED) {
            return Err(SaStatus::REQ_INSUFFICIENT_COMPONENTS);
        }
        // Refuses components that the record lacks.
        Template::new(record, mask, ComponentMask(u64::MAX))?;
        let mut record = *record;
        if !mask.contains(ServiceRecord::SERVICE_P_KEY) {
            record.set_service_p_key(PKey::INVALID);
        }
        let port = offering_port(&mut record, mask, requester)?;
        if !mask.contains(ServiceRecord::SERVICE_LEASE) {
            record.set_service_lease(ServiceRecord::LEASE_INDEFINITE);
        }
        if !mask.contains(ServiceRecord::SERVICE_KEY) {
            record.set_service_key([0; 16]);
        }
        let lease = record.service_lease();
        let until = (lease != ServiceRecord::LEASE_INDEFINITE)
            .then(|| now + Duration::from_secs(u64::from(lease)));
        let mut service = Service {
            record,
            port,
            owner: requester.guid(),
            until,
        };
        let id = service.id();
        let physical = requester.directory.physical_guid(requester.port);
        let existing = self.get(&id).filter(|existing| !existing.has_expired(now));
        if let Some(existing) = existing {
            if !may_change(existing, &record, mask, requester) {
                return Err(SaStatus::REQ_DENIED);
            }
            // The port that registered the service remains its owner.
            service.owner = existing.owner;
        } else {
            self.owned.charge(requester.guid(), physical);
            if !self.make_room(physical) {
                return Err(SaStatus::NO_RESOURCES);
            }
        }
        let shown = service.shown(now);
        self.insert(service);
        self.owned.charge(requester.guid(), physical);
        Ok(shown)
    }

    /// Answers Delete of ServiceRecord: deletes a service. ServiceID, ServiceGID and ServiceP_Key
    /// of the record identify the service, even if the mask omits them; all other components in the
    /// mask, except ServiceLease, must match.
    ///
    /// # Errors
    /// Fails with the status for the answer; then nothing has changed.
    pub(crate) fn delete(
        &mut self,
        record: &ServiceRecord,
        mask: ComponentMask,
        requester: &ServiceRequester<'_>,
        now: Time,
    ) -> Result<ServiceRecord, Status> {
        let not_compared = REQUIRED | ServiceRecord::SERVICE_P_KEY | ServiceRecord::SERVICE_LEASE;
        let template = Template::new(record, mask, not_compared)?;
        let gid = normalized_gid(requester.directory, record.service_gid());
        let id = |p_key| Id {
            service: record.service_id(),
            gid,
            p_key,
        };
        let existing = self.get(&id(record.service_p_key())).or_else(|| {
            // A service registered without a P_Key has P_Key 0. The request may have another value
            // in this field, because its mask omits the field.
            let without_p_key = !mask.contains(ServiceRecord::SERVICE_P_KEY);
            without_p_key
                .then(|| self.get(&id(PKey::INVALID)))
                .flatten()
        });
        let existing = existing
            .filter(|existing| !existing.has_expired(now) && template.matches(&existing.record))
            .ok_or(SaStatus::NO_RECORDS)?;
        if !may_change(existing, record, mask, requester) {
            return Err(SaStatus::REQ_DENIED);
        }
        let id = existing.id();
        let removed = self.remove(&id).ok_or(SaStatus::NO_RECORDS)?;
        Ok(removed.shown(now))
    }
}

/// Normalises the record's GID, and returns the port that offers the service: the port with this
/// GID, or the requester if the GID is a multicast GID.
///
/// # Errors
/// ERR_REQ_INVALID_GID if the port does not exist, or the requester may not see it; ERR_REQ_INVALID
/// if the port or the requester is not in the partition.
fn offering_port(
    record: &mut ServiceRecord,
    mask: ComponentMask,
    requester: &ServiceRequester<'_>,
) -> Result<Guid, Status> {
    let directory = requester.directory;
    let p_key = record.service_p_key();
    let in_partition =
        |port| !mask.contains(ServiceRecord::SERVICE_P_KEY) || requester.is_in(port, p_key);
    let acts_for_all = requester.trust.acts_for_all();
    let port = if record.service_gid().is_multicast() {
        requester.port
    } else {
        let gid = normalized_gid(directory, record.service_gid());
        record.set_service_gid(gid);
        directory
            .by_guid_or_alias(gid.guid())
            .filter(|&port| acts_for_all || directory.may_see(requester.port, port))
            .ok_or(SaStatus::REQ_INVALID_GID)?
    };
    if !in_partition(port) || !(acts_for_all || in_partition(requester.port)) {
        return Err(SaStatus::REQ_INVALID);
    }
    Ok(directory.end(port).guid)
}

/// Whether the requester may change or delete a service: it must be the port that offers the
/// service, the port that registered it, a trusted requester, or a requester that shows the
/// service's key. A service whose key is 0 has no key.
fn may_change(
    existing: &Service,
    record: &ServiceRecord,
    mask: ComponentMask,
    requester: &ServiceRequester<'_>,
) -> bool {
    let guid = requester.guid();
    let key = existing.record.service_key();
    let shows_key =
        mask.contains(ServiceRecord::SERVICE_KEY) && *key != [0; 16] && key == record.service_key();
    requester.trust.acts_for_all() || guid == existing.port || guid == existing.owner || shows_key
}
