use crate::wire::codes::bit_mask;

bit_mask! {
    /// Capabilities of a port: PortInfo.CapabilityMask (IBA 14.2.5.6). Bit 0 is reserved.
    CapabilityMask(u32) {
        /// A subnet manager runs behind this port.
        IS_SM = 0x0000_0002 "IsSM",
        /// The port keeps notices for Get(Notice).
        IS_NOTICE_SUPPORTED = 0x0000_0004 "IsNoticeSupported",
        /// The port sends traps.
        IS_TRAP_SUPPORTED = 0x0000_0008 "IsTrapSupported",
        /// The port supports the optional values of the inter-packet delay.
        IS_OPTIONAL_IPD_SUPPORTED = 0x0000_0010 "IsOptionalIPDSupported",
        /// The port's connections can migrate to an alternate path.
        IS_AUTOMATIC_MIGRATION_SUPPORTED = 0x0000_0020 "IsAutomaticMigrationSupported",
        /// The port has an SLtoVLMappingTable.
        IS_SL_MAPPING_SUPPORTED = 0x0000_0040 "IsSLMappingSupported",
        /// The M_Key survives a power cycle.
        IS_M_KEY_NVRAM = 0x0000_0080 "IsM_KeyNVRAM",
        /// The P_Keys survive a power cycle.
        IS_P_KEY_NVRAM = 0x0000_0100 "IsP_KeyNVRAM",
        /// The port has a LedInfo.
        IS_LED_INFO_SUPPORTED = 0x0000_0200 "IsLEDInfoSupported",
        /// The subnet manager behind this port is disabled.
        IS_SM_DISABLED = 0x0000_0400 "IsSMdisabled",
        /// The node fills in NodeInfo.SystemImageGUID.
        IS_SYSTEM_IMAGE_GUID_SUPPORTED = 0x0000_0800 "IsSystemImageGUIDSupported",
        /// Port 0 of a switch sends trap 259.
        IS_P_KEY_SWITCH_EXTERNAL_PORT_TRAP_SUPPORTED = 0x0000_1000 "IsP_KeySwitchExternalPortTrapSupported",
        /// The port has a CableInfo.
        IS_CABLE_INFO_SUPPORTED = 0x0000_2000 "IsCableInfoSupported",
        /// LinkSpeedExtActive, -Supported and -Enabled are valid.
        IS_EXTENDED_SPEEDS_SUPPORTED = 0x0000_4000 "IsExtendedSpeedsSupported",
        /// CapabilityMask2 is valid.
        IS_CAPABILITY_MASK2_SUPPORTED = 0x0000_8000 "IsCapabilityMask2Supported",
        /// The port answers communication management.
        IS_COMMUNICATION_MANAGEMENT_SUPPORTED = 0x0001_0000 "IsCommunicationManagementSupported",
        /// The port answers SNMP tunnelling.
        IS_SNMP_TUNNELING_SUPPORTED = 0x0002_0000 "IsSNMPTunnelingSupported",
        /// The port evaluates InitType and InitTypeReply.
        IS_REINIT_SUPPORTED = 0x0004_0000 "IsReinitSupported",
        /// The port answers device management.
        IS_DEVICE_MANAGEMENT_SUPPORTED = 0x0008_0000 "IsDeviceManagementSupported",
        /// The port answers a vendor class.
        IS_VENDOR_CLASS_SUPPORTED = 0x0010_0000 "IsVendorClassSupported",
        /// Trap 256 of the port contains the directed route.
        IS_DR_NOTICE_SUPPORTED = 0x0020_0000 "IsDRNoticeSupported",
        /// The port sends trap 144.
        IS_CAPABILITY_MASK_NOTICE_SUPPORTED = 0x0040_0000 "IsCapabilityMaskNoticeSupported",
        /// The port answers boot management.
        IS_BOOT_MANAGEMENT_SUPPORTED = 0x0080_0000 "IsBootManagementSupported",
        /// The port measures LinkRoundTripLatency.
        IS_LINK_ROUND_TRIP_LATENCY_SUPPORTED = 0x0100_0000 "IsLinkRoundTripLatencySupported",
        /// The port evaluates ClientReregister.
        IS_CLIENT_REREGISTRATION_SUPPORTED = 0x0200_0000 "IsClientReregistrationSupported",
        /// Trap 144 of the port reports changes beyond the capability mask.
        IS_OTHER_LOCAL_CHANGES_NOTICE_SUPPORTED = 0x0400_0000 "IsOtherLocalChangesNoticeSupported",
        /// The port has a LinkSpeedWidthPairsTable.
        IS_LINK_SPEED_WIDTH_PAIRS_TABLE_SUPPORTED = 0x0800_0000 "IsLinkSpeedWidthPairsTableSupported",
        /// The port has a VendorSpecificMadsTable.
        IS_VENDOR_SPECIFIC_MADS_TABLE_SUPPORTED = 0x1000_0000 "IsVendorSpecificMadsTableSupported",
        /// The port evaluates MulticastPKeyTrapSuppressionEnabled.
        IS_MULTICAST_P_KEY_TRAP_SUPPRESSION_SUPPORTED = 0x2000_0000 "IsMcastPkeyTrapSuppressionSupported",
        /// The switch evaluates SwitchInfo.MulticastFDBTop.
        IS_MULTICAST_FDB_TOP_SUPPORTED = 0x4000_0000 "IsMulticastFDBTopSupported",
        /// The port has a HierarchyInfo.
        IS_HIERARCHY_INFO_SUPPORTED = 0x8000_0000 "IsHierarchyInfoSupported",
    }
}

bit_mask! {
    /// Further capabilities of a port: PortInfo.CapabilityMask2 (IBA 14.2.5.6); meaningful if
    /// [`CapabilityMask::IS_CAPABILITY_MASK2_SUPPORTED`] is set.
    CapabilityMask2(u16) {
        /// The port answers Set(NodeDescription).
        IS_SET_NODE_DESCRIPTION_SUPPORTED = 0x0001 "IsSetNodeDescriptionSupported",
        /// The port has a PortInfoExtended.
        IS_PORT_INFO_EXTENDED_SUPPORTED = 0x0002 "IsPortInfoExtendedSupported",
        /// The port can be divided into virtual ports.
        IS_VIRTUALIZATION_SUPPORTED = 0x0004 "IsVirtualizationSupported",
        /// The switch has a SwitchPortStateTable.
        IS_SWITCH_PORT_STATE_TABLE_SUPPORTED = 0x0008 "IsSwitchPortStateTableSupported",
        /// The link can have the width of two lanes.
        IS_LINK_WIDTH_2X_SUPPORTED = 0x0010 "IsLinkWidth2xSupported",
        /// The link can have the speed HDR.
        IS_LINK_SPEED_HDR_SUPPORTED = 0x0020 "IsLinkSpeedHDRSupported",
        /// The link can have the speed NDR.
        IS_LINK_SPEED_NDR_SUPPORTED = 0x0400 "IsLinkSpeedNDRSupported",
        /// LinkSpeedExtActive2, -Supported2 and -Enabled2 are valid.
        IS_EXTENDED_SPEEDS2_SUPPORTED = 0x0800 "IsExtendedSpeeds2Supported",
        /// The link can have the speed XDR.
        IS_LINK_SPEED_XDR_SUPPORTED = 0x1000 "IsLinkSpeedXDRSupported",
    }
}
