//! The fields of the attributes, at offsets from the start of the 64 data bytes.

use super::{FieldSpec, bytes, dec, hex, named, text};
use crate::wire::attr::{
    ArLidState, CapabilityMask, CapabilityMask2, ExtendedPortCapabilities, LinkDownDefault,
    LinkSpeedExt, LinkSpeedExt2, LinkSpeeds, LinkWidths, MlnxLinkSpeed, Mtu, NodeType, NoticeType,
    PortInfoExtendedCapabilities, PortPhysicalState, PortState, ProducerType, SmState,
    SpecialPortType, UnhealthyReason, VlCap,
};

/// The fields of Notice (IBA 13.4.8.2).
pub(super) const NOTICE: &[FieldSpec] = &[
    dec("IsGeneric", 0, 1),
    named::<NoticeType>("Type", 1, 7),
    named::<ProducerType>("ProducerType/VendorID", 8, 24),
    dec("TrapNumber/DeviceID", 32, 16),
    dec("IssuerLID", 48, 16),
    dec("NoticeToggle", 64, 1),
    dec("NoticeCount", 65, 15),
    bytes("DataDetails", 80, 432),
];

/// The fields of NodeDescription (IBA 14.2.5.2).
pub(super) const NODE_DESCRIPTION: &[FieldSpec] = &[text("NodeString", 0, 512)];

/// The fields of NodeInfo (IBA 14.2.5.3).
pub(super) const NODE_INFO: &[FieldSpec] = &[
    dec("BaseVersion", 0, 8),
    dec("ClassVersion", 8, 8),
    named::<NodeType>("NodeType", 16, 8),
    dec("NumPorts", 24, 8),
    hex("SystemImageGUID", 32, 64),
    hex("NodeGUID", 96, 64),
    hex("PortGUID", 160, 64),
    dec("PartitionCap", 224, 16),
    hex("DeviceID", 240, 16),
    hex("Revision", 256, 32),
    dec("LocalPortNum", 288, 8),
    hex("VendorID", 296, 24),
];

/// The fields of SwitchInfo (IBA 14.2.5.4).
pub(super) const SWITCH_INFO: &[FieldSpec] = &[
    dec("LinearFDBCap", 0, 16),
    dec("RandomFDBCap", 16, 16),
    dec("MulticastFDBCap", 32, 16),
    dec("LinearFDBTop", 48, 16),
    dec("DefaultPort", 64, 8),
    dec("DefaultMulticastPrimaryPort", 72, 8),
    dec("DefaultMulticastNotPrimaryPort", 80, 8),
    dec("LifeTimeValue", 88, 5),
    dec("PortStateChange", 93, 1),
    dec("OptimizedSLtoVLMappingProgramming", 94, 2),
    dec("LIDsPerPort", 96, 16),
    dec("PartitionEnforcementCap", 112, 16),
    dec("InboundEnforcementCap", 128, 1),
    dec("OutboundEnforcementCap", 129, 1),
    dec("FilterRawInboundCap", 130, 1),
    dec("FilterRawOutboundCap", 131, 1),
    dec("EnhancedPort0", 132, 1),
    hex("MulticastFDBTop", 144, 16),
];

/// The fields of GUIDInfo (IBA 14.2.5.5).
pub(super) const GUID_INFO: &[FieldSpec] = &[hex("GUID", 0, 64).times(8, 64)];

