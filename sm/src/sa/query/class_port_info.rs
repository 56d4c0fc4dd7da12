//! ClassPortInfo: what this administrator can do.

use rsm_mad::wire::header::BASE_VERSION;
use rsm_mad::wire::sa::{CLASS_VERSION, ClassPortInfo, SaCapabilityMask, SaCapabilityMask2};

use crate::sa::directory::Directory;

/// RespTimeValue: answers take 4.096 µs × 2^8, about a millisecond.
const RESP_TIME_VALUE: u8 = 8;

pub(super) fn record(_directory: &Directory) -> ClassPortInfo {
    let mut info = ClassPortInfo::default();
    info.set_base_version(BASE_VERSION)
        .set_class_version(CLASS_VERSION)
        .set_capability_mask(
            SaCapabilityMask::MULTI_PATH | SaCapabilityMask::PORT_INFO_CAPABILITY_MASK_MATCH,
        )
        .set_capability_mask2(
            SaCapabilityMask2::FULL_PORT_INFO_RECORD | SaCapabilityMask2::EXTENDED_SPEEDS,
        )
        .set_resp_time_value(RESP_TIME_VALUE);
    info
}
