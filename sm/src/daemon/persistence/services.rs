//! Stores services, keyed by ServiceID, ServiceGID and ServiceP_Key. A lease is stored as its end
//! in Unix time, so that it continues to run while rsm is down.

use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::wire::sa::{Record as _, ServiceRecord};
use rsm_sa::services::{Id, SavedService, Service, ServicesView};
use rsm_store::journal::RowChange;
use rsm_store::{ChangeSet, Persisted};
use rsm_view::publish::UnixClock;

use super::table;

/// Table of services.
const SERVICES: &str = "services";

/// Stored end, in milliseconds since the Unix epoch, of a lease without an end.
const NEVER: u64 = u64::MAX;

/// Length of a value in bytes: the record, two GUIDs and the end of the lease.
const VALUE_LEN: usize = ServiceRecord::LEN + 24;

/// Services in the store, with their remaining leases at `now`. Logs and skips invalid rows.
pub(super) fn restored(
    persisted: &Persisted,
    clock: &dyn UnixClock,
    now: Time,
) -> Vec<SavedService> {
    let now_ms = clock.unix_ms(now);
    table::read(persisted, SERVICES, |key, value| decode(key, value, now_ms))
}

/// Adds the changes after which `persisted` holds the services of `view`.
pub(super) fn changes(
    persisted: &Persisted,
    view: &ServicesView,
    clock: &dyn UnixClock,
    changes: &mut ChangeSet,
) {
    let rows = view
        .services()
        .map(|service| (key(&service.id()), encode(service, clock)));
    table::replace(persisted, SERVICES, rows, changes);
}

/// Row of a service, or its removal if the service no longer exists.
pub(super) fn row(view: &ServicesView, id: &Id, clock: &dyn UnixClock) -> Vec<RowChange> {
    let row = match view.get(id) {
        Some(service) => table::set(SERVICES, key(id), encode(service, clock)),
        None => table::clear(SERVICES, key(id)),
    };
    row.into_iter().collect()
}

/// Encodes a service in the order in which [`decode`] reads.
fn encode(service: &Service, clock: &dyn UnixClock) -> Vec<u8> {
    let until = service.until.map_or(NEVER, |until| clock.unix_ms(until));
    let mut value = service.record.as_bytes().to_vec();
    for number in [service.port.0, service.owner.0, until] {
        value.extend(number.to_be_bytes());
    }
    value
}

/// Key of a service.
fn key(id: &Id) -> Vec<u8> {
    let mut key = id.service.to_be_bytes().to_vec();
    key.extend(id.gid.0.to_be_bytes());
    key.extend(id.p_key.0.to_be_bytes());
    key
}

/// Decodes the row with the key `row`; `None` if the row is invalid.
fn decode(row: &[u8], value: &[u8], now_ms: u64) -> Option<SavedService> {
    let value: &[u8; VALUE_LEN] = value.try_into().ok()?;
    let (record, numbers) = value.split_at(ServiceRecord::LEN);
    let record = *ServiceRecord::from_prefix(record)?;
    let (numbers, _) = numbers.as_chunks::<8>();
    let &[port, owner, until] = numbers else {
        return None;
    };
    let until = u64::from_be_bytes(until);
    let id = Id {
        service: record.service_id(),
        gid: record.service_gid(),
        p_key: record.service_p_key(),
    };
    // A clock that was set back extends no lease.
    let longest = Duration::from_secs(u64::from(record.service_lease()));
    let left = (until != NEVER).then(|| Duration::from_millis(until.saturating_sub(now_ms)));
    (key(&id) == row).then_some(SavedService {
        record,
        port: Guid(u64::from_be_bytes(port)),
        owner: Guid(u64::from_be_bytes(owner)),
        left: left.map(|left| left.min(longest)),
    })
}

#[cfg(test)]
mod tests {
    use rsm_mad::ids::Gid;
    use rsm_mad::wire::attr::PKey;
    use rsm_sa::services::ServiceRegistry;
    use rsm_store::Namespace;

    use super::*;

    /// Process that started this number of milliseconds after 1970.
    struct FixedClock(u64);

    impl UnixClock for FixedClock {
        fn now(&self) -> Time {
            Time::ZERO
        }

