//! Services that ports offer, and their leases (IBA 15.2.5.14).
//!
//! A [`ServiceRegistry`] is a state machine without I/O: it handles Set and Delete of
//! ServiceRecord, shows services to queries in a [`ServicesView`], and removes services whose lease
//! has ended. Each request looks up its ports in the directory.
//!
//! ServiceID, ServiceGID and ServiceP_Key together identify a service; any number of services may
//! share a ServiceName. A service stays while its lease runs, even if its port is absent, so that
//! permanent registrations survive a reboot of the host. Services of the ports that have been
//! absent longest are removed only if the registry is full.

mod change;
pub mod limits;
mod saved;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::sa::ServiceRecord;

pub(crate) use self::change::ServiceRequester;
pub use self::saved::SavedService;
use self::view::Index;
pub use self::view::ServicesView;
pub(crate) use self::view::{ServiceAccess, ServiceQuery};
use super::directory::Directory;
use super::shares::Shares;
use super::trust::Offence;

/// Identifies a service: the RID of ServiceRecord.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id {
    /// ServiceID.
    pub service: u64,
    /// ServiceGID: a GID of the port that offers the service, with the prefix of the subnet; or a
    /// multicast group.
    pub gid: Gid,
    /// ServiceP_Key; 0 if the request had none, so that the service can be reached in any
    /// partition.
    pub p_key: PKey,
}

/// A service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// The record as registered, with the ServiceLease of the request.
    pub record: ServiceRecord,
    /// GUID of the port that offers the service, never an alias GUID; for a multicast group, GUID
    /// of the port that registered the service.
    pub port: Guid,
    /// GUID of the port that registered the service.
    pub owner: Guid,
    /// End of the lease; `None` for a permanent service.
    pub until: Option<Time>,
}

impl Service {
    /// Identifier of the service.
    pub fn id(&self) -> Id {
        Id {
            service: self.record.service_id(),
            gid: self.record.service_gid(),
            p_key: self.record.service_p_key(),
        }
    }

    /// The record at `now`, with the remaining seconds of the lease, rounded up.
    pub fn shown(&self, now: Time) -> ServiceRecord {
        let mut record = self.record;
        if let Some(until) = self.until {
            record.set_service_lease(seconds(until.since(now)));
        }
        record
    }

    /// Whether the lease has ended.
    fn has_expired(&self, now: Time) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// The GID of a service's port, with the prefix of the subnet. Only the GUID identifies the port,
/// because only ports of this subnet offer services here, and programs set any prefix or none. A
/// multicast GID is returned unchanged.
fn normalized_gid(directory: &Directory, gid: Gid) -> Gid {
    if gid.is_multicast() {
        gid
    } else {
        Gid::new(directory.prefix(), gid.guid())
    }
}

/// Remaining time of a lease in seconds, rounded up.
fn seconds(left: Duration) -> u32 {
    let whole = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    u32::try_from(whole)
        .unwrap_or(u32::MAX)
        .min(ServiceRecord::LEASE_INDEFINITE - 1)
}

/// All registered services.
#[derive(Debug)]
pub struct ServiceRegistry {
    /// Services, shared with views; a change copies the index while a view holds it.
    index: Arc<Index>,
    /// Services, by the port that registered them.
    owned: Shares,
    /// Identifiers of services, by the port that offers them.
    by_port: BTreeMap<Guid, BTreeSet<Id>>,
    /// Ends of the leases, each with the service.
    leases: BTreeSet<(Time, Id)>,
    /// Absent ports that offer services, each with the time at which it was first found absent.
    absent_since: BTreeMap<Guid, Time>,
    /// Whether anything has changed since the last [`ServiceRegistry::take_unsaved`].
    unsaved: bool,
    displaced: u64,
}

impl Default for ServiceRegistry {
    fn default() -> ServiceRegistry {
        ServiceRegistry {
            index: Arc::default(),
            owned: Shares::new(limits::MAX_SERVICES, limits::MAX_SERVICES_PER_PORT),
            by_port: BTreeMap::new(),
            leases: BTreeSet::new(),
            absent_since: BTreeMap::new(),
            unsaved: false,
            displaced: 0,
        }
    }
}

impl ServiceRegistry {
    /// Sets the number of physical ports that share the services.
    pub(crate) fn set_ports(&mut self, ports: u32) {
        self.owned.set_ports(ports);
    }

