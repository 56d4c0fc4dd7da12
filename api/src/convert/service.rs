use rsm_proto::v1;

use crate::model::Service;

impl From<Service> for v1::Service {
    fn from(service: Service) -> Self {
        v1::Service {
            service_id: format!("{:#018x}", service.key.id),
            gid: service.key.gid.to_string(),
            p_key: service.key.p_key.into(),
            name: service.name,
            port: service.port.map(v1::PortKey::from),
            description: service.description,
            owner_guid: service.owner.to_string(),
            lease_s: service.lease_s,
            data: digits(&service.data),
        }
    }
}

/// Two hexadecimal digits a byte, without zeroes at the end.
fn digits(data: &[u8]) -> String {
    let last = data.iter().rposition(|&byte| byte != 0);
    hex::encode(&data[..last.map_or(0, |last| last + 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_shown_up_to_its_last_byte() {
        assert_eq!(digits(&[0, 0xAB, 1, 0, 0]), "00ab01");
        assert_eq!(digits(&[0; 64]), "");
    }
}
