//! The counters of lost packets, and the causes of losses that further attributes report (IBA
//! 16.1.3.5, 16.1.4.1, 16.1.4.2).

use rsm_mad::wire::perf::{
    Counter, PortExtendedSpeedsCounters, PortRcvErrorDetails, PortXmitDiscardDetails,
};

use crate::counters::DropReason;
use crate::fabric::{Fabric, NONE};
use crate::route::WalkResult;

/// The cause of an error or a discard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    LocalPhysical,
    MalformedPacket,
    BufferOverrun,
    DlidMapping,
    VlMapping,
    Looping,
    Inactive,
    NeighborMtu,
    Lifetime,
    HoqLifetime,
    SyncHeader,
    UnknownBlock,
    CorrectableBlock,
    UncorrectableBlock,
    CorrectedSymbol,
}

/// The causes in PortRcvErrorDetails, by their bits of CounterSelect.
const RCV_ERROR_CAUSES: [Cause; 6] = [
    Cause::LocalPhysical,
    Cause::MalformedPacket,
    Cause::BufferOverrun,
    Cause::DlidMapping,
    Cause::VlMapping,
    Cause::Looping,
];

/// The causes in PortXmitDiscardDetails, by their bits of CounterSelect.
const XMIT_DISCARD_CAUSES: [Cause; 4] = [
    Cause::Inactive,
    Cause::NeighborMtu,
    Cause::Lifetime,
    Cause::HoqLifetime,
];

/// The counters of PortExtendedSpeedsCounters that do not belong to a single lane, with their bits
/// of CounterSelect.
const ERROR_CORRECTION_CAUSES: [(Cause, u32); 5] = [
    (Cause::SyncHeader, 0),
    (Cause::UnknownBlock, 1),
    (Cause::CorrectableBlock, 38),
    (Cause::UncorrectableBlock, 39),
    (Cause::CorrectedSymbol, 40),
];

/// The number of times that each cause occurred.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Causes(
    [u64; RCV_ERROR_CAUSES.len() + XMIT_DISCARD_CAUSES.len() + ERROR_CORRECTION_CAUSES.len()],
);

impl Causes {
    pub(crate) fn add(&mut self, cause: Cause, count: u64) {
        let value = &mut self.0[cause as usize];
        *value = value.wrapping_add(count);
    }

    pub(crate) fn add_all(&mut self, other: &Causes) {
        for (value, more) in self.0.iter_mut().zip(other.0) {
            *value = value.wrapping_add(more);
        }
    }

    /// Sets to zero each of `causes` whose bit is set in `select`; bit 0 belongs to the first
    /// cause.
    fn reset(&mut self, causes: &[Cause], select: u16) {
        for (bit, &cause) in causes.iter().enumerate() {
            if select >> bit & 1 != 0 {
                self.0[cause as usize] = 0;
            }
        }
    }

    /// The number of times that a cause occurred, as a saturating counter of 16 bits.
    fn count_u16(&self, cause: Cause) -> u16 {
        u16::try_from(self.0[cause as usize]).unwrap_or(u16::MAX)
    }

    /// The number of times that a cause occurred, as a saturating counter of 32 bits.
    fn count_u32(&self, cause: Cause) -> u32 {
        u32::try_from(self.0[cause as usize]).unwrap_or(u32::MAX)
    }
}

/// An attribute that reports causes.
pub(crate) trait CauseAttribute {
    /// Sets the counts of the causes that the attribute selects to zero.
    fn reset(&self, causes: &mut Causes);

    /// Writes the counts of all causes of the attribute.
    fn show(&mut self, causes: &Causes);
}

impl CauseAttribute for PortRcvErrorDetails {
    fn reset(&self, causes: &mut Causes) {
        causes.reset(&RCV_ERROR_CAUSES, self.counter_select());
    }

    fn show(&mut self, causes: &Causes) {
        self.set_local_physical(causes.count_u16(Cause::LocalPhysical))
            .set_malformed_packet(causes.count_u16(Cause::MalformedPacket))
            .set_buffer_overrun(causes.count_u16(Cause::BufferOverrun))
            .set_dlid_mapping(causes.count_u16(Cause::DlidMapping))
            .set_vl_mapping(causes.count_u16(Cause::VlMapping))
            .set_looping(causes.count_u16(Cause::Looping));
    }
}

impl CauseAttribute for PortXmitDiscardDetails {
    fn reset(&self, causes: &mut Causes) {
        causes.reset(&XMIT_DISCARD_CAUSES, self.counter_select());
    }