/// The fields of PortInfo (IBA 14.2.5.6).
pub(super) const PORT_INFO: &[FieldSpec] = &[
    hex("M_Key", 0, 64),
    hex("GidPrefix", 64, 64),
    dec("LID", 128, 16),
    dec("MasterSMLID", 144, 16),
    named::<CapabilityMask>("CapabilityMask", 160, 32),
    hex("DiagCode", 192, 16),
    dec("M_KeyLeasePeriod", 208, 16),
    dec("LocalPortNum", 224, 8),
    named::<LinkWidths>("LinkWidthEnabled", 232, 8),
    named::<LinkWidths>("LinkWidthSupported", 240, 8),
    named::<LinkWidths>("LinkWidthActive", 248, 8),
    named::<LinkSpeeds>("LinkSpeedSupported", 256, 4),
    named::<PortState>("PortState", 260, 4),
    named::<PortPhysicalState>("PortPhysicalState", 264, 4),
    named::<LinkDownDefault>("LinkDownDefaultState", 268, 4),
    dec("M_KeyProtectBits", 272, 2),
    dec("LMC", 277, 3),
    named::<LinkSpeeds>("LinkSpeedActive", 280, 4),
    named::<LinkSpeeds>("LinkSpeedEnabled", 284, 4),
    named::<Mtu>("NeighborMTU", 288, 4),
    dec("MasterSMSL", 292, 4),
    named::<VlCap>("VLCap", 296, 4),
    hex("InitType", 300, 4),
    dec("VLHighLimit", 304, 8),
    dec("VLArbitrationHighCap", 312, 8),
    dec("VLArbitrationLowCap", 320, 8),
    hex("InitTypeReply", 328, 4),
    named::<Mtu>("MTUCap", 332, 4),
    dec("VLStallCount", 336, 3),
    dec("HOQLife", 339, 5),
    named::<VlCap>("OperationalVLs", 344, 4),
    dec("PartitionEnforcementInbound", 348, 1),
    dec("PartitionEnforcementOutbound", 349, 1),
    dec("FilterRawInbound", 350, 1),
    dec("FilterRawOutbound", 351, 1),
    dec("M_KeyViolations", 352, 16),
    dec("P_KeyViolations", 368, 16),
    dec("Q_KeyViolations", 384, 16),
    dec("GUIDCap", 400, 8),
    dec("ClientReregister", 408, 1),
    dec("MulticastPKeyTrapSuppressionEnabled", 409, 2),
    dec("SubnetTimeOut", 411, 5),
    dec("RespTimeValue", 419, 5),
    dec("LocalPhyErrors", 424, 4),
    dec("OverrunErrors", 428, 4),
    dec("MaxCreditHint", 432, 16),
    named::<LinkSpeedExt2>("LinkSpeedExtActive2", 449, 2),
    named::<LinkSpeedExt2>("LinkSpeedExtSupported2", 451, 2),
    named::<LinkSpeedExt2>("LinkSpeedExtEnabled2", 453, 3),
    dec("LinkRoundTripLatency", 456, 24),
    named::<CapabilityMask2>("CapabilityMask2", 480, 16),
    named::<LinkSpeedExt>("LinkSpeedExtActive", 496, 4),
    named::<LinkSpeedExt>("LinkSpeedExtSupported", 500, 4),
    named::<LinkSpeedExt>("LinkSpeedExtEnabled", 507, 5),
];

/// The fields of P_KeyTable (IBA 14.2.5.7).
pub(super) const P_KEY_TABLE: &[FieldSpec] = &[hex("P_Key", 0, 16).times(32, 16)];

/// The fields of SLtoVLMappingTable (IBA 14.2.5.8).
pub(super) const SL_TO_VL_MAPPING: &[FieldSpec] = &[dec("SLtoVL", 0, 4).times(16, 4)];

/// The fields of VLArbitrationTable (IBA 14.2.5.9).
pub(super) const VL_ARBITRATION: &[FieldSpec] = &[
    dec("VL", 4, 4).times(32, 16),
    dec("Weight", 8, 8).times(32, 16),
];

/// The fields of LinearForwardingTable (IBA 14.2.5.10).
pub(super) const LINEAR_FORWARDING_TABLE: &[FieldSpec] = &[dec("Port", 0, 8).times(64, 8)];

/// The fields of MulticastForwardingTable (IBA 14.2.5.12).
pub(super) const MULTICAST_FORWARDING_TABLE: &[FieldSpec] = &[hex("PortMask", 0, 16).times(32, 16)];

