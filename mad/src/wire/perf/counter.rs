use std::fmt;
use std::ops::{Index, IndexMut};

/// The position of a counter in an attribute.
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterField {
    /// The first bit; 0 is the most significant bit of byte 0.
    pub(super) offset: usize,
    /// The width of the counter in bits.
    pub(super) width: usize,
    /// The bit with which a Set resets the counter: 0 to 15 in CounterSelect, from 16 on in
    /// CounterSelect2.
    pub(super) select: u32,
}

/// The position of a counter in [`PortCounters`](super::PortCounters).
const fn narrow(offset: usize, width: usize, select: u32) -> Option<CounterField> {
    Some(CounterField {
        offset,
        width,
        select,
    })
}

/// The position of a counter of [`PortCountersExtended`](super::PortCountersExtended), by its index
/// in the row of 64-bit counters. The counters from 8 on have a bit of CounterSelect2.
const fn wide(index: usize) -> CounterField {
    let select = if index < 8 { index } else { index + 8 };
    CounterField {
        offset: 64 * (index + 1),
        width: 64,
        // The row has 22 counters.
        select: select as u32,
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $narrow:expr, $wide:expr;)*) => {
        /// A counter of a port (IBA 16.1.3.5, 16.1.4.11).
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Counter {
            $($(#[$doc])* $name,)*
        }

        impl Counter {
            /// All counters.
            pub const ALL: [Counter; [$($text),*].len()] = [$(Counter::$name),*];

            /// The name in the specification.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Counter::$name => $text,)*
                }
            }

            /// The highest value of the counter in [`PortCounters`](super::PortCounters), where it
            /// stops; `None` if PortCounters does not have the counter.
            pub const fn narrow_max(self) -> Option<u64> {
                match self.narrow() {
                    Some(place) => Some((1 << place.width) - 1),
                    None => None,
                }
            }

            pub(super) const fn narrow(self) -> Option<CounterField> {
                match self {
                    $(Counter::$name => $narrow,)*
                }
            }

            pub(super) const fn wide(self) -> CounterField {
                match self {
                    $(Counter::$name => $wide,)*
                }
            }
        }
    };
}

counters! {
    /// The number of minor link errors on one or more lanes.
    SymbolError = "SymbolErrorCounter", narrow(32, 16, 0), wide(8);
    /// The number of times that the link recovered from an error by training.
    LinkErrorRecovery = "LinkErrorRecoveryCounter", narrow(48, 8, 1), wide(9);
    /// The number of times that the link failed to recover from an error and went down.
    LinkDowned = "LinkDownedCounter", narrow(56, 8, 2), wide(10);
    /// The number of packets received with an error.
    RcvErrors = "PortRcvErrors", narrow(64, 16, 3), wide(11);
    /// The number of packets received that another port had marked as bad.
    RcvRemotePhysicalErrors = "PortRcvRemotePhysicalErrors", narrow(80, 16, 4), wide(12);
    /// The number of packets received that the switch could not relay.
    RcvSwitchRelayErrors = "PortRcvSwitchRelayErrors", narrow(96, 16, 5), wide(13);
    /// The number of packets dropped instead of being sent.
    XmitDiscards = "PortXmitDiscards", narrow(112, 16, 6), wide(14);
    /// The number of packets not sent because of partition enforcement or a filter of raw packets.
    XmitConstraintErrors = "PortXmitConstraintErrors", narrow(128, 8, 7), wide(15);
    /// The number of packets dropped at reception because of partition enforcement or a filter of
    /// raw packets.
    RcvConstraintErrors = "PortRcvConstraintErrors", narrow(136, 8, 8), wide(16);
    /// The number of times that local link errors passed their threshold.
    LocalLinkIntegrityErrors = "LocalLinkIntegrityErrors", narrow(152, 4, 9), wide(17);
    /// The number of times that receive buffers overran for longer than their threshold.
    ExcessiveBufferOverrunErrors = "ExcessiveBufferOverrunErrors", narrow(156, 4, 10), wide(18);
    /// The number of packets to QP 1 that were dropped for lack of room.
    Qp1Dropped = "QP1Dropped", narrow(160, 16, 17), wide(21);
    /// The number of SMPs that were dropped for lack of room.
    Vl15Dropped = "VL15Dropped", narrow(176, 16, 11), wide(19);
    /// The amount of data sent, in units of 4 bytes.
    XmitData = "PortXmitData", narrow(192, 32, 12), wide(0);
    /// The amount of data received, in units of 4 bytes.
    RcvData = "PortRcvData", narrow(224, 32, 13), wide(1);
    /// The number of packets sent.
    XmitPkts = "PortXmitPkts", narrow(256, 32, 14), wide(2);
    /// The number of packets received.
    RcvPkts = "PortRcvPkts", narrow(288, 32, 15), wide(3);
    /// The number of ticks during which data waited to be sent; PortSamplesControl states the
    /// length of a tick.
    XmitWait = "PortXmitWait", narrow(320, 32, 16), wide(20);
    /// The number of unicast packets sent.
    UnicastXmitPkts = "PortUnicastXmitPkts", None, wide(4);
    /// The number of unicast packets received.
    UnicastRcvPkts = "PortUnicastRcvPkts", None, wide(5);
    /// The number of multicast packets sent.
    MulticastXmitPkts = "PortMulticastXmitPkts", None, wide(6);
    /// The number of multicast packets received.
    MulticastRcvPkts = "PortMulticastRcvPkts", None, wide(7);
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A value for each counter; values wrap at 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CounterSet([u64; Counter::ALL.len()]);

impl Index<Counter> for CounterSet {
    type Output = u64;

    fn index(&self, counter: Counter) -> &u64 {
        &self.0[counter as usize]
    }
}

impl IndexMut<Counter> for CounterSet {
    fn index_mut(&mut self, counter: Counter) -> &mut u64 {
        &mut self.0[counter as usize]
    }
}

impl CounterSet {
    /// Adds `count` to `counter`.
    pub fn add(&mut self, counter: Counter, count: u64) {
        self[counter] = self[counter].wrapping_add(count);
    }

    /// Adds all counters of `other`.
    pub fn add_all(&mut self, other: &CounterSet) {
        for counter in Counter::ALL {
            self.add(counter, other[counter]);
        }
    }
}
