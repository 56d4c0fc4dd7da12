//! The fields of the records of the SA (IBA 15.2.5), at bit offsets from the start of the record.

use super::attributes as attr;
use super::{FieldSpec, bytes, dec, gid, hex, named, text};
use crate::wire::attr::{Mtu, NodeType, ProducerType};
use crate::wire::sa::{JoinState, Rate, SaCapabilityMask, SaCapabilityMask2, Selector};

/// The layout of a record: its own fields, and its embedded attributes of subnet management.
pub struct RecordLayout {
    /// The name in the specification.
    pub name: &'static str,
    /// The fields of the record outside its embedded attributes.
    pub fields: &'static [FieldSpec],
    /// The embedded attributes: the bit offset at which each begins, and its fields.
    pub embedded: &'static [(u16, &'static [FieldSpec])],
}

/// A layout without embedded attributes.
const fn record(name: &'static str, fields: &'static [FieldSpec]) -> RecordLayout {
    RecordLayout {
        name,
        fields,
        embedded: &[],
    }
}

/// A layout with embedded attributes.
const fn with(
    name: &'static str,
    fields: &'static [FieldSpec],
    embedded: &'static [(u16, &'static [FieldSpec])],
) -> RecordLayout {
    RecordLayout {
        name,
        fields,
        embedded,
    }
}

pub(super) static CLASS_PORT_INFO: RecordLayout = record(
    "ClassPortInfo",
    &[
        dec("BaseVersion", 0, 8),
        dec("ClassVersion", 8, 8),
        named::<SaCapabilityMask>("CapabilityMask", 16, 16),
        named::<SaCapabilityMask2>("CapabilityMask2", 32, 27),
        dec("RespTimeValue", 59, 5),
        gid("RedirectGID", 64),
        hex("RedirectTC", 192, 8),
        dec("RedirectSL", 200, 4),
        hex("RedirectFL", 204, 20),
        dec("RedirectLID", 224, 16),
        hex("RedirectP_Key", 240, 16),
        hex("RedirectQP", 264, 24),
        hex("RedirectQ_Key", 288, 32),
        gid("TrapGID", 320),
        hex("TrapTC", 448, 8),
        dec("TrapSL", 456, 4),
        hex("TrapFL", 460, 20),
        dec("TrapLID", 480, 16),
        hex("TrapP_Key", 496, 16),
        dec("TrapHL", 512, 8),
        hex("TrapQP", 520, 24),
        hex("TrapQ_Key", 544, 32),
    ],
);

pub(super) static NOTICE: RecordLayout =
    with("Notice", &[gid("IssuerGID", 512)], &[(0, attr::NOTICE)]);

pub(super) static INFORM_INFO: RecordLayout = record("InformInfo", INFORM_INFO_FIELDS);

const INFORM_INFO_FIELDS: &[FieldSpec] = &[
    gid("GID", 0),
    dec("LIDRangeBegin", 128, 16),
    dec("LIDRangeEnd", 144, 16),
    dec("IsGeneric", 176, 8),
    dec("Subscribe", 184, 8),
    hex("Type", 192, 16),
    dec("TrapNumber/DeviceID", 208, 16),
    hex("QPN", 224, 24),
    dec("RespTimeValue", 251, 5),
    named::<ProducerType>("ProducerType/VendorID", 264, 24),
];

pub(super) static NODE_RECORD: RecordLayout = with(
    "NodeRecord",
    &[dec("LID", 0, 16)],
    &[(32, attr::NODE_INFO), (352, attr::NODE_DESCRIPTION)],
);

pub(super) static PORT_INFO_RECORD: RecordLayout = with(
    "PortInfoRecord",
    &[
        dec("EndportLID", 0, 16),
        dec("PortNum", 16, 8),
        hex("Options", 24, 8),
    ],
    &[(32, attr::PORT_INFO)],
);

pub(super) static SL_TO_VL_MAPPING_TABLE_RECORD: RecordLayout = with(
    "SLtoVLMappingTableRecord",
    &[
        dec("LID", 0, 16),
        dec("InputPortNum", 16, 8),
        dec("OutputPortNum", 24, 8),
    ],
    &[(64, attr::SL_TO_VL_MAPPING)],
);

pub(super) static SWITCH_INFO_RECORD: RecordLayout = with(
    "SwitchInfoRecord",
    &[dec("LID", 0, 16)],
    &[(32, attr::SWITCH_INFO)],
);

pub(super) static LINEAR_FORWARDING_TABLE_RECORD: RecordLayout = with(
    "LinearForwardingTableRecord",
    &[dec("LID", 0, 16), dec("BlockNum", 16, 16)],
    &[(64, attr::LINEAR_FORWARDING_TABLE)],
);

pub(super) static MULTICAST_FORWARDING_TABLE_RECORD: RecordLayout = with(
    "MulticastForwardingTableRecord",
    &[
        dec("LID", 0, 16),
        dec("Position", 16, 4),
        dec("BlockNum", 23, 9),
    ],
    &[(64, attr::MULTICAST_FORWARDING_TABLE)],
);

pub(super) static SM_INFO_RECORD: RecordLayout =
    with("SMInfoRecord", &[dec("LID", 0, 16)], &[(32, attr::SM_INFO)]);

pub(super) static LINK_RECORD: RecordLayout = record(
    "LinkRecord",
    &[
        dec("FromLID", 0, 16),
        dec("FromPort", 16, 8),
        dec("ToPort", 24, 8),
        dec("ToLID", 32, 16),
    ],
);

