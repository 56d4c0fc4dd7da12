use crate::wire::codes::bit_mask;

bit_mask! {
    /// CapabilityMask of ClassPortInfo in performance management (IBA 16.1.3.1).
    PerfCapabilityMask(u16) {
        /// The agent answers for all ports of a switch together; see
        /// [`ALL_PORTS`](super::ALL_PORTS).
        ALL_PORT_SELECT = 0x0100 "IsAllPortSelectSupported",
        /// The agent answers PortCountersExtended.
        EXTENDED_WIDTH = 0x0200 "IsExtendedWidthSupported",
        /// The agent answers PortCountersExtended without the counters of unicast and multicast
        /// packets.
        EXTENDED_WIDTH_WITHOUT_CAST = 0x0400 "IsExtendedWidthNoIETFSupported",
        /// The agent counts PortXmitWait.
        XMIT_WAIT = 0x1000 "IsPortXmitWaitSupported",
        /// PortExtendedSpeedsCounters has the errors that Reed-Solomon correction corrected, if it
        /// is active.
        RS_FEC_COUNTERS = 0x4000 "IsRSFECModeCountersSupported",
        /// The agent counts QP1Dropped.
        QP1_DROPPED = 0x8000 "IsQP1DroppedSupported",
    }
}

bit_mask! {
    /// CapabilityMask2 of ClassPortInfo in performance management (IBA 16.1.3.1); 27 bits.
    PerfCapabilityMask2(u32) {
        /// The agent answers only requests with a PM_Key.
        PM_KEY = 0x1 "IsPMKeySupported",
        /// PortCountersExtended has the error counters and PortXmitWait with 64 bits as well.
        ADDITIONAL_COUNTERS = 0x2 "IsAdditionalPortCountersExtendedSupported",
    }
}