    fn show(&mut self, causes: &Causes) {
        self.set_inactive(causes.count_u16(Cause::Inactive))
            .set_neighbor_mtu(causes.count_u16(Cause::NeighborMtu))
            .set_lifetime(causes.count_u16(Cause::Lifetime))
            .set_hoq_lifetime(causes.count_u16(Cause::HoqLifetime));
    }
}

impl CauseAttribute for PortExtendedSpeedsCounters {
    fn reset(&self, causes: &mut Causes) {
        for (cause, bit) in ERROR_CORRECTION_CAUSES {
            if self.counter_select() >> bit & 1 != 0 {
                causes.0[cause as usize] = 0;
            }
        }
    }

    fn show(&mut self, causes: &Causes) {
        self.set_sync_header_errors(causes.count_u16(Cause::SyncHeader))
            .set_unknown_blocks(causes.count_u16(Cause::UnknownBlock))
            .set_correctable_blocks(causes.count_u32(Cause::CorrectableBlock))
            .set_uncorrectable_blocks(causes.count_u32(Cause::UncorrectableBlock))
            .set_corrected_symbols(causes.count_u32(Cause::CorrectedSymbol));
    }
}

/// The causes of the damage that makes `counter` grow.
pub(crate) fn of_damage(counter: Counter) -> &'static [Cause] {
    match counter {
        Counter::SymbolError => &[Cause::CorrectableBlock, Cause::CorrectedSymbol],
        Counter::RcvErrors => &[Cause::LocalPhysical, Cause::UncorrectableBlock],
        Counter::RcvSwitchRelayErrors => &[Cause::DlidMapping],
        Counter::XmitDiscards => &[Cause::HoqLifetime],
        _ => &[],
    }
}

/// The record of a lost packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketLoss {
    /// The port that counts the loss.
    pub(crate) port: u32,
    pub(crate) counter: Counter,
    pub(crate) cause: Option<Cause>,
}

impl PacketLoss {
    /// The record of a packet that reached a port outside its partition.
    pub(crate) fn outside_partition(port: u32) -> PacketLoss {
        PacketLoss {
            port,
            counter: Counter::RcvConstraintErrors,
            cause: None,
        }
    }

    /// The record of the packet with the result `walk_result`; `last` is the last port through
    /// which the packet left a node. `None` if the packet arrived, or if no port can count the
    /// loss.
    pub(crate) fn of(
        fabric: &Fabric,
        walk_result: &WalkResult,
        last: Option<u32>,
    ) -> Option<PacketLoss> {
        let reason = walk_result.result.err()?;
        // A packet that crossed no link was sent by the port itself.
        let entry = last.map_or(walk_result.port, |exit| fabric.port(exit).peer);
        let lost = |port, counter, cause| PacketLoss {
            port,
            counter,
            cause,
        };
        let relay = |port, cause| lost(port, Counter::RcvSwitchRelayErrors, Some(cause));
        let discard = |cause| lost(walk_result.port, Counter::XmitDiscards, cause);
        let is_switch = fabric.node_of(walk_result.port).is_switch();
        let lost = match reason {
            // The packet left through this port, and arrived damaged.
            DropReason::Loss => {
                let far = fabric.port(walk_result.port).peer;
                lost(far, Counter::RcvErrors, Some(Cause::LocalPhysical))
            }
            DropReason::NoRoute | DropReason::NoSuchPort => {
                relay(walk_result.port, Cause::DlidMapping)
            }
            DropReason::WrongPort if is_switch => relay(entry, Cause::DlidMapping),
            DropReason::WrongPort => {
                let cause = Some(Cause::MalformedPacket);
                lost(walk_result.port, Counter::RcvErrors, cause)
            }
            DropReason::VirtualLane if is_switch => relay(entry, Cause::VlMapping),
            DropReason::Mtu => discard(Some(Cause::NeighborMtu)),
            DropReason::LinkDown | DropReason::PortState => discard(Some(Cause::Inactive)),
            // The lifetime of a packet in a loop ends in the output queue of a switch.
            DropReason::Loop => {
                let exit = last.unwrap_or(walk_result.port);
                lost(exit, Counter::XmitDiscards, Some(Cause::Lifetime))
            }
            DropReason::PKey if last.is_some() && entry == walk_result.port => {
                PacketLoss::outside_partition(entry)
            }
            DropReason::PKey => lost(walk_result.port, Counter::XmitConstraintErrors, None),
            _ => discard(None),
        };
        (lost.port != NONE).then_some(lost)
    }
}
