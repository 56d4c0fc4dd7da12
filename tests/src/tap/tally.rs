//! Counts requests by method and attribute.

use std::collections::BTreeMap;
use std::fmt;

use super::packet::{Packet, attribute, method};

/// The number of requests, by method and attribute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<(u8, u16), u64>);

impl Tally {
    /// The number of all requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The number of Gets.
    #[must_use]
    pub fn gets(&self) -> u64 {
        self.of_method(method::GET)
    }

    /// The number of Sets.
    #[must_use]
    pub fn sets(&self) -> u64 {
        self.of_method(method::SET)
    }

    /// The number of requests with one method and attribute.
    #[must_use]
    pub fn of(&self, method: u8, attribute: u16) -> u64 {
        self.0
            .get(&(method, attribute))
            .copied()
            .unwrap_or_default()
    }

    /// Counts one more request.
    pub fn add(&mut self, method: u8, attribute: u16) {
        *self.0.entry((method, attribute)).or_default() += 1;
    }

    fn of_method(&self, wanted: u8) -> u64 {
        self.0
            .iter()
            .filter(|((method, _), _)| *method == wanted)
            .map(|(_, count)| count)
            .sum()
    }
}

impl<'a> FromIterator<&'a Packet> for Tally {
    fn from_iter<I: IntoIterator<Item = &'a Packet>>(packets: I) -> Self {
        let mut tally = Self::default();
        for packet in packets.into_iter().filter(|packet| packet.is_request()) {
            tally.add(packet.method(), packet.attribute());
        }
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} SMPs", self.total())?;
        for ((request, id), count) in &self.0 {
            let method = method::name(*request);
            write!(f, ", {method} {} {count}", attribute::name(*id))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_is_printed_by_its_name() {
        let mut tally = Tally::default();
        let requests = [
            method::GET,
            method::SET,
            method::TRAP,
            method::TRAP_REPRESS,
            0x12,
        ];
        for request in requests {
            tally.add(request, attribute::NOTICE);
        }
        assert_eq!(
            tally.to_string(),
            "5 SMPs, Get Notice 1, Set Notice 1, Trap Notice 1, TrapRepress Notice 1, \
             method 0x12 Notice 1"
        );
    }
}
