//! Services that ports offer, in the form of the API.

use rsm_api::model::{Keyed, Page, ServiceFilter, ServiceKey};
use rsm_api::v1;
use rsm_mad::Time;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::sa::ServiceRecord;
use rsm_sa::services::{Id, Service, ServicesView};

use super::published::Published;
use super::subnet::page;

/// Page of services after the key `after` that `filter` matches, as they are at `now`.
pub(super) fn services(
    published: &Published,
    view: &ServicesView,
    now: Time,
    after: Option<ServiceKey>,
    limit: usize,
    filter: &ServiceFilter,
) -> Page<Keyed<ServiceKey, v1::Service>> {
    let after = after.map(|key| Id {
        service: key.id,
        gid: key.gid,
        p_key: PKey(key.p_key),
    });
    let services = view.services_after(after);
    let shown = services.map(|service| shown(published, service, now));
    let port = filter.port.map(v1::PortKey::from);
    let wanted = shown.filter(|Keyed { message, .. }| {
        (port.is_none() || message.port == port)
            && filter
                .name
                .as_ref()
                .is_none_or(|name| *name == message.name)
    });
    page(published, wanted, limit)
}

fn shown(published: &Published, service: &Service, now: Time) -> Keyed<ServiceKey, v1::Service> {
    let record = service.shown(now);
    let id = service.id();
    let (port, description) = if id.gid.is_multicast() {
        (None, String::new())
    } else {
        published.port_and_description(service.port)
    };
    let lease = record.service_lease();
    let key = ServiceKey {
        id: id.service,
        gid: id.gid,
        p_key: id.p_key.0,
    };
    let message = v1::Service {
        service_id: format!("{:#018x}", key.id),
        gid: key.gid.to_string(),
        p_key: key.p_key.into(),
        name: name(record.service_name()),
        port,
        description,
        owner_guid: service.owner.to_string(),
        lease_s: Some(lease).filter(|&lease| lease != ServiceRecord::LEASE_INDEFINITE),
        data: digits(record.service_data()),
    };
    Keyed { key, message }
}

/// Text before the first NUL.
fn name(bytes: &[u8; 64]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Formats bytes as two hexadecimal digits each, without trailing zero bytes.
fn digits(data: &[u8]) -> String {
    let last = data.iter().rposition(|&byte| byte != 0);
    hex::encode(&data[..last.map_or(0, |last| last + 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_data_is_shown_without_trailing_zero_bytes() {
        assert_eq!(digits(&[0, 0xAB, 1, 0, 0]), "00ab01");
        assert_eq!(digits(&[0; 64]), "");
    }
}
