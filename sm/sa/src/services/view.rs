//! A view of all services, which answers queries while the registry changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::Status;
use rsm_mad::wire::sa::{ComponentMask, ServiceRecord};

use super::{Id, Service, normalized_gid};
use crate::directory::Directory;
use crate::ends::EndIx;
use crate::template::Template;
use crate::trust::Trust;

/// ServiceName, padded with NUL.
type Name = [u8; 64];

/// All services, by identifier and by name.
#[derive(Clone, Default, Debug)]
pub(super) struct Index {
    pub(super) by_id: BTreeMap<Id, Arc<Service>>,
    /// Identifiers of the services with each ServiceName.
    by_name: BTreeMap<Name, BTreeSet<Id>>,
}

impl Index {
    pub(super) fn insert(&mut self, id: Id, service: Service) {
        let name = *service.record.service_name();
        self.by_name.entry(name).or_default().insert(id);
        self.by_id.insert(id, Arc::new(service));
    }

    pub(super) fn remove(&mut self, id: &Id) -> Option<Arc<Service>> {
        let service = self.by_id.remove(id)?;
        let name = service.record.service_name();
        if let Some(ids) = self.by_name.get_mut(name) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_name.remove(name);
            }
        }
        Some(service)
    }
}

/// All services at one moment.
#[derive(Clone, Default, Debug)]
pub struct ServicesView {
    index: Arc<Index>,
}

impl ServicesView {
    pub(super) fn of(index: Arc<Index>) -> ServicesView {
        ServicesView { index }
    }

    /// All services, in the order of ServiceID, ServiceGID and ServiceP_Key.
    pub fn services(&self) -> impl ExactSizeIterator<Item = &Service> {
        self.index.by_id.values().map(Arc::as_ref)
    }

    /// The services after `after`, in the order of [`ServicesView::services`]; all if `after` is
    /// `None`.
    pub fn services_after(&self, after: Option<Id>) -> impl Iterator<Item = &Service> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let services = self.index.by_id.range((from, Bound::Unbounded));
        services.map(|(_, service)| service.as_ref())
    }

    /// The service with this identifier; `None` if there is none.
    pub fn get(&self, id: &Id) -> Option<&Service> {
        self.index.by_id.get(id).map(Arc::as_ref)
    }
}

/// The requester, and the directory that decides which services it may see.
#[derive(Clone, Debug)]
pub(crate) struct ServiceAccess {
    pub(crate) directory: Arc<Directory>,
    pub(crate) requester: EndIx,
    pub(crate) trust: Trust,
}

impl ServiceAccess {
    /// Whether the requester may see a service: whether it can reach the port of the service in the
    /// service's partition, or in any partition if the service has none.
    fn allows(&self, service: &Service) -> bool {
        if self.trust.is_trusted() {
            return true;
        }
        let p_key = service.record.service_p_key();
        let port = self.directory.by_guid(service.port);
        match port {
            Some(port) if p_key.is_valid() => self
                .directory
                .common_p_keys(self.requester, port)
                .any(|key| key.base() == p_key.base()),
            Some(port) => self.directory.may_see(self.requester, port),
            // While the port is absent, members of the service's partition see the service. A
            // service without a partition is then seen only by trusted requesters.
            None => {
                let mut keys = self.directory.p_keys(self.requester).iter();
                p_key.is_valid() && keys.any(|key: &PKey| key.base() == p_key.base())
            }
        }
    }
}

/// Examines the services for a Get or GetTable, one in each step: yields a record, or `None` for a
/// service that does not match or that the requester may not see.
#[derive(Debug)]
pub(crate) struct ServiceQuery {
    view: ServicesView,
    access: ServiceAccess,
    template: Template,
    now: Time,
    /// ServiceID that candidates must have; `None` for any ServiceID.
    service: Option<u64>,
    /// ServiceName that candidates must have; `None` for any ServiceName.
    name: Option<Name>,
    /// Position at which the next step begins.
    after: Bound<Id>,
}

impl ServiceQuery {
    /// The query for `record` with the component mask `mask` at `now`.
    ///
    /// # Errors
    /// ERR_REQ_INVALID for components that the record lacks.
    pub(crate) fn new(
        view: ServicesView,
        access: ServiceAccess,
        record: &ServiceRecord,
        mask: ComponentMask,
        now: Time,
    ) -> Result<ServiceQuery, Status> {
        let mut record = *record;
        record.set_service_gid(normalized_gid(&access.directory, record.service_gid()));
        let has = |component| mask.contains(component);
        let service = has(ServiceRecord::SERVICE_ID).then(|| record.service_id());
        let first = Id {
            service: service.unwrap_or(0),
            gid: Gid(0),
            p_key: PKey::INVALID,
        };
        Ok(ServiceQuery {
            template: Template::new(&record, mask, ComponentMask::NONE)?,
            name: has(ServiceRecord::SERVICE_NAME).then(|| *record.service_name()),
            view,
            access,
            now,
            service,
            after: Bound::Included(first),
        })
    }

    /// The record of a service; `None` if the service does not match, if the requester may not see
    /// it, or if its lease has ended.
    fn shown(&self, service: &Service) -> Option<ServiceRecord> {
        if service.has_expired(self.now) || !self.access.allows(service) {
            return None;
        }
        let mut record = service.shown(self.now);
        // A requester that knows the key may search for it; an untrusted requester never learns the
        // key.
        let is_match = self.template.matches(&record);
        if !self.access.trust.is_trusted() {
            record.set_service_key([0; 16]);
        }
        is_match.then_some(record)
    }
}

impl Iterator for ServiceQuery {
    type Item = Option<ServiceRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        let range = (self.after, Bound::Unbounded);
        let index = &self.view.index;
        let id = match &self.name {
            Some(name) => index.by_name.get(name)?.range(range).next(),
            None => index.by_id.range(range).next().map(|(id, _)| id),
        };
        let id = *id?;
        if self.service.is_some_and(|service| service != id.service) {
            return None;
        }
        self.after = Bound::Excluded(id);
        let service = index.by_id.get(&id)?;
        Some(self.shown(service))
    }
}
