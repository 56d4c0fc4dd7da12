//! Finds babbling ports: ports that send far more traps than an agent may.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::PortKey;
use rsm_mad::Time;

/// Window in which the traps of a port are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// Number of counted traps in the window from which on a port babbles. An agent repeats a trap that
/// is not repressed at most five times per second (IBA 13.4.9), 300 times in the window. A correct
/// agent has far fewer counted traps, because rsm represses each trap within the share of its port.
const STORM_TRAPS: u32 = 250;

/// Time after the last counted trap of a storm after which a port no longer babbles.
const QUIET: Duration = Duration::from_secs(300);

/// Maximum number of ports whose traps are counted.
const MAX_PORTS: usize = 4096;

/// Length of a notice in bytes.
const NOTICE_LEN: usize = 64;

/// A trap that a port has sent.
#[derive(Clone, Copy, Debug)]
pub struct HeardTrap<'a> {
    /// The notice in the trap, as on the wire.
    pub notice: &'a [u8; NOTICE_LEN],
    /// Whether the trap is within the share of its port, and gets a TrapRepress. An agent that
    /// sends at most five traps per second does not exceed the share.
    pub is_within_share: bool,
    /// Whether the trap reports an act of other ports, or belongs to a virtual port of the port.
    /// The port is not at fault for such traps, however many they are.
    pub is_caused_by_others: bool,
}

/// The traps of a port within the window.
#[derive(Clone, Copy, Debug)]
struct Traps {
    /// Start of the window.
    window_start: Time,
    /// Number of counted traps in the window.
    count: u32,
    /// The last notice that got a TrapRepress; `None` before the first TrapRepress.
    repressed: Option<[u8; NOTICE_LEN]>,
}

/// The counted traps of ports, and the ports that babble.
#[derive(Clone, Default, Debug)]
pub struct Babbling {
    /// Counted traps by port, for at most [`MAX_PORTS`] ports.
    ports: BTreeMap<PortKey, Traps>,
    /// For each babbling port, the number of counted traps in its last window, and the time of the
    /// last counted trap.
    storms: BTreeMap<PortKey, (u32, Time)>,
}

impl Babbling {
    /// Counts a trap of a port, if it repeats the last trap that got a TrapRepress or exceeds the
    /// port's share. Returns whether the port begins to babble. Ignores the port if the traps of the
    /// maximum number of other ports are counted.
    pub fn heard(&mut self, port: PortKey, trap: HeardTrap<'_>, now: Time) -> bool {
        if trap.is_caused_by_others {
            return false;
        }
        if self.ports.len() >= MAX_PORTS && !self.ports.contains_key(&port) {
            let storms = &self.storms;
            self.ports.retain(|port, traps| {
                now.since(traps.window_start) <= WINDOW || storms.contains_key(port)
            });
            if self.ports.len() >= MAX_PORTS {
                return false;
            }
        }
        let traps = self.ports.entry(port).or_insert(Traps {
            window_start: now,
            count: 0,
            repressed: None,
        });
        if now.since(traps.window_start) > WINDOW {
            (traps.window_start, traps.count) = (now, 0);
        }
        let is_repeat = traps.repressed.as_ref() == Some(trap.notice);
        if trap.is_within_share {
            traps.repressed = Some(*trap.notice);
            if !is_repeat {
                return false;
            }
        }
        traps.count = traps.count.saturating_add(1);
        if traps.count < STORM_TRAPS {
            return false;
        }
        self.storms.insert(port, (traps.count, now)).is_none()
    }

    /// Forgets the storms of ports that no longer babble. Returns whether any storm was forgotten.
    pub fn release(&mut self, now: Time) -> bool {
        let is_over = |&(_, &(_, last_trap)): &(&PortKey, &(u32, Time))| last_trap + QUIET <= now;
        let ended = self.storms.iter().filter(is_over);
        let ended: Vec<PortKey> = ended.map(|(&port, _)| port).collect();
        for port in &ended {
            self.storms.remove(port);
            self.ports.remove(port);
        }
        !ended.is_empty()
    }

