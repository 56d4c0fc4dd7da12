//! Finds the hosts of adapters: a host may have several adapters in a fabric.
//!
//! A netlist lists adapters, not hosts. Linux describes an adapter by the name of the host and the
//! name of the device. All counts and lists of hosts derive hosts from these descriptions, with
//! this module.

use std::collections::BTreeSet;
use std::fmt;

/// The name of the host in the description of one of its adapters: `host-017` in `host-017 mlx5_3`.
/// `None` for a description that does not end with the name of a device, and for a description with
/// a model number, as firmware sets it.
pub fn host_of(description: &str) -> Option<&str> {
    let (host, device) = description.trim_end().rsplit_once(' ')?;
    let is_device = device.starts_with(|c: char| c.is_ascii_alphabetic())
        && device.contains(|c: char| c.is_ascii_digit());
    (is_device && !host.is_empty() && !is_model(host)).then_some(host)
}

/// Whether a word is a model number, such as `MT4129`. Descriptions that firmware sets begin with
/// one.
pub fn is_model(word: &str) -> bool {
    let number = word.strip_prefix("MT");
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The name of an adapter's host; the whole description if it names no host.
pub fn host_name(description: &str) -> &str {
    host_of(description).unwrap_or(description)
}

/// Counts of hosts and of their adapters.
#[derive(Clone, Default, Debug)]
pub struct HostTally<'a> {
    /// The names of hosts.
    named: BTreeSet<&'a str>,
    adapters: u64,
    /// The number of nodes whose description names no host.
    unnamed: u64,
}

impl<'a> HostTally<'a> {
    /// Adds a node by its description. A node whose description names no device is a host of its
    /// own.
    pub fn add(&mut self, description: &'a str) {
        self.adapters += 1;
        match host_of(description) {
            Some(host) => drop(self.named.insert(host)),
            None => self.unnamed += 1,
        }
    }

    /// The number of hosts.
    pub fn hosts(&self) -> u64 {
        self.named.len() as u64 + self.unnamed
    }

    /// The number of adapters.
    pub fn adapters(&self) -> u64 {
        self.adapters
    }
}

impl<'a> FromIterator<&'a str> for HostTally<'a> {
    fn from_iter<I: IntoIterator<Item = &'a str>>(descriptions: I) -> HostTally<'a> {
        let mut tally = HostTally::default();
        descriptions.into_iter().for_each(|one| tally.add(one));
        tally
    }
}

/// Formats as `2 hosts with 16 adapters`, or `2 hosts` if each has one.
impl fmt::Display for HostTally<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.hosts();
        let noun = if hosts == 1 { "host" } else { "hosts" };
        write!(f, "{hosts} {noun}")?;
        match self.adapters {
            same if same == hosts => Ok(()),
            adapters => write!(f, " with {adapters} adapters"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_name_is_the_text_before_the_device() {
        for (description, host) in [
            ("host-017 mlx5_3", "host-017"),
            ("gpu07 HCA-2", "gpu07"),
            ("gpu07 ibp24s0f1", "gpu07"),
            ("rack 3 mlx5_0 ", "rack 3"),
            ("MT4129 ConnectX7", "MT4129 ConnectX7"),
            ("storage", "storage"),
            ("storage server", "storage server"),
            ("node 7", "node 7"),
            (" mlx5_0", " mlx5_0"),
            ("MF0;leaf-03:MQM9700/U1", "MF0;leaf-03:MQM9700/U1"),
            (
                "Mellanox Technologies Aggregation Node",
                "Mellanox Technologies Aggregation Node",
            ),
        ] {
            assert_eq!(host_name(description), host);
        }
    }

    #[test]
    fn adapters_of_a_host_count_as_one_host() {
        let tally: HostTally<'_> = ["a mlx5_0", "a mlx5_1", "b mlx5_0", "twin", "twin"]
            .into_iter()
            .collect();
        assert_eq!((tally.hosts(), tally.adapters()), (4, 5));
        assert_eq!(tally.to_string(), "4 hosts with 5 adapters");
        let alone: HostTally<'_> = ["a mlx5_0"].into_iter().collect();
        assert_eq!(alone.to_string(), "1 host");
    }
}
