//! Services that ports offer, and for how long (IBA 15.2.5.14).
//!
//! A [`ServiceRegistry`] is a state machine without I/O: it takes Set and Delete of ServiceRecord,
//! shows itself to queries in a [`ServicesView`], and removes services whose lease has ended. It
//! looks ports up in the directory, at every request.
//!
//! ServiceID, ServiceGID and ServiceP_Key together identify a service; any number of services may
//! share a ServiceName. A service stays while its lease runs, even if its port is away: a host that
//! boots finds its permanent registrations. Only without room left, services of the ports that have
//! been away longest go first.

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

/// Identifies a service: the RID of ServiceRecord.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id {
    /// ServiceID.
    pub service: u64,
    /// ServiceGID: the port that offers it, by whichever of its GIDs with the prefix of the subnet,
    /// or a multicast group.
    pub gid: Gid,
    /// ServiceP_Key; 0 where none was given: it can be reached in any partition.
    pub p_key: PKey,
}

/// A service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// The record as registered, with the ServiceLease of the request.
    pub record: ServiceRecord,
    /// The GUID of the port that offers it, no alias; of a multicast group the port that registered
    /// it.
    pub port: Guid,
    /// The GUID of the port that registered it.
    pub owner: Guid,
    /// When its lease ends; `None`: never.
    pub until: Option<Time>,
}

impl Service {
    /// Its identifier.
    pub fn id(&self) -> Id {
        Id {
            service: self.record.service_id(),
            gid: self.record.service_gid(),
            p_key: self.record.service_p_key(),
        }
    }

    /// The record at `now`: with the seconds left of the lease, rounded up.
    pub fn shown(&self, now: Time) -> ServiceRecord {
        let mut record = self.record;
        if let Some(until) = self.until {
            record.set_service_lease(seconds(until.since(now)));
        }
        record
    }

    fn is_over(&self, now: Time) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// The GID of a service's port with the prefix of the subnet. The GUID alone identifies the port:
/// only ports of this subnet offer services here, and programs set all kinds of prefixes, or none.
fn usual_gid(directory: &Directory, gid: Gid) -> Gid {
    if gid.is_multicast() {
        gid
    } else {
        Gid::new(directory.prefix(), gid.guid())
    }
}

/// The rest of a lease that ends, in seconds, rounded up.
fn seconds(left: Duration) -> u32 {
    let whole = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    u32::try_from(whole)
        .unwrap_or(u32::MAX)
        .min(ServiceRecord::LEASE_INDEFINITE - 1)
}

/// All services.
#[derive(Debug, Default)]
pub struct ServiceRegistry {
    /// Shared with views; a change copies it while a view holds it.
    index: Arc<Index>,
    /// By the port that registered them: how many.
    owned: BTreeMap<Guid, usize>,
    /// By the port that offers them.
    by_port: BTreeMap<Guid, BTreeSet<Id>>,
    /// When leases end.
    leases: BTreeSet<(Time, Id)>,
    /// Ports that offer services and are away, and since when.
    away: BTreeMap<Guid, Time>,
    /// Changed since the last [`ServiceRegistry::take_unsaved`].
    unsaved: bool,
    displaced: u64,
}

impl ServiceRegistry {
    /// How many services there are.
    pub fn len(&self) -> usize {
        self.index.by_id.len()
    }

    /// Whether there is no service.
    pub fn is_empty(&self) -> bool {
        self.index.by_id.is_empty()
    }

    /// The service with this identifier.
    pub fn get(&self, id: &Id) -> Option<&Service> {
        self.index.by_id.get(id).map(Arc::as_ref)
    }

    /// All services as they are now.
    pub fn view(&self) -> ServicesView {
        ServicesView::of(self.index.clone())
    }

    /// Services of ports that were away, removed for lack of room before their lease ended.
    pub fn displaced(&self) -> u64 {
        self.displaced
    }

    /// Whether there are changes to save.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.unsaved
    }

    /// Whether there are changes to save since the last call.
    pub(crate) fn take_unsaved(&mut self) -> bool {
        std::mem::take(&mut self.unsaved)
    }

    /// The subnet has changed: notes which ports are away.
    pub fn ports_changed(&mut self, directory: &Directory, now: Time) {
        for &guid in self.by_port.keys() {
            if directory.by_guid(guid).is_some() {
                self.away.remove(&guid);
            } else {
                self.away.entry(guid).or_insert(now);
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

    /// When [`ServiceRegistry::handle_deadline`] has something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.leases.first().map(|&(until, _)| until)
    }

    fn insert(&mut self, service: Service) {
        let id = service.id();
        self.remove(&id);
        *self.owned.entry(service.owner).or_default() += 1;
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
        if let Some(count) = self.owned.get_mut(&service.owner) {
            *count -= 1;
            if *count == 0 {
                self.owned.remove(&service.owner);
            }
        }
        if let Some(ids) = self.by_port.get_mut(&service.port) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_port.remove(&service.port);
                self.away.remove(&service.port);
            }
        }
        if let Some(until) = service.until {
            self.leases.remove(&(until, *id));
        }
        self.unsaved = true;
        Some(service)
    }

    /// Whether the port with this GUID has registered as many services as it may.
    pub(crate) fn is_used_up(&self, owner: Guid) -> bool {
        self.owned.get(&owner).copied().unwrap_or(0) >= limits::MAX_SERVICES_PER_PORT
    }

    /// Whether there is room for one more service of `owner`. If the registry is full, removes a
    /// service of the port that has been away longest.
    fn make_room(&mut self, owner: Guid) -> bool {
        if self.is_used_up(owner) {
            return false;
        }
        if self.len() < limits::MAX_SERVICES {
            return true;
        }
        let longest = self
            .away
            .iter()
            .min_by_key(|&(&guid, &since)| (since, guid));
        let spare = longest
            .and_then(|(guid, _)| self.by_port.get(guid)?.first())
            .copied();
        match spare {
            Some(id) => {
                self.displaced += 1;
                self.remove(&id);
                true
            }
            None => false,
        }
    }
}
