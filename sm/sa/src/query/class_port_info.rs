//! ClassPortInfo: the capabilities of this SA.

use rsm_mad::wire::header::BASE_VERSION;
use rsm_mad::wire::sa::{CLASS_VERSION, ClassPortInfo, SaCapabilityMask, SaCapabilityMask2};

use crate::directory::Directory;

/// RespTimeValue: answers take at most 4.096 µs × 2^17, which is 0.54 s. At a hundred thousand
/// answers per second, this time suffices even for the last request if all LIDs of the largest
/// subnet send one request at once. OpenSM states 16, the lowest value above its
/// transaction_timeout.
const RESP_TIME_VALUE: u8 = 17;

/// Bits of CapabilityMask2, each of which stands for a function of this crate. Clients depend on
/// these bits: IPoIB joins as a send-only full member only if the SA knows such members, and
/// drivers request alias GUIDs only if the SA assigns alias GUIDs.
const CAPABILITIES: SaCapabilityMask2 = SaCapabilityMask2(
    SaCapabilityMask2::MULTICAST_FDB_TOP.0
        | SaCapabilityMask2::ALIAS_GUIDS.0
        | SaCapabilityMask2::FULL_PORT_INFO_RECORD.0
        | SaCapabilityMask2::EXTENDED_SPEEDS.0
        | SaCapabilityMask2::PORT_INFO_CAPABILITY_MASK2_MATCH.0
        | SaCapabilityMask2::SEND_ONLY_FULL_MEMBER.0
        | SaCapabilityMask2::LINK_WIDTH_2X.0
        | SaCapabilityMask2::LINK_SPEED_HDR.0,
);

/// The ClassPortInfo of this SA.
pub(super) fn record(_directory: &Directory) -> ClassPortInfo {
    let mut info = ClassPortInfo::default();
    info.set_base_version(BASE_VERSION)
        .set_class_version(CLASS_VERSION)
        .set_capability_mask(
            SaCapabilityMask::UD_MULTICAST
                | SaCapabilityMask::MULTI_PATH
                | SaCapabilityMask::PORT_INFO_CAPABILITY_MASK_MATCH,
        )
        .set_capability_mask2(CAPABILITIES)
        .set_resp_time_value(RESP_TIME_VALUE);
    info
}
