//! The counters of a port whose past is kept.

use std::ops::{Index, IndexMut};

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// A counter of a port whose past is kept. The order is that of the disk format, so that
        /// new counters are added at the end.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Quantity {
            $($(#[$doc])* $name,)*
        }

        impl Quantity {
            /// Every counter.
            pub const ALL: [Quantity; [$($text),*].len()] = [$(Quantity::$name),*];

            /// Name of the counter in the specification.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Quantity::$name => $text,)*
                }
            }
        }
    };
}

quantities! {
    /// Data sent, in words of 4 bytes.
    XmitData = "PortXmitData";
    /// Data received, in words of 4 bytes.
    RcvData = "PortRcvData";
    /// Packets sent.
    XmitPkts = "PortXmitPkts";
    /// Packets received.
    RcvPkts = "PortRcvPkts";
    /// Ticks in which data waited to be sent.
    XmitWait = "PortXmitWait";
    /// Minor link errors.
    SymbolError = "SymbolErrorCounter";
    /// Recoveries of the link by training.
    LinkErrorRecovery = "LinkErrorRecoveryCounter";
    /// Failed recoveries, after which the link went down.
    LinkDowned = "LinkDownedCounter";
    /// Packets received with an error.
    RcvErrors = "PortRcvErrors";
    /// Packets received that another port had marked as bad.
    RcvRemotePhysicalErrors = "PortRcvRemotePhysicalErrors";
    /// Packets received that the switch could not relay.
    RcvSwitchRelayErrors = "PortRcvSwitchRelayErrors";
    /// Packets dropped instead of being sent.
    XmitDiscards = "PortXmitDiscards";
    /// Packets not sent because of their partition or kind.
    XmitConstraintErrors = "PortXmitConstraintErrors";
    /// Packets dropped at reception because of their partition or kind.
    RcvConstraintErrors = "PortRcvConstraintErrors";
    /// Times that local link errors exceeded their threshold.
    LocalLinkIntegrityErrors = "LocalLinkIntegrityErrors";
    /// Times that receive buffers overran.
    ExcessiveBufferOverrunErrors = "ExcessiveBufferOverrunErrors";
    /// Packets to QP 1 dropped for lack of room.
    Qp1Dropped = "QP1Dropped";
    /// SMPs dropped for lack of room.
    Vl15Dropped = "VL15Dropped";
    /// Symbols that forward error correction corrected; kept only for ports that correct many.
    FecCorrectedSymbols = "PortFECCorrectedSymbolCtr";
    /// Blocks that forward error correction could not correct.
    FecUncorrectableBlocks = "PortFECUncorrectableBlockCtr";
}

impl Quantity {
    /// Number of traffic counters, which come first.
    pub const TRAFFIC: usize = 5;

    /// Whether the counter counts traffic or waits, so that its values are rounded on the disk.
    pub const fn is_traffic(self) -> bool {
        (self as usize) < Self::TRAFFIC
    }

    /// The error counters, whose values are exact.
    pub fn errors() -> impl Iterator<Item = Quantity> {
        Self::ALL.into_iter().skip(Self::TRAFFIC)
    }

    /// The counter with this number on the disk; `None` if only later versions know it.
    pub(crate) fn of(code: u8) -> Option<Quantity> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The counter with this name in the specification; `None` if no kept counter has the name.
    pub fn named(name: &str) -> Option<Quantity> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// One count for each counter.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts(pub(crate) [u64; Quantity::ALL.len()]);

impl Counts {
    /// Adds `other`. Sums saturate at the highest count.
    pub fn add(&mut self, other: &Counts) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(count);
        }
    }

    /// Sum of the error counts, without errors that another link causes
    /// ([`Quantity::RcvRemotePhysicalErrors`]), packets for which a switch has no way on
    /// ([`Quantity::RcvSwitchRelayErrors`]), and errors that forward error correction has
    /// corrected.
    pub fn errors(&self) -> u64 {
        let of_port = Quantity::errors().filter(|one| {
            !matches!(
                one,
                Quantity::RcvRemotePhysicalErrors
                    | Quantity::RcvSwitchRelayErrors
                    | Quantity::FecCorrectedSymbols
            )
        });
        of_port.map(|one| self[one]).fold(0, u64::saturating_add)
    }
}

impl Index<Quantity> for Counts {
    type Output = u64;

    fn index(&self, quantity: Quantity) -> &u64 {
        &self.0[quantity as usize]
    }
}

impl IndexMut<Quantity> for Counts {
    fn index_mut(&mut self, quantity: Quantity) -> &mut u64 {
        &mut self.0[quantity as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_of_errors_has_those_of_the_ports_own_link() {
        let mut counts = Counts::default();
        for quantity in Quantity::ALL {
            counts[quantity] = 1;
        }
        let kinds = Quantity::errors().count() as u64;
        // Errors of another link, packets with no way on from a switch, and corrected symbols.
        assert_eq!(counts.errors(), kinds - 3);
    }
}
