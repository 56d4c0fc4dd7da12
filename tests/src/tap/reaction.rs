//! How a subnet manager reacted to a change: from the first trap on.

use std::time::Duration;

use super::packet::{Packet, attribute};
use super::tally::Tally;

/// The reaction to a trap.
#[derive(Debug, Clone)]
pub struct Reaction {
    /// From the first trap delivered to the last LFT block sent.
    pub to_last_lft_block: Duration,
    /// From the first trap delivered to the last Set sent.
    pub to_last_set: Duration,
    /// Requests sent after the first trap.
    pub requests: Tally,
}

impl Reaction {
    /// The reaction in `packets`, which begin before the change and end when all is quiet again;
    /// none when no trap was delivered or no LFT block followed one.
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
