//! Services that ports offer as the API shows them.

use rsm_api::model::{Page, Service, ServiceFilter, ServiceKey};
use rsm_mad::Time;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::sa::ServiceRecord;

use super::published::Published;
use super::subnet::page;
use crate::sa::services::{self, Id, View};

/// The services behind `after` that `filter` matches, as they are at `now`.
pub(super) fn services(
    published: &Published,
    view: &View,
    now: Time,
    after: Option<ServiceKey>,
    limit: usize,
    filter: &ServiceFilter,
) -> Page<Service> {
    let after = after.map(|key| Id {
        service: key.id,
        gid: key.gid,
        p_key: PKey(key.p_key),
    });
    let services = view.services_after(after);
    let shown = services.map(|service| shown(published, service, now));
    let wanted = shown.filter(|service| {
        let of_port = |port| service.port == Some(port);
        filter.port.is_none_or(of_port)
            && filter
                .name
                .as_ref()
                .is_none_or(|name| *name == service.name)
    });
    page(published, wanted, limit)
}

fn shown(published: &Published, service: &services::Service, now: Time) -> Service {
    let record = service.shown(now);
    let id = service.id();
    let (port, description) = if id.gid.is_multicast() {
        (None, String::new())
    } else {
        published.named(service.port)
    };
    let lease = record.service_lease();
    Service {
        key: ServiceKey {
            id: id.service,
            gid: id.gid,
            p_key: id.p_key.0,
        },
        name: name(record.service_name()),
        port,
        description,
        owner: service.owner,
        lease_s: Some(lease).filter(|&lease| lease != ServiceRecord::LEASE_INDEFINITE),
        data: *record.service_data(),
    }
}

/// The text before the first NUL.
fn name(bytes: &[u8; 64]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
