use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ComponentMask, components, gids, record};
use crate::wire::attr::PKey;
use crate::wire::bits::bits;

/// ServiceRecord (IBA 15.2.5.14): a service that a port offers.
///
/// ```text
/// byte  0  ServiceID
///       8  ServiceGID
///      24  ServiceP_Key    | -
///      28  ServiceLease
///      32  ServiceKey, 16 bytes
///      48  ServiceName, 64 bytes
///     112  ServiceData8, 16 of 1 byte
///     128  ServiceData16, 8 of 2 bytes
///     144  ServiceData32, 4 of 4 bytes
///     160  ServiceData64, 2 of 8 bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ServiceRecord {
    service_id: U64,
    service_gid: [u8; 16],
    service_p_key: U16,
    reserved: [u8; 2],
    service_lease: U32,
    service_key: [u8; 16],
    service_name: [u8; 64],
    service_data: [u8; 64],
}

record!(ServiceRecord, 0x0031, "ServiceRecord");

bits! { ServiceRecord {
    /// The ServiceID of the service.
    service_id, set_service_id: u64 = service_id;
    /// The partition in which the service is offered.
    service_p_key, set_service_p_key: PKey = service_p_key;
    /// The time in seconds until the registration ends; [`Self::LEASE_INDEFINITE`] if it does not
    /// end.
    service_lease, set_service_lease: u32 = service_lease;
} }

gids! { ServiceRecord {
    /// The GID of the port that offers the service.
    service_gid, set_service_gid = service_gid;
} }

components! { ServiceRecord {
    0 SERVICE_ID = "ServiceID" at 0, 64;
    1 SERVICE_GID = "ServiceGID" at 64, 128;
    2 SERVICE_P_KEY = "ServiceP_Key" at 192, 16;
    4 SERVICE_LEASE = "ServiceLease" at 224, 32;
    5 SERVICE_KEY = "ServiceKey" at 256, 128;
    6 SERVICE_NAME = "ServiceName" at 384, 512;
    7 SERVICE_DATA8_0 = "ServiceData8.0" at 896, 8;
    8 SERVICE_DATA8_1 = "ServiceData8.1" at 904, 8;
    9 SERVICE_DATA8_2 = "ServiceData8.2" at 912, 8;
    10 SERVICE_DATA8_3 = "ServiceData8.3" at 920, 8;
    11 SERVICE_DATA8_4 = "ServiceData8.4" at 928, 8;
    12 SERVICE_DATA8_5 = "ServiceData8.5" at 936, 8;
    13 SERVICE_DATA8_6 = "ServiceData8.6" at 944, 8;
    14 SERVICE_DATA8_7 = "ServiceData8.7" at 952, 8;
    15 SERVICE_DATA8_8 = "ServiceData8.8" at 960, 8;
    16 SERVICE_DATA8_9 = "ServiceData8.9" at 968, 8;
    17 SERVICE_DATA8_10 = "ServiceData8.10" at 976, 8;
    18 SERVICE_DATA8_11 = "ServiceData8.11" at 984, 8;
    19 SERVICE_DATA8_12 = "ServiceData8.12" at 992, 8;
    20 SERVICE_DATA8_13 = "ServiceData8.13" at 1000, 8;
    21 SERVICE_DATA8_14 = "ServiceData8.14" at 1008, 8;
    22 SERVICE_DATA8_15 = "ServiceData8.15" at 1016, 8;
    23 SERVICE_DATA16_0 = "ServiceData16.0" at 1024, 16;
    24 SERVICE_DATA16_1 = "ServiceData16.1" at 1040, 16;
    25 SERVICE_DATA16_2 = "ServiceData16.2" at 1056, 16;
    26 SERVICE_DATA16_3 = "ServiceData16.3" at 1072, 16;
    27 SERVICE_DATA16_4 = "ServiceData16.4" at 1088, 16;
    28 SERVICE_DATA16_5 = "ServiceData16.5" at 1104, 16;
    29 SERVICE_DATA16_6 = "ServiceData16.6" at 1120, 16;
    30 SERVICE_DATA16_7 = "ServiceData16.7" at 1136, 16;
    31 SERVICE_DATA32_0 = "ServiceData32.0" at 1152, 32;
    32 SERVICE_DATA32_1 = "ServiceData32.1" at 1184, 32;
    33 SERVICE_DATA32_2 = "ServiceData32.2" at 1216, 32;
    34 SERVICE_DATA32_3 = "ServiceData32.3" at 1248, 32;
    35 SERVICE_DATA64_0 = "ServiceData64.0" at 1280, 64;
    36 SERVICE_DATA64_1 = "ServiceData64.1" at 1344, 64;
} }

impl ServiceRecord {
    /// The ServiceLease of a service that stays registered until it is deleted.
    pub const LEASE_INDEFINITE: u32 = u32::MAX;

    /// The components of the service data of all widths.
    pub const SERVICE_DATA: ComponentMask = ComponentMask::range(7, 36);

    /// The key of the service's registration; zero for untrusted requesters.
    pub fn service_key(&self) -> &[u8; 16] {
        &self.service_key
    }

    /// Sets [`Self::service_key`].
    pub fn set_service_key(&mut self, key: [u8; 16]) -> &mut Self {
        self.service_key = key;
        self
    }

    /// The name, padded with NUL.
    pub fn service_name(&self) -> &[u8; 64] {
        &self.service_name
    }

    /// Sets [`Self::service_name`].
    pub fn set_service_name(&mut self, name: [u8; 64]) -> &mut Self {
        self.service_name = name;
        self
    }

    /// The data of all widths, in the order of the record.
    pub fn service_data(&self) -> &[u8; 64] {
        &self.service_data
    }

    /// Sets [`Self::service_data`].
    pub fn set_service_data(&mut self, data: [u8; 64]) -> &mut Self {
        self.service_data = data;
        self
    }
}