    /// Time at which [`Babbling::release`] forgets the next storm; `None` if there is no storm.
    pub fn next_release(&self) -> Option<Time> {
        self.storms
            .values()
            .map(|&(_, last_trap)| last_trap + QUIET)
            .min()
    }

    /// The babbling ports, each with the time of its last counted trap.
    pub fn storms(&self) -> impl Iterator<Item = (PortKey, Time)> {
        self.storms
            .iter()
            .map(|(&port, &(_, last_trap))| (port, last_trap))
    }

    /// The babbling ports, each with its number of counted traps in the last window of a minute.
    pub fn ports(&self) -> impl Iterator<Item = (PortKey, u32)> {
        self.storms.iter().map(|(&port, &(count, _))| (port, count))
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortNum};

    use super::*;

    fn port(node: u64) -> PortKey {
        PortKey::new(Guid(node), PortNum(0))
    }

    /// A trap within the share of its port.
    fn trap(notice: &[u8; NOTICE_LEN]) -> HeardTrap<'_> {
        HeardTrap {
            notice,
            is_within_share: true,
            is_caused_by_others: false,
        }
    }

    const SAME: [u8; NOTICE_LEN] = [1; NOTICE_LEN];

    #[test]
    fn storm_is_reported_once_and_ends_after_five_minutes_without_traps() {
        let mut babbling = Babbling::default();
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let begins: Vec<bool> = (0..1000)
            .map(|n| babbling.heard(port(1), trap(&SAME), at(n * 100)))
            .collect();
        assert_eq!(begins.iter().filter(|&&begins| begins).count(), 1);
        assert_eq!(babbling.ports().count(), 1);
        // The last trap of the storm came at 99.9 s.
        assert_eq!(babbling.next_release(), Some(at(399_900)));
        assert!(!babbling.release(at(399_000)));
        assert!(babbling.release(at(399_900)));
        assert_eq!(babbling.ports().count(), 0);
    }

    #[test]
    fn port_with_two_traps_a_second_does_not_babble() {
        let mut babbling = Babbling::default();
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        assert!((0..2000).all(|n| !babbling.heard(port(1), trap(&SAME), at(n * 500))));
        assert_eq!(babbling.next_release(), None);
    }

    #[test]
    fn port_with_different_traps_babbles_only_beyond_its_share() {
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let begins = |is_within_share| {
            let mut babbling = Babbling::default();
            (0..300_u64).any(|n| {
                let notice = [n as u8; NOTICE_LEN];
                let heard = HeardTrap {
                    is_within_share,
                    ..trap(&notice)
                };
                babbling.heard(port(1), heard, at(n * 200))
            })
        };
        assert!(!begins(true));
        assert!(begins(false));
    }

    #[test]
    fn traps_caused_by_others_never_make_a_port_babble() {
        let mut babbling = Babbling::default();
        for n in 0..10_000 {
            let heard = HeardTrap {
                is_within_share: false,
                is_caused_by_others: true,
                ..trap(&SAME)
            };
            let at = Time::ZERO + Duration::from_millis(n);
            assert!(!babbling.heard(port(1), heard, at));
        }
        assert_eq!(babbling.ports().count(), 0);
    }

    #[test]
    fn traps_of_ports_beyond_the_maximum_are_not_counted() {
        let mut babbling = Babbling::default();
        for node in 0..3 * MAX_PORTS as u64 {
            babbling.heard(port(node), trap(&SAME), Time::ZERO);
        }
        assert_eq!(babbling.ports.len(), MAX_PORTS);
        babbling.heard(
            port(1 << 40),
            trap(&SAME),
            Time::ZERO + Duration::from_secs(61),
        );
        assert_eq!(babbling.ports.len(), 1);
    }
}