pub(super) static GUID_INFO_RECORD: RecordLayout = with(
    "GUIDInfoRecord",
    &[dec("LID", 0, 16), dec("BlockNum", 16, 8)],
    &[(64, attr::GUID_INFO)],
);

pub(super) static SERVICE_RECORD: RecordLayout = record(
    "ServiceRecord",
    &[
        hex("ServiceID", 0, 64),
        gid("ServiceGID", 64),
        hex("ServiceP_Key", 192, 16),
        dec("ServiceLease", 224, 32),
        bytes("ServiceKey", 256, 128),
        text("ServiceName", 384, 512),
        hex("ServiceData8", 896, 8).times(16, 8),
        hex("ServiceData16", 1024, 16).times(8, 16),
        hex("ServiceData32", 1152, 32).times(4, 32),
        hex("ServiceData64", 1280, 64).times(2, 64),
    ],
);

pub(super) static P_KEY_TABLE_RECORD: RecordLayout = with(
    "P_KeyTableRecord",
    &[
        dec("LID", 0, 16),
        dec("BlockNum", 16, 16),
        dec("PortNum", 32, 8),
    ],
    &[(64, attr::P_KEY_TABLE)],
);

pub(super) static PATH_RECORD: RecordLayout = record(
    "PathRecord",
    &[
        hex("ServiceID", 0, 64),
        gid("DGID", 64),
        gid("SGID", 192),
        dec("DLID", 320, 16),
        dec("SLID", 336, 16),
        dec("RawTraffic", 352, 1),
        hex("FlowLabel", 356, 20),
        dec("HopLimit", 376, 8),
        hex("TClass", 384, 8),
        dec("Reversible", 392, 1),
        dec("NumbPath", 393, 7),
        hex("P_Key", 400, 16),
        dec("QoSClass", 416, 12),
        dec("SL", 428, 4),
        named::<Selector>("MtuSelector", 432, 2),
        named::<Mtu>("Mtu", 434, 6),
        named::<Selector>("RateSelector", 440, 2),
        named::<Rate>("Rate", 442, 6),
        named::<Selector>("PacketLifeTimeSelector", 448, 2),
        dec("PacketLifeTime", 450, 6),
        dec("Preference", 456, 8),
    ],
);

pub(super) static VL_ARBITRATION_TABLE_RECORD: RecordLayout = with(
    "VLArbitrationTableRecord",
    &[
        dec("LID", 0, 16),
        dec("OutputPortNum", 16, 8),
        dec("BlockNum", 24, 8),
    ],
    &[(64, attr::VL_ARBITRATION)],
);

pub(super) static MC_MEMBER_RECORD: RecordLayout = record(
    "MCMemberRecord",
    &[
        gid("MGID", 0),
        gid("PortGID", 128),
        hex("Q_Key", 256, 32),
        hex("MLID", 288, 16),
        named::<Selector>("MtuSelector", 304, 2),
        named::<Mtu>("Mtu", 306, 6),
        hex("TClass", 312, 8),
        hex("P_Key", 320, 16),
        named::<Selector>("RateSelector", 336, 2),
        named::<Rate>("Rate", 338, 6),
        named::<Selector>("PacketLifeTimeSelector", 344, 2),
        dec("PacketLifeTime", 346, 6),
        dec("SL", 352, 4),
        hex("FlowLabel", 356, 20),
        dec("HopLimit", 376, 8),
        hex("Scope", 384, 4),
        named::<JoinState>("JoinState", 388, 4),
        dec("ProxyJoin", 392, 1),
    ],
);

pub(super) static TRACE_RECORD: RecordLayout = record(
    "TraceRecord",
    &[
        hex("GIDPrefix", 0, 64),
        dec("IDGeneration", 64, 16),
        named::<NodeType>("NodeType", 88, 8),
        hex("NodeID", 96, 64),
        hex("ChassisID", 160, 64),
        hex("EntryPortID", 224, 64),
        hex("ExitPortID", 288, 64),
        dec("EntryPort", 352, 8),
        dec("ExitPort", 360, 8),
    ],
);

pub(super) static MULTI_PATH_RECORD: RecordLayout = record(
    "MultiPathRecord",
    &[
        dec("RawTraffic", 0, 1),
        hex("FlowLabel", 4, 20),
        dec("HopLimit", 24, 8),
        hex("TClass", 32, 8),
        dec("Reversible", 40, 1),
        dec("NumbPath", 41, 7),
        hex("P_Key", 48, 16),
        dec("QoSClass", 64, 12),
        dec("SL", 76, 4),
        named::<Selector>("MtuSelector", 80, 2),
        named::<Mtu>("Mtu", 82, 6),
        named::<Selector>("RateSelector", 88, 2),
        named::<Rate>("Rate", 90, 6),
        named::<Selector>("PacketLifeTimeSelector", 96, 2),
        dec("PacketLifeTime", 98, 6),
        hex("ServiceID8MSB", 104, 8),
        dec("IndependenceSelector", 112, 2),
        dec("SGIDCount", 120, 8),
        dec("DGIDCount", 128, 8),
        hex("ServiceID56LSB", 136, 56),
    ],
);

pub(super) static INFORM_INFO_RECORD: RecordLayout = with(
    "InformInfoRecord",
    &[gid("SubscriberGID", 0), dec("Enum", 128, 16)],
    &[(192, INFORM_INFO_FIELDS)],
);