    /// Number of services.
    pub fn len(&self) -> usize {
        self.index.by_id.len()
    }

    /// Whether there are no services.
    pub fn is_empty(&self) -> bool {
        self.index.by_id.is_empty()
    }

    /// The service with this identifier.
    pub fn get(&self, id: &Id) -> Option<&Service> {
        self.index.by_id.get(id).map(Arc::as_ref)
    }

    /// All services at this moment.
    pub fn view(&self) -> ServicesView {
        ServicesView::of(self.index.clone())
    }

    /// Number of services of absent ports that were removed for lack of room before their lease
    /// ended.
    pub fn displaced(&self) -> u64 {
        self.displaced
    }

    /// Whether there are changes to save.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.unsaved
    }

    /// Whether there are changes to save; marks them as saved.
    pub(crate) fn take_unsaved(&mut self) -> bool {
        std::mem::take(&mut self.unsaved)
    }

    /// Handles a change of the subnet: records which ports are absent.
    pub fn ports_changed(&mut self, directory: &Directory, now: Time) {
        for &guid in self.by_port.keys() {
            if directory.by_guid(guid).is_some() {
                self.absent_since.remove(&guid);
            } else {
                self.absent_since.entry(guid).or_insert(now);
            }
        }
    }

    /// Removes services whose lease has ended.
    pub fn handle_deadline(&mut self, now: Time) {
        while let Some(&(until, id)) = self.leases.first()
            && until <= now
        {
            self.remove(&id);
        }
    }

    /// Time at which [`ServiceRegistry::handle_deadline`] next has work; `None` if all services are
    /// permanent.
    pub fn next_deadline(&self) -> Option<Time> {
        self.leases.first().map(|&(until, _)| until)
    }

    /// Adds a service, which replaces a service with the same identifier.
    fn insert(&mut self, service: Service) {
        let id = service.id();
        self.remove(&id);
        self.owned.add(service.owner);
        self.by_port.entry(service.port).or_default().insert(id);
        if let Some(until) = service.until {
            self.leases.insert((until, id));
        }
        Arc::make_mut(&mut self.index).insert(id, service);
        self.unsaved = true;
    }

    fn remove(&mut self, id: &Id) -> Option<Arc<Service>> {
        if !self.index.by_id.contains_key(id) {
            return None;
        }
        let service = Arc::make_mut(&mut self.index).remove(id)?;
        self.owned.remove(service.owner);
        if let Some(ids) = self.by_port.get_mut(&service.port) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_port.remove(&service.port);
                self.absent_since.remove(&service.port);
            }
        }
        if let Some(until) = service.until {
            self.leases.remove(&(until, *id));
        }
        self.unsaved = true;
        Some(service)
    }

    /// The port to name after a service that `requester`, at the port `physical`, registered was
    /// refused for lack of room; see [`Shares::cause`].
    pub(crate) fn cause_of_refusal(
        &self,
        requester: Guid,
        physical: Guid,
    ) -> Option<(Guid, Offence)> {
        let port = self.owned.cause(requester, physical, self.len())?;
        Some((port, Offence::Services))
    }

    /// Makes room for one more service of a physical port or its virtual ports. If the registry is
    /// full, removes a service of the port that has been absent longest. Returns whether there is
    /// room.
    fn make_room(&mut self, physical: Guid) -> bool {
        if !self.owned.permits(physical, self.len()) {
            return false;
        }
        if self.len() < limits::MAX_SERVICES {
            return true;
        }
        let longest = self
            .absent_since
            .iter()
            .min_by_key(|&(&guid, &since)| (since, guid));
        let removable = longest
            .and_then(|(guid, _)| self.by_port.get(guid)?.first())
            .copied();
        match removable {
            Some(id) => {
                self.displaced += 1;
                self.remove(&id);
                true
            }
            None => false,
        }
    }
}