        fn unix_ms(&self, at: Time) -> u64 {
            self.0 + at.as_nanos() / 1_000_000
        }
    }

    fn service(number: u64, lease: u32) -> SavedService {
        let mut record = ServiceRecord::default();
        record
            .set_service_id(number)
            .set_service_gid(Gid(0xFE80 << 112 | 9))
            .set_service_p_key(PKey::DEFAULT_FULL)
            .set_service_lease(lease)
            .set_service_key([7; 16])
            .set_service_name([b'n'; 64])
            .set_service_data([5; 64]);
        let ends = lease != ServiceRecord::LEASE_INDEFINITE;
        SavedService {
            record,
            port: Guid(9),
            owner: Guid(8),
            left: ends.then(|| Duration::from_secs(u64::from(lease))),
        }
    }

    fn view(services: Vec<SavedService>, now: Time) -> ServicesView {
        let mut registry = ServiceRegistry::default();
        assert_eq!(registry.restore(services, now), 0);
        registry.view()
    }

    fn change(persisted: &Persisted, view: &ServicesView, clock: &FixedClock) -> ChangeSet {
        let mut set = ChangeSet::new();
        changes(persisted, view, clock, &mut set);
        set
    }

    #[test]
    fn stored_services_are_restored_with_the_rest_of_their_lease() {
        let before = FixedClock(1_000_000);
        let at = Time::ZERO + Duration::from_millis(500);
        let services = vec![
            service(1, ServiceRecord::LEASE_INDEFINITE),
            service(2, 60),
            service(3, 3),
        ];
        let view = view(services.clone(), at);
        let mut persisted = Persisted::default();
        persisted.apply(&change(&persisted, &view, &before));
        assert_eq!(persisted.len(), 3);
        assert_eq!(restored(&persisted, &before, at), services);
        assert!(change(&persisted, &view, &before).is_empty());
        // Another process reads the store ten seconds later in Unix time.
        let after = FixedClock(1_010_500);
        let now = restored(&persisted, &after, Time::ZERO);
        assert_eq!(now[0], services[0]);
        assert_eq!(now[1].left, Some(Duration::from_secs(50)));
        assert_eq!(now[2].left, Some(Duration::ZERO), "it has ended");
        let mut registry = ServiceRegistry::default();
        assert_eq!(registry.restore(now, Time::ZERO), 0);
        assert_eq!(registry.len(), 2);
        // A clock that was set back by a year extends no lease.
        let now = restored(&persisted, &FixedClock(0), Time::ZERO);
        assert_eq!(now[1].left, services[1].left);
        // A removed service also leaves the store.
        let none = view_of_nothing();
        persisted.apply(&change(&persisted, &none, &before));
        assert!(persisted.is_empty());
    }

    fn view_of_nothing() -> ServicesView {
        ServiceRegistry::default().view()
    }

    #[test]
    fn invalid_records_are_skipped() {
        let clock = FixedClock(0);
        let mut persisted = Persisted::default();
        let services = vec![service(1, 60)];
        let sound = view(services.clone(), Time::ZERO);
        persisted.apply(&change(&persisted, &sound, &clock));
        let (row, value) = {
            let table = &persisted.records[&Namespace::new(SERVICES).unwrap()];
            let (row, value) = table.first_key_value().unwrap();
            (row.to_vec(), value.clone())
        };
        let mut broken = ChangeSet::new();
        let namespace = Namespace::new(SERVICES).unwrap();
        for length in [0, 1, 25, 27] {
            let key = vec![1; length];
            broken.set_record(&namespace, &key, &value).unwrap();
        }
        let mut other = row;
        other[7] = 9;
        // Key and record differ, or the value is too short or too long.
        broken.set_record(&namespace, &other, &value).unwrap();
        other[7] = 10;
        broken
            .set_record(&namespace, &other, &value[..VALUE_LEN - 1])
            .unwrap();
        other[7] = 11;
        let longer = [&value[..], &[0]].concat();
        broken.set_record(&namespace, &other, &longer).unwrap();
        persisted.apply(&broken);
        assert_eq!(restored(&persisted, &clock, Time::ZERO), services);
    }
}
