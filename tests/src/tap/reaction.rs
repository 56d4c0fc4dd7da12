//! Measures the reaction of a subnet manager to a change, beginning with the first trap.

use std::time::Duration;

use super::packet::{Packet, attribute};
use super::tally::Tally;

/// The reaction to a trap.
#[derive(Debug, Clone)]
pub struct Reaction {
    /// The time from the delivery of the first trap to the sending of the last LFT block.
    pub to_last_lft_block: Duration,
    /// The time from the delivery of the first trap to the sending of the last Set.
    pub to_last_set: Duration,
    /// The requests sent after the first trap.
    pub requests: Tally,
}

impl Reaction {
    /// The reaction in `packets`, which must begin before the change and end when the wire is quiet
    /// again; `None` if no trap was delivered, or no LFT block followed a trap.
    #[must_use]
    pub fn of(packets: &[Packet]) -> Option<Self> {
        let first = packets.iter().position(Packet::is_trap)?;
        let (trap, after) = (&packets[first], &packets[first..]);
        let sets: Vec<&Packet> = after.iter().filter(|packet| packet.is_set()).collect();
        let last_lft_block = sets
            .iter()
            .rfind(|packet| packet.attribute() == attribute::LINEAR_FORWARDING_TABLE)?;
        Some(Self {
            to_last_lft_block: last_lft_block.at - trap.at,
            to_last_set: sets
                .last()
                .map_or(Duration::ZERO, |packet| packet.at - trap.at),
            requests: after.iter().collect(),
        })
    }
}
