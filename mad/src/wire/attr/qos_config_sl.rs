use rsm_ids::PortNum;
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::attribute;

/// NVIDIA QoSConfigSL, attribute 0xFF82: the rate limit and the bandwidth share of each service
/// level of a port or of a virtual port.
///
/// ```text
/// byte   31 ..     20 | 19 ..            0
///    0  BandwidthShare | RateLimit          SL 0
///    4  BandwidthShare | RateLimit          SL 1
///       …                                   to byte 63: SL 15
/// ```
///
/// Layout: `ib_types.h` of OpenSM 5.24.0.MLNX20250722. The unit of a limit, 1 Mb/s, and the meaning
/// of 0, no limit: appendix "Enhanced Quality of Service" of the manual of UFM.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct QosConfigSl {
    levels: [U32; QosConfigSl::LEVELS],
}

attribute!(QosConfigSl, QOS_CONFIG_SL, "QoSConfigSL");

/// The bit of the modifier that is set if the other bits are the index of a virtual port.
const OF_VPORT: u32 = 1 << 31;

/// The mask of the limit in its word.
const LIMIT: u32 = 0x000F_FFFF;

impl QosConfigSl {
    /// The number of service levels.
    pub const LEVELS: usize = 16;

    /// The highest limit, in Mb/s.
    pub const LIMIT_MAX: u32 = LIMIT;

    /// The attribute modifier of a port.
    pub const fn modifier(port: PortNum) -> u32 {
        port.0 as u32
    }

    /// The attribute modifier of the virtual port at `index`.
    pub const fn vport_modifier(index: u16) -> u32 {
        OF_VPORT | index as u32
    }

    /// The index of the virtual port that a modifier names; `None` if the modifier names a port.
    pub const fn modifier_vport(modifier: u32) -> Option<u16> {
        if modifier & OF_VPORT != 0 {
            Some(modifier as u16)
        } else {
            None
        }
    }

    /// The maximum rate of a service level in Mb/s; 0 means no limit. `None` from service level 16
    /// on.
    pub fn rate_limit(&self, sl: usize) -> Option<u32> {
        Some(self.levels.get(sl)?.get() & LIMIT)
    }

    /// Sets [`Self::rate_limit`]; a value beyond [`Self::LIMIT_MAX`] becomes that maximum. A
    /// service level from 16 on changes nothing.
    pub fn set_rate_limit(&mut self, sl: usize, limit: u32) -> &mut Self {
        if let Some(level) = self.levels.get_mut(sl) {
            level.set(level.get() & !LIMIT | limit.min(LIMIT));
        }
        self
    }

    /// The share of bandwidth of a service level, 12 bits, in a unit that is not public. `None`
    /// from service level 16 on.
    pub fn bandwidth_share(&self, sl: usize) -> Option<u16> {
        Some((self.levels.get(sl)?.get() >> 20) as u16)
    }

    /// Sets [`Self::bandwidth_share`] to the low 12 bits of `share`. A service level from 16 on
    /// changes nothing.
    pub fn set_bandwidth_share(&mut self, sl: usize, share: u16) -> &mut Self {
        if let Some(level) = self.levels.get_mut(sl) {
            level.set(level.get() & LIMIT | u32::from(share) << 20);
        }
        self
    }

    /// All limits, in the order of the service levels.
    pub fn rate_limits(&self) -> [u32; QosConfigSl::LEVELS] {
        self.levels.map(|level| level.get() & LIMIT)
    }
}
