//! Services in the form in which they survive a restart.

use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::wire::sa::ServiceRecord;

use super::limits::MAX_SERVICES;
use super::{Service, ServiceRegistry};

/// A service in saved form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavedService {
    /// The record as registered.
    pub record: ServiceRecord,
    /// GUID of the port that offers the service.
    pub port: Guid,
    /// GUID of the port that registered the service.
    pub owner: Guid,
    /// Remaining time of the lease; `None` for a permanent service.
    pub left: Option<Duration>,
}

impl ServiceRegistry {
    /// Restores saved services at the start of the daemon. Every port counts as absent until
    /// [`ServiceRegistry::ports_changed`] finds it.
    ///
    /// Services that are invalid, contradict earlier services or exceed the limits are skipped,
    /// because bytes on a disk deserve no more trust than a request. Services whose lease has ended
    /// in the meantime are dropped. Returns the number of skipped services.
    pub fn restore(&mut self, saved: impl IntoIterator<Item = SavedService>, now: Time) -> usize {
        let mut skipped = 0;
        for saved in saved {
            let leased = saved.record.service_lease() != ServiceRecord::LEASE_INDEFINITE;
            let service = Service {
                record: saved.record,
                port: saved.port,
                owner: saved.owner,
                until: saved.left.map(|left| now + left),
            };
            let is_valid = leased == saved.left.is_some()
                && !saved.port.is_zero()
                && !saved.owner.is_zero()
                && self.owned.permits(saved.owner, 0)
                && self.len() < MAX_SERVICES
                && self.get(&service.id()).is_none();
            if !is_valid {
                skipped += 1;
            } else if !service.has_expired(now) {
                self.absent_since.insert(service.port, now);
                self.insert(service);
            }
        }
        skipped
    }
}

#[cfg(test)]
mod tests {
    use rsm_mad::ids::Gid;

    use super::super::limits::MAX_SERVICES_PER_PORT;
    use super::*;

    /// A permanent service with this number of the port with this GUID.
    fn saved(port: u64, number: u64) -> SavedService {
        let mut record = ServiceRecord::default();
        record
            .set_service_id(number)
            .set_service_gid(Gid(0xFE80 << 112 | u128::from(port)))
            .set_service_lease(ServiceRecord::LEASE_INDEFINITE);
        SavedService {
            record,
            port: Guid(port),
            owner: Guid(port),
            left: None,
        }
    }

    #[test]
    fn invalid_repeated_and_excess_saved_services_are_skipped() {
        let mut registry = ServiceRegistry::default();
        let mut with_wrong_lease = saved(1, 1);
        with_wrong_lease.left = Some(Duration::from_secs(1));
        let mut without_owner = saved(1, 2);
        without_owner.owner = Guid::ZERO;
        let twice = [saved(1, 3), saved(1, 3)];
        let all = [with_wrong_lease, without_owner].into_iter().chain(twice);
        assert_eq!(registry.restore(all, Time::ZERO), 3);
        assert_eq!(registry.len(), 1);
        let many = (10..10 + MAX_SERVICES_PER_PORT as u64).map(|number| saved(1, number));
        assert_eq!(registry.restore(many, Time::ZERO), 1);
    }

    #[test]
    fn full_registry_removes_a_service_of_the_port_absent_longest() {
        let mut registry = ServiceRegistry::default();
        let ports = (MAX_SERVICES / MAX_SERVICES_PER_PORT) as u64;
        for port in 1..=ports {
            let at = Time::ZERO + Duration::from_secs(100 - port);
            let all = (0..MAX_SERVICES_PER_PORT as u64).map(|number| saved(port, number));
            assert_eq!(registry.restore(all, at), 0);
        }
        assert_eq!(registry.restore([saved(ports + 1, 0)], Time::ZERO), 1);
        // The last port has the earliest time, and has therefore been absent longest.
        assert!(registry.make_room(Guid(ports + 1)));
        assert_eq!(
            (registry.displaced(), registry.len()),
            (1, MAX_SERVICES - 1)
        );
        assert_eq!(
            registry.by_port[&Guid(ports)].len(),
            MAX_SERVICES_PER_PORT - 1
        );
        // Without an absent port, no room can be made.
        registry.insert(Service {
            record: saved(ports, 0).record,
            port: Guid(ports),
            owner: Guid(ports),
            until: None,
        });
        registry.absent_since.clear();
        assert!(!registry.make_room(Guid(ports + 1)));
    }
}
