//! The counters of lost packets, and the causes that attributes beside the counters report (IBA
//! 16.1.3.5, 16.1.4.1, 16.1.4.2).

use rsm_mad::wire::perf::{
    Counter, PortExtendedSpeedsCounters, PortRcvErrorDetails, PortXmitDiscardDetails,
};

use crate::counters::DropReason;
use crate::fabric::{Fabric, NONE};
use crate::route::Way;

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
const OF_RECEIVED: [Cause; 6] = [
    Cause::LocalPhysical,
    Cause::MalformedPacket,
    Cause::BufferOverrun,
    Cause::DlidMapping,
    Cause::VlMapping,
    Cause::Looping,
];

/// The causes in PortXmitDiscardDetails, by their bits of CounterSelect.
const OF_DISCARDED: [Cause; 4] = [
    Cause::Inactive,
    Cause::NeighborMtu,
    Cause::Lifetime,
    Cause::HoqLifetime,
];

/// The counters of PortExtendedSpeedsCounters that do not belong to a single lane, with their bits
/// of CounterSelect.
const OF_CORRECTION: [(Cause, u32); 5] = [
    (Cause::SyncHeader, 0),
    (Cause::UnknownBlock, 1),
    (Cause::CorrectableBlock, 38),
    (Cause::UncorrectableBlock, 39),
    (Cause::CorrectedSymbol, 40),
];

/// The number of times that each cause occurred.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Causes([u64; OF_RECEIVED.len() + OF_DISCARDED.len() + OF_CORRECTION.len()]);

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

    /// Sets to zero those of `causes` whose bits are set in `select`, which has a bit for each.
    fn reset(&mut self, causes: &[Cause], select: u16) {
        for (bit, &cause) in causes.iter().enumerate() {
            if select >> bit & 1 != 0 {
                self.0[cause as usize] = 0;
            }
        }
    }

    /// The number of times that a cause occurred, as a counter of 16 bits that stays at its highest
    /// value.
    fn shown(&self, cause: Cause) -> u16 {
        u16::try_from(self.0[cause as usize]).unwrap_or(u16::MAX)
    }

    /// The number of times that a cause occurred, as a counter of 32 bits that stays at its highest
    /// value.
    fn long(&self, cause: Cause) -> u32 {
        u32::try_from(self.0[cause as usize]).unwrap_or(u32::MAX)
    }
}

/// An attribute that reports causes.
pub(crate) trait CauseAttribute {
    /// Sets the causes that the attribute selects to zero.
    fn reset(&self, causes: &mut Causes);

    /// Sets all causes of the attribute.
    fn show(&mut self, causes: &Causes);
}

impl CauseAttribute for PortRcvErrorDetails {
    fn reset(&self, causes: &mut Causes) {
        causes.reset(&OF_RECEIVED, self.counter_select());
    }

    fn show(&mut self, causes: &Causes) {
        self.set_local_physical(causes.shown(Cause::LocalPhysical))
            .set_malformed_packet(causes.shown(Cause::MalformedPacket))
            .set_buffer_overrun(causes.shown(Cause::BufferOverrun))
            .set_dlid_mapping(causes.shown(Cause::DlidMapping))
            .set_vl_mapping(causes.shown(Cause::VlMapping))
            .set_looping(causes.shown(Cause::Looping));
    }
}

impl CauseAttribute for PortXmitDiscardDetails {
    fn reset(&self, causes: &mut Causes) {
        causes.reset(&OF_DISCARDED, self.counter_select());
    }

    fn show(&mut self, causes: &Causes) {
        self.set_inactive(causes.shown(Cause::Inactive))
            .set_neighbor_mtu(causes.shown(Cause::NeighborMtu))
            .set_lifetime(causes.shown(Cause::Lifetime))
            .set_hoq_lifetime(causes.shown(Cause::HoqLifetime));
    }
}

impl CauseAttribute for PortExtendedSpeedsCounters {
    fn reset(&self, causes: &mut Causes) {
        for (cause, bit) in OF_CORRECTION {
            if self.counter_select() >> bit & 1 != 0 {
                causes.0[cause as usize] = 0;
            }
        }
    }

    fn show(&mut self, causes: &Causes) {
        self.set_sync_header_errors(causes.shown(Cause::SyncHeader))
            .set_unknown_blocks(causes.shown(Cause::UnknownBlock))
            .set_correctable_blocks(causes.long(Cause::CorrectableBlock))
            .set_uncorrectable_blocks(causes.long(Cause::UncorrectableBlock))
            .set_corrected_symbols(causes.long(Cause::CorrectedSymbol));
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
pub(crate) struct Lost {
    /// The port that counts the loss.
    pub(crate) port: u32,
    pub(crate) counter: Counter,
    pub(crate) cause: Option<Cause>,
}

impl Lost {
    /// The record of a packet that reached a port outside its partition.
    pub(crate) fn foreign(port: u32) -> Lost {
        Lost {
            port,
            counter: Counter::RcvConstraintErrors,
            cause: None,
        }
    }

    /// The record of the packet with the outcome `way`; `last` is the last port through which the
    /// packet left a node. `None` if the packet arrived, or if no port can count the loss.
    pub(crate) fn of(fabric: &Fabric, way: &Way, last: Option<u32>) -> Option<Lost> {
        let reason = way.result.err()?;
        // A packet that crossed no link was sent by the port itself.
        let entry = last.map_or(way.port, |exit| fabric.port(exit).peer);
        let lost = |port, counter, cause| Lost {
            port,
            counter,
            cause,
        };
        let relay = |port, cause| lost(port, Counter::RcvSwitchRelayErrors, Some(cause));
        let discard = |cause| lost(way.port, Counter::XmitDiscards, cause);
        let is_switch = fabric.node_of(way.port).is_switch();
        let lost = match reason {
            // The packet left through this port, and arrived damaged.
            DropReason::Loss => {
                let far = fabric.port(way.port).peer;
                lost(far, Counter::RcvErrors, Some(Cause::LocalPhysical))
            }
            DropReason::NoRoute | DropReason::NoSuchPort => relay(way.port, Cause::DlidMapping),
            DropReason::WrongPort if is_switch => relay(entry, Cause::DlidMapping),
            DropReason::WrongPort => {
                let cause = Some(Cause::MalformedPacket);
                lost(way.port, Counter::RcvErrors, cause)
            }
            DropReason::VirtualLane if is_switch => relay(entry, Cause::VlMapping),
            DropReason::Mtu => discard(Some(Cause::NeighborMtu)),
            DropReason::LinkDown | DropReason::PortState => discard(Some(Cause::Inactive)),
            // The lifetime of a packet in a loop ends in the output queue of a switch.
            DropReason::Loop => {
                let exit = last.unwrap_or(way.port);
                lost(exit, Counter::XmitDiscards, Some(Cause::Lifetime))
            }
            DropReason::PKey if last.is_some() && entry == way.port => Lost::foreign(entry),
            DropReason::PKey => lost(way.port, Counter::XmitConstraintErrors, None),
            _ => discard(None),
        };
        (lost.port != NONE).then_some(lost)
    }
}
