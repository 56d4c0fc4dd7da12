//! The firmware of simulated devices, which NVIDIA devices report in their vendor class.

use rsm_mad::wire::attr::NodeInfo;
use rsm_mad::wire::vendor::FirmwareVersion;

/// VendorID of Mellanox and NVIDIA. Devices of other vendors do not have the vendor class.
const MELLANOX: u32 = 0x00_02_C9;

/// Firmware by DeviceID.
const FIRMWARE_BY_DEVICE: &[(u16, [u32; 3])] = &[
    (0xD2F0, [27, 2012, 1010]),
    (0xD2F2, [31, 2012, 1068]),
    (0x101B, [20, 39, 1002]),
    (0x1021, [28, 39, 1002]),
    (0x1023, [40, 42, 1000]),
];

/// Firmware of all other DeviceIDs.
const OTHER_FIRMWARE: [u32; 3] = [15, 2000, 2046];

/// The firmware of devices with this NodeInfo; `None` if devices of this vendor do not have the
/// class.
pub(crate) fn usual_firmware(info: &NodeInfo) -> Option<FirmwareVersion> {
    let known = FIRMWARE_BY_DEVICE
        .iter()
        .filter(|_| info.vendor_id() == MELLANOX)
        .find(|known| known.0 == info.device_id());
    let usual = known.map_or(OTHER_FIRMWARE, |known| known.1);
    (info.vendor_id() == MELLANOX).then_some(FirmwareVersion(usual))
}
