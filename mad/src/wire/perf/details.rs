use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{PERF_DATA_LEN, PortExtendedSpeedsCounters};
use crate::wire::bits::bits;

/// PortRcvErrorDetails (IBA 16.1.4.1): the causes of PortRcvErrors and, from PortDLIDMappingErrors
/// on, of PortRcvSwitchRelayErrors. The counters have 16 bits and stop at their highest value.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -               | PortSelect      | CounterSelect
///    4  PortLocalPhysicalErrors           | PortMalformedPacketErrors
///    8  PortBufferOverrunErrors           | PortDLIDMappingErrors
///   12  PortVLMappingErrors               | PortLoopingErrors
///   16  - to byte 191
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PortRcvErrorDetails {
    reserved: u8,
    port_select: u8,
    counter_select: U16,
    local_physical: U16,
    malformed_packet: U16,
    buffer_overrun: U16,
    dlid_mapping: U16,
    vl_mapping: U16,
    looping: U16,
    reserved_16: [u8; 176],
}

bits! { PortRcvErrorDetails {
    /// The port; [`ALL_PORTS`](super::ALL_PORTS) for all ports.
    port_select, set_port_select: u8 = port_select;
    /// The counters that a Set resets.
    counter_select, set_counter_select: u16 = counter_select;
    /// The number of packets with damage from the link: CRCs, lengths, end delimiters.
    local_physical, set_local_physical: u16 = local_physical;
    /// The number of packets with fields that contradict each other.
    malformed_packet, set_malformed_packet: u16 = malformed_packet;
    /// The number of packets without room in the receive buffer.
    buffer_overrun, set_buffer_overrun: u16 = buffer_overrun;
    /// The number of packets to a DLID for which the switch has no port.
    dlid_mapping, set_dlid_mapping: u16 = dlid_mapping;
    /// The number of packets whose service level has no VL at the exit port.
    vl_mapping, set_vl_mapping: u16 = vl_mapping;
    /// The number of packets whose exit port would be the port by which they entered.
    looping, set_looping: u16 = looping;
} }

/// PortXmitDiscardDetails (IBA 16.1.4.2): the causes of PortXmitDiscards. The counters have 16 bits
/// and stop at their highest value.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -               | PortSelect      | CounterSelect
///    4  PortInactiveDiscards              | PortNeighborMTUDiscards
///    8  PortSwLifetimeLimitDiscards       | PortSwHOQLifetimeLimitDiscards
///   12  - to byte 191
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PortXmitDiscardDetails {
    reserved: u8,
    port_select: u8,
    counter_select: U16,
    inactive: U16,
    neighbor_mtu: U16,
    lifetime: U16,
    hoq_lifetime: U16,
    reserved_12: [u8; 180],
}

bits! { PortXmitDiscardDetails {
    /// The port; [`ALL_PORTS`](super::ALL_PORTS) for all ports.
    port_select, set_port_select: u8 = port_select;
    /// The counters that a Set resets.
    counter_select, set_counter_select: u16 = counter_select;
    /// The number of packets to a port that is not Active.
    inactive, set_inactive: u16 = inactive;
    /// The number of packets longer than NeighborMTU.
    neighbor_mtu, set_neighbor_mtu: u16 = neighbor_mtu;
    /// The number of packets that were in the switch for longer than SwitchInfo.LifeTimeValue.
    lifetime, set_lifetime: u16 = lifetime;
    /// The number of packets that were at the head of their queue for longer than PortInfo.HOQLife.
    hoq_lifetime, set_hoq_lifetime: u16 = hoq_lifetime;
} }

/// Implements the conversions of a view from and to bytes, and its zeroes.
macro_rules! details {
    ($($view:ident),*) => {$(
        const _: () = assert!(size_of::<$view>() == PERF_DATA_LEN);

        impl $view {
            /// Views `data` as the attribute. Any bytes are valid.
            pub fn from_data(data: &[u8; PERF_DATA_LEN]) -> &Self {
                zerocopy::transmute_ref!(data)
            }

            /// The attribute in `data`, mutable in place.
            pub fn from_data_mut(data: &mut [u8; PERF_DATA_LEN]) -> &mut Self {
                zerocopy::transmute_mut!(data)
            }

            /// The bytes as they are sent.
            pub fn as_data(&self) -> &[u8; PERF_DATA_LEN] {
                zerocopy::transmute_ref!(self)
            }
        }

        impl Default for $view {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }
    )*};
}

details!(
    PortRcvErrorDetails,
    PortXmitDiscardDetails,
    PortExtendedSpeedsCounters
);

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected positions are from `libibmad/fields.c` in rdma-core, in bits from the first
    /// byte.
    #[test]
    fn counters_of_extended_speeds_have_the_positions_of_libibmad() {
        let mut counters = PortExtendedSpeedsCounters::default();
        counters
            .set_port_select(7)
            .set_counter_select(0x0102)
            .set_sync_header_errors(0x1122)
            .set_unknown_blocks(0x3344)
            .set_correctable_blocks(0x5566_7788)
            .set_uncorrectable_blocks(0x99AA_BBCC)
            .set_corrected_symbols(0xDDEE_FF01);
        let bits = |first: usize, count: usize| &counters.as_data()[first / 8..(first + count) / 8];
        assert_eq!(bits(8, 8), [7]);
        assert_eq!(bits(64, 64), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(bits(128, 16), [0x11, 0x22]);
        assert_eq!(bits(144, 16), [0x33, 0x44]);
        assert_eq!(bits(1120, 32), [0x55, 0x66, 0x77, 0x88]);
        assert_eq!(bits(1152, 32), [0x99, 0xAA, 0xBB, 0xCC]);
        assert_eq!(bits(1184, 32), [0xDD, 0xEE, 0xFF, 0x01]);
    }

    #[test]
    fn causes_are_in_the_order_of_the_specification() {
        let mut data = [0; PERF_DATA_LEN];
        for (word, value) in data[4..16].chunks_exact_mut(2).zip(1u16..) {
            word.copy_from_slice(&value.to_be_bytes());
        }
        let rcv = PortRcvErrorDetails::from_data(&data);
        let causes = [
            rcv.local_physical(),
            rcv.malformed_packet(),
            rcv.buffer_overrun(),
            rcv.dlid_mapping(),
            rcv.vl_mapping(),
            rcv.looping(),
        ];
        assert_eq!(causes, [1, 2, 3, 4, 5, 6]);
        let xmit = PortXmitDiscardDetails::from_data(&data);
        let causes = [
            xmit.inactive(),
            xmit.neighbor_mtu(),
            xmit.lifetime(),
            xmit.hoq_lifetime(),
        ];
        assert_eq!(causes, [1, 2, 3, 4]);
        assert_eq!(rcv.as_data(), xmit.as_data());
    }
}