/// The fields of SMInfo (IBA 14.2.5.13).
pub(super) const SM_INFO: &[FieldSpec] = &[
    hex("GUID", 0, 64),
    hex("SM_Key", 64, 64),
    dec("ActCount", 128, 32),
    dec("Priority", 160, 4),
    named::<SmState>("SMState", 164, 4),
];

/// The fields of ARInfo, attribute 0xFF20 of NVIDIA switches.
pub(super) const AR_INFO: &[FieldSpec] = &[
    dec("DynCapCalcSup", 1, 1),
    dec("ByTransportCap", 2, 1),
    dec("BySLEn", 3, 1),
    dec("BySLCap", 4, 1),
    dec("GlobalGroups", 5, 1),
    dec("SubGroupsActive", 20, 4),
    dec("RNTransmitEnabled", 26, 1),
    dec("FREnabled", 27, 1),
    dec("FRSupported", 28, 1),
    dec("E", 31, 1),
    dec("StringWidthCap", 32, 4),
    dec("GroupTableCap", 36, 4),
    dec("GroupTop", 40, 12),
    dec("GroupCap", 52, 12),
    hex("SLMask", 64, 16),
    hex("SubGroupsSupported", 80, 8),
    hex("ExcludedTransports", 124, 4),
    dec("AgeingTime", 128, 32),
    dec("HBFBySLEnabled", 176, 1),
    dec("WHBFEnabled", 177, 1),
    dec("HBFByVLEnabled", 178, 1),
    dec("pFRNEnabled", 179, 1),
];

/// The fields of ARGroupTable, attribute 0xFF21 of NVIDIA switches. The order of bits in a mask is
/// not public.
pub(super) const AR_GROUP_TABLE: &[FieldSpec] = &[hex("PortMask", 0, 64).times(8, 64)];

/// The fields of the adaptive linear forwarding table, attribute 0xFF23 of NVIDIA switches.
pub(super) const AR_LINEAR_FORWARDING_TABLE: &[FieldSpec] = &[
    named::<ArLidState>("State", 0, 2).times(16, 32),
    dec("Table", 4, 4).times(16, 32),
    dec("Port", 8, 8).times(16, 32),
    dec("Group", 16, 16).times(16, 32),
];

/// The fields of PortInfoExtended, attribute 0x0033. The masks up to HDR are as in OpenSM, the
/// masks of NDR as in libibmad.
pub(super) const PORT_INFO_EXTENDED: &[FieldSpec] = &[
    named::<PortInfoExtendedCapabilities>("CapMask", 0, 32),
    dec("FECModeActive", 32, 16),
    hex("FDRFECModeSupported", 48, 16),
    hex("FDRFECModeEnabled", 64, 16),
    hex("EDRFECModeSupported", 80, 16),
    hex("EDRFECModeEnabled", 96, 16),
    hex("HDRFECModeSupported", 112, 16),
    hex("HDRFECModeEnabled", 128, 16),
    hex("NDRFECModeSupported", 144, 16),
    hex("NDRFECModeEnabled", 160, 16),
];

/// The fields of SwitchPortStateTable (IBA 14.2.5.20).
pub(super) const SWITCH_PORT_STATE_TABLE: &[FieldSpec] =
    &[named::<PortState>("PortState", 0, 4).times(128, 4)];

/// The fields of GeneralInfo with modifier 4, attribute 0xFF17 of NVIDIA.
pub(super) const GENERAL_INFO: &[FieldSpec] = &[hex("CapabilityWord", 0, 32).times(4, 32)];

