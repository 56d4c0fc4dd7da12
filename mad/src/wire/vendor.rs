//! The class 0x0A of NVIDIA devices, a class of general services: hardware and firmware of a
//! device.

use std::fmt;

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{AttrId, BASE_VERSION, Class, MadHeader, Method};
use super::{MAD_LEN, MadBytes};
use crate::ids::Tid;

/// The version of the class that `vendstat` of rdma-core sends.
const CLASS_VERSION: u8 = 1;

/// GeneralInfo: hardware, firmware and software of the device.
pub const GENERAL_INFO: AttrId = AttrId(0x0017);

/// The length of the name of a device's parameter set.
const PSID_LEN: usize = 16;

/// A datagram of GeneralInfo, attribute 0x17 of class 0x0A.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  common header
///   24  key of the class to byte 31
///   32  HwRevision                        | HwDeviceID
///   36  - to byte 59
///   60  HwUptime
///   64  -               | FwMajor         | FwMinor         | FwSubMinor
///   68  FwBuildID
///   72  FwMonth         | FwDay           | FwYear
///   76  -                                 | FwHour
///   80  PSID to byte 95
///   96  FwINIFileVersion
///  100  FwExtMajor
///  104  FwExtMinor
///  108  FwExtSubMinor
///  112  - to byte 255
/// ```
///
/// Devices whose version has numbers above 255 show the version in the extended fields; older
/// devices leave these fields zero. Layout: `vendstat.c` of rdma-core.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GeneralInfoMad {
    header: MadHeader,
    key: [u8; 8],
    hw_revision: U16,
    hw_device_id: U16,
    reserved_36: [u8; 24],
    hw_uptime: U32,
    reserved_64: u8,
    fw_version: [u8; 3],
    fw_build_id: U32,
    fw_month: u8,
    fw_day: u8,
    fw_year: U16,
    reserved_76: U16,
    fw_hour: U16,
    psid: [u8; PSID_LEN],
    fw_ini_file_version: U32,
    fw_ext_version: [U32; 3],
    reserved_112: [u8; 144],
}

const _: () = assert!(size_of::<GeneralInfoMad>() == MAD_LEN);

impl GeneralInfoMad {
    /// A Get of the attribute.
    pub fn request(tid: Tid) -> GeneralInfoMad {
        let mut mad = GeneralInfoMad::new_zeroed();
        mad.header
            .set_base_version(BASE_VERSION)
            .set_class(Class::VENDOR_DEVICE)
            .set_class_version(CLASS_VERSION)
            .set_method(Method::GET)
            .set_attribute(GENERAL_INFO)
            .set_tid(tid);
        mad
    }

    /// The datagram in `bytes`.
    pub fn from_bytes(bytes: &MadBytes) -> &GeneralInfoMad {
        zerocopy::transmute_ref!(bytes)
    }

    /// The datagram in `bytes`, mutable in place.
    pub fn from_bytes_mut(bytes: &mut MadBytes) -> &mut GeneralInfoMad {
        zerocopy::transmute_mut!(bytes)
    }

    /// The bytes of the datagram.
    pub fn as_bytes(&self) -> &MadBytes {
        zerocopy::transmute_ref!(self)
    }

    /// The version of the firmware: the extended version, or the short version if the extended
    /// version is zero.
    pub fn firmware(&self) -> FirmwareVersion {
        let extended = self.fw_ext_version.map(U32::get);
        match extended {
            [0, 0, 0] => FirmwareVersion(self.fw_version.map(u32::from)),
            extended => FirmwareVersion(extended),
        }
    }

    /// Sets [`Self::firmware`] in both forms; numbers above 255 lose their upper bits in the short
    /// form.
    pub fn set_firmware(&mut self, version: FirmwareVersion) -> &mut Self {
        self.fw_version = version.0.map(|number| number as u8);
        self.fw_ext_version = version.0.map(U32::new);
        self
    }

    /// The name of the device's parameter set, without the zeros at its end.
    pub fn psid(&self) -> &[u8] {
        let end = self.psid.iter().position(|&byte| byte == 0);
        &self.psid[..end.unwrap_or(PSID_LEN)]
    }

    /// Sets [`Self::psid`], cut to 16 bytes.
    pub fn set_psid(&mut self, psid: &[u8]) -> &mut Self {
        self.psid = [0; PSID_LEN];
        for (byte, &new) in self.psid.iter_mut().zip(psid) {
            *byte = new;
        }
        self
    }
}

/// A version of firmware, such as 28.39.1002.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FirmwareVersion(pub [u32; 3]);

impl fmt::Display for FirmwareVersion {
    /// Writes the numbers as the vendor does: the second with at least two digits, the third with
    /// at least four.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, sub_minor] = self.0;
        write!(f, "{major}.{minor:02}.{sub_minor:04}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of an answer, by the offsets of `vendstat.c`.
    fn answer_bytes() -> MadBytes {
        let mut bytes = [0; MAD_LEN];
        bytes[64..68].copy_from_slice(&[0, 28, 39, 234]);
        bytes[80..93].copy_from_slice(b"MT_0000000838");
        bytes
    }

    #[test]
    fn short_version_is_used_only_without_an_extended_version() {
        let mut bytes = answer_bytes();
        let mad = GeneralInfoMad::from_bytes(&bytes);
        assert_eq!(mad.firmware(), FirmwareVersion([28, 39, 234]));
        assert_eq!(mad.psid(), b"MT_0000000838");
        for (at, number) in [(100, 28u32), (104, 39), (108, 1002)] {
            bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        let mad = GeneralInfoMad::from_bytes(&bytes);
        assert_eq!(mad.firmware().to_string(), "28.39.1002");
    }

    #[test]
    fn a_request_is_a_get_of_the_vendors_class() {
        let request = GeneralInfoMad::request(Tid(7));
        let bytes = request.as_bytes();
        assert_eq!(bytes[..4], [1, 0x0A, 1, 1]);
        assert_eq!(bytes[16..18], [0, 0x17]);
        assert!(bytes[24..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn firmware_and_psid_are_read_as_they_were_set() {
        let mut mad = GeneralInfoMad::request(Tid(1));
        mad.set_firmware(FirmwareVersion([31, 2012, 1068]))
            .set_psid(b"A_NAME_LONGER_THAN_ITS_FIELD");
        assert_eq!(mad.firmware().to_string(), "31.2012.1068");
        assert_eq!(mad.psid(), b"A_NAME_LONGER_TH");
    }
}
