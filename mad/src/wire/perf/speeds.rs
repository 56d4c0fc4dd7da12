use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::wire::bits::bits;

/// PortExtendedSpeedsCounters (IBA 16.1.4.12) of a port whose link has Reed-Solomon forward error
/// correction: errors that the correction corrected, and errors that it could not correct. The
/// counters stop at their highest value.
///
/// ```text
/// byte  7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0 | 7 6 5 4 3 2 1 0
///    0  -               | PortSelect      | -
///    8  CounterSelect to byte 15
///   16  SyncHeaderErrorCounter            | UnknownBlockCounter
///   20  counters by lane to byte 139
///  140  PortFECCorrectableBlockCtr
///  144  PortFECUncorrectableBlockCtr
///  148  PortFECCorrectedSymbolCtr
///  152  - to byte 191
/// ```
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PortExtendedSpeedsCounters {
    reserved: u8,
    port_select: u8,
    reserved_2: [u8; 6],
    counter_select: U64,
    sync_header_errors: U16,
    unknown_blocks: U16,
    lanes: [u8; 120],
    correctable_blocks: U32,
    uncorrectable_blocks: U32,
    corrected_symbols: U32,
    reserved_152: [u8; 40],
}

bits! { PortExtendedSpeedsCounters {
    /// The port; [`ALL_PORTS`](super::ALL_PORTS) for all ports.
    port_select, set_port_select: u8 = port_select;
    /// The counters that a Set resets.
    counter_select, set_counter_select: u64 = counter_select;
    /// The number of blocks whose two-bit header was damaged.
    sync_header_errors, set_sync_header_errors: u16 = sync_header_errors;
    /// The number of control blocks of an unknown type.
    unknown_blocks, set_unknown_blocks: u16 = unknown_blocks;
    /// The number of blocks that the correction has corrected.
    correctable_blocks, set_correctable_blocks: u32 = correctable_blocks;
    /// The number of blocks with more errors than the correction can correct: their packets are
    /// lost.
    uncorrectable_blocks, set_uncorrectable_blocks: u32 = uncorrectable_blocks;
    /// The number of symbols that the correction has corrected.
    corrected_symbols, set_corrected_symbols: u32 = corrected_symbols;
} }