/// The fields of ExtendedPortInfo, attribute 0xFF90 of NVIDIA.
pub(super) const EXTENDED_PORT_INFO: &[FieldSpec] = &[
    dec("AME", 0, 1),
    dec("SHArPANEnable", 1, 1),
    dec("RouterLIDEnable", 2, 1),
    dec("PortRecovered", 3, 1),
    hex("StateChangeEnable", 24, 8),
    dec("BWUtilEnable", 37, 1),
    dec("BWUtil", 38, 10),
    named::<UnhealthyReason>("UnhealthyReason", 48, 8),
    named::<MlnxLinkSpeed>("LinkSpeedSupported", 56, 8),
    dec("MinimumBW", 80, 8),
    named::<MlnxLinkSpeed>("LinkSpeedEnabled", 88, 8),
    named::<MlnxLinkSpeed>("LinkSpeedActive", 120, 8),
    dec("AdminState", 140, 3),
    named::<ExtendedPortCapabilities>("CapabilityMask", 144, 16),
    dec("IsFNMPort", 352, 1),
    dec("IsMissionPortAsFNM", 353, 1),
    dec("QoSConfigVLEnabled", 354, 1),
    dec("AccessTrunk", 355, 1),
    dec("IsSpecialPort", 376, 1),
    named::<SpecialPortType>("SpecialPortType", 380, 4),
    hex("AdaptiveTimeoutSLMask", 416, 16),
    hex("OOOSLMask", 432, 16),
];

/// The fields of ExtendedNodeInfo, attribute 0xFF91 of NVIDIA.
pub(super) const EXTENDED_NODE_INFO: &[FieldSpec] = &[
    hex("SL2VLAct", 16, 8),
    hex("SL2VLCap", 24, 8),
    dec("AnycastLIDTop", 104, 8),
    dec("AnycastLIDCap", 112, 8),
    dec("NodeTypeExtended", 120, 8),
    dec("AsymmetryEnable", 128, 1),
    dec("AutoRetrainEnable", 129, 1),
    dec("ASICMaxPlanes", 152, 8),
];

/// The fields of ExtendedSwitchInfo, attribute 0xFF92 of NVIDIA.
pub(super) const EXTENDED_SWITCH_INFO: &[FieldSpec] = &[
    dec("ISSUApprove", 26, 1),
    dec("ISSURequest", 27, 1),
    dec("TurboPathCap", 28, 1),
    dec("TurboPathEnable", 29, 3),
];

/// The fields of VirtualizationInfo, attribute 0xFFB0 of NVIDIA.
pub(super) const VIRTUALIZATION_INFO: &[FieldSpec] = &[
    dec("VPortCap", 0, 16),
    dec("VPortIndexTop", 16, 16),
    dec("VirtualizationEnable", 32, 1),
    dec("VClientReregister", 33, 1),
    dec("VPortStateChange", 34, 1),
    dec("VirtualizationRevision", 48, 8),
    hex("Capability", 56, 8),
];

/// The fields of VPortInfo, attribute 0xFFB1 of NVIDIA.
pub(super) const VPORT_INFO: &[FieldSpec] = &[
    named::<PortState>("VPortState", 0, 4),
    dec("ClientReregister", 4, 1),
    dec("LIDRequired", 5, 1),
    dec("GUIDCap", 8, 8),
    hex("CapabilityMask", 16, 16),
    dec("P_KeyViolations", 32, 16),
    dec("Q_KeyViolations", 48, 16),
    dec("VPortLID", 64, 16),
    dec("LIDByVPortIndex", 80, 16),
    hex("VPortGUID", 96, 64),
    hex("VPortProfile", 160, 64),
];

/// The fields of VNodeInfo, attribute 0xFFB2 of NVIDIA.
pub(super) const VNODE_INFO: &[FieldSpec] = &[
    dec("PartitionCap", 0, 16),
    dec("LocalPortNum", 16, 8),
    dec("NumPorts", 24, 8),
    hex("VNodeGUID", 32, 64),
];

/// The fields of VPortState, attribute 0xFFB3 of NVIDIA.
pub(super) const VPORT_STATE: &[FieldSpec] =
    &[named::<PortState>("VPortState", 0, 4).times(128, 4)];

/// The fields of QoSConfigSL, attribute 0xFF82 of NVIDIA.
pub(super) const QOS_CONFIG_SL: &[FieldSpec] = &[
    dec("BandwidthShare", 0, 12).times(16, 32),
    dec("RateLimit", 12, 20).times(16, 32),
];
