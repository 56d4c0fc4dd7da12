//! The fields of generic traps (IBA 14.2.5.1), at offsets from the start of DataDetails.

use super::{FieldSpec, bytes, dec, gid, hex, named};
use crate::wire::attr::{CapabilityMask, CapabilityMask2, LocalChanges};
use crate::wire::header::{AttrId, Method};

/// The fields of traps 64 to 67.
pub(super) const GID_CHANGE: &[FieldSpec] = &[gid("GIDADDR", 48)];

/// The fields of trap 128.
pub(super) const LINK_STATE_CHANGE: &[FieldSpec] = &[dec("LIDADDR", 0, 16)];

/// The fields of traps 129 to 131.
pub(super) const PORT_THRESHOLD: &[FieldSpec] = &[dec("LIDADDR", 16, 16), dec("PORTNO", 32, 8)];

/// The fields of trap 144.
pub(super) const LOCAL_CHANGE: &[FieldSpec] = &[
    dec("LIDADDR", 16, 16),
    dec("OtherLocalChanges", 47, 1),
    named::<CapabilityMask>("CAPABILITYMASK", 48, 32),
    named::<LocalChanges>("LocalChanges", 80, 16),
    named::<CapabilityMask2>("CAPABILITYMASK2", 96, 16),
];

/// The fields of trap 145.
pub(super) const SYSTEM_IMAGE_GUID_CHANGE: &[FieldSpec] =
    &[dec("LIDADDR", 16, 16), hex("SYSTEMIMAGEGUID", 48, 64)];

/// The fields of trap 256.
pub(super) const BAD_M_KEY: &[FieldSpec] = &[
    dec("LIDADDR", 16, 16),
    dec("DRSLID", 32, 16),
    named::<Method>("METHOD", 48, 8),
    named::<AttrId>("ATTRIBUTEID", 64, 16),
    hex("ATTRIBUTEMODIFIER", 80, 32),
    hex("M_KEY", 112, 64),
    dec("DRNotice", 184, 1),
    dec("DRPathTruncated", 185, 1),
    dec("DRHopCount", 186, 6),
    bytes("DRNoticeReturnPath", 192, 240),
];

/// The fields of traps 257 and 258.
pub(super) const BAD_KEYS: &[FieldSpec] = &[
    dec("LIDADDR1", 16, 16),
    dec("LIDADDR2", 32, 16),
    hex("KEY", 48, 32),
    dec("SL", 80, 4),
    hex("QP1", 88, 24),
    hex("QP2", 120, 24),
    gid("GIDADDR1", 144),
    gid("GIDADDR2", 272),
];

/// The fields of trap 259.
pub(super) const BAD_P_KEY_AT_SWITCH: &[FieldSpec] = &[
    hex("DataValid", 0, 16),
    dec("LIDADDR1", 16, 16),
    dec("LIDADDR2", 32, 16),
    hex("P_KEY", 48, 16),
    dec("SL", 64, 4),
    hex("QP1", 72, 24),
    hex("QP2", 104, 24),
    gid("GIDADDR1", 128),
    gid("GIDADDR2", 256),
    dec("SWLIDADDR", 384, 16),
    dec("PORTNO", 400, 8),
];

/// The fields of trap 1146 of NVIDIA.
pub(super) const VPORT_STATE_CHANGE: &[FieldSpec] =
    &[dec("LIDADDR", 16, 16), dec("TrapNumber", 416, 16)];

/// The fields of trap 1144 of NVIDIA.
pub(super) const VPORT_LOCAL_CHANGE: &[FieldSpec] = &[
    dec("LIDADDR", 16, 16),
    dec("OtherLocalChanges", 47, 1),
    hex("CapabilityMask", 48, 16),
    hex("LocalChanges", 64, 16),
    dec("VPortIndex", 96, 16),
    dec("TrapNumber", 416, 16),
];
