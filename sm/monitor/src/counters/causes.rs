//! Causes of errors, as the performance attributes with details show them, and the counters of
//! error correction.

use rsm_mad::wire::perf::{
    PERF_DATA_LEN, PortExtendedSpeedsCounters, PortRcvErrorDetails, PortXmitDiscardDetails,
};

/// The causes of PortRcvErrors and PortXmitDiscards as last read, after these counters moved. The
/// counters of causes have 16 bits and stay at their highest value.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Causes {
    /// Causes of PortRcvErrors; `None` if the device does not show them, or was not asked.
    pub rcv: Option<RcvCauses>,
    /// Causes of PortXmitDiscards; `None` if the device does not show them, or was not asked.
    pub xmit: Option<XmitCauses>,
}

/// Counters of Reed-Solomon error correction: corrected and uncorrectable blocks (IBA 16.1.4.12).
/// The counters stay at their highest value.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Corrections {
    /// SyncHeaderErrorCounter.
    pub sync_header_errors: u16,
    /// UnknownBlockCounter.
    pub unknown_blocks: u16,
    /// PortFECCorrectableBlockCtr.
    pub correctable_blocks: u32,
    /// PortFECUncorrectableBlockCtr.
    pub uncorrectable_blocks: u32,
    /// PortFECCorrectedSymbolCtr.
    pub corrected_symbols: u32,
}

impl Corrections {
    /// Reads the data of PortExtendedSpeedsCounters.
    pub(super) fn read(data: &[u8; PERF_DATA_LEN]) -> Corrections {
        let counters = PortExtendedSpeedsCounters::from_data(data);
        Corrections {
            sync_header_errors: counters.sync_header_errors(),
            unknown_blocks: counters.unknown_blocks(),
            correctable_blocks: counters.correctable_blocks(),
            uncorrectable_blocks: counters.uncorrectable_blocks(),
            corrected_symbols: counters.corrected_symbols(),
        }
    }
}

/// The causes of PortRcvErrors and PortRcvSwitchRelayErrors (IBA 16.1.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RcvCauses {
    /// PortLocalPhysicalErrors.
    pub local_physical: u16,
    /// PortMalformedPacketErrors.
    pub malformed_packet: u16,
    /// PortBufferOverrunErrors.
    pub buffer_overrun: u16,
    /// PortDLIDMappingErrors.
    pub dlid_mapping: u16,
    /// PortVLMappingErrors.
    pub vl_mapping: u16,
    /// PortLoopingErrors.
    pub looping: u16,
}

/// The causes of PortXmitDiscards (IBA 16.1.4.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct XmitCauses {
    /// PortInactiveDiscards.
    pub inactive: u16,
    /// PortNeighborMTUDiscards.
    pub neighbor_mtu: u16,
    /// PortSwLifetimeLimitDiscards.
    pub lifetime: u16,
    /// PortSwHOQLifetimeLimitDiscards.
    pub hoq_lifetime: u16,
}

impl RcvCauses {
    /// Reads the data of PortRcvErrorDetails.
    pub(super) fn read(data: &[u8; PERF_DATA_LEN]) -> RcvCauses {
        let details = PortRcvErrorDetails::from_data(data);
        RcvCauses {
            local_physical: details.local_physical(),
            malformed_packet: details.malformed_packet(),
            buffer_overrun: details.buffer_overrun(),
            dlid_mapping: details.dlid_mapping(),
            vl_mapping: details.vl_mapping(),
            looping: details.looping(),
        }
    }
}

impl XmitCauses {
    /// Reads the data of PortXmitDiscardDetails.
    pub(super) fn read(data: &[u8; PERF_DATA_LEN]) -> XmitCauses {
        let details = PortXmitDiscardDetails::from_data(data);
        XmitCauses {
            inactive: details.inactive(),
            neighbor_mtu: details.neighbor_mtu(),
            lifetime: details.lifetime(),
            hoq_lifetime: details.hoq_lifetime(),
        }
    }
}
