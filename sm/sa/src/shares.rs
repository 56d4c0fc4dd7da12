//! Shares of ports in a table that their requests fill.
//!
//! One rule holds for groups, memberships and services. While at least half of the table is free, a
//! port has no limit but its maximum. Afterwards a port that has its equal part of the table gets
//! no more, so that the rest stays for other ports. Virtual ports are charged to their physical
//! port, which a host can give as many of them as it likes.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;

/// The entries of a table that ports hold, and their bounds.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Maximum number of entries in the table.
    most: usize,
    /// Maximum number of entries of a physical port with its virtual ports.
    most_of_port: usize,
    /// Number of physical ports that share the table.
    ports: usize,
    /// Entries of each end, by its GUID.
    ends: BTreeMap<Guid, Held>,
    /// Number of entries of each physical port, by its GUID.
    held: BTreeMap<Guid, usize>,
    /// The physical ports in the order of their numbers of entries.
    by_number: BTreeSet<(usize, Guid)>,
}

/// The entries of an end.
#[derive(Clone, Copy, Debug)]
struct Held {
    entries: usize,
    /// GUID of the physical port that is charged with the entries.
    physical: Guid,
}

impl Shares {
    /// Shares in a table of at most `most` entries, `most_of_port` for one port.
    pub(crate) fn new(most: usize, most_of_port: usize) -> Shares {
        Shares {
            most,
            most_of_port,
            ports: 1,
            ends: BTreeMap::new(),
            held: BTreeMap::new(),
            by_number: BTreeSet::new(),
        }
    }

    /// Sets the number of physical ports that share the table.
    pub(crate) fn set_ports(&mut self, ports: u32) {
        self.ports = (ports as usize).max(1);
    }

    /// Whether a physical port may have one more entry, while the table has `all` entries. The
    /// caller checks whether the table is full.
    pub(crate) fn permits(&self, physical: Guid, all: usize) -> bool {
        let held = self.held.get(&physical).copied().unwrap_or(0);
        let part = (self.most / self.ports).max(1);
        held < self.most_of_port && (all < self.most / 2 || held < part)
    }

    /// GUID of the port to name after the table, with `all` entries, had no room for an entry of
    /// `physical`: `requester` if the share is used up; in a full table, the physical port that
    /// holds the most. `None` if neither is the cause.
    pub(crate) fn cause(&self, requester: Guid, physical: Guid, all: usize) -> Option<Guid> {
        if !self.permits(physical, all) {
            return Some(requester);
        }
        let holder = self.by_number.last().filter(|_| all >= self.most);
        holder.map(|&(_, guid)| guid)
    }

    /// Counts one more entry of an end. An end whose physical port is unknown is charged itself.
    pub(crate) fn add(&mut self, end: Guid) {
        let held = self.ends.entry(end).or_insert(Held {
            entries: 0,
            physical: end,
        });
        held.entries += 1;
        let physical = held.physical;
        self.change(physical, |entries| entries + 1);
    }

    /// Charges the entries of an end to its physical port.
    pub(crate) fn charge(&mut self, end: Guid, physical: Guid) {
        let Some(held) = self.ends.get_mut(&end) else {
            return;
        };
        let before = std::mem::replace(&mut held.physical, physical);
        if before != physical {
            let moved = held.entries;
            self.change(before, |entries| entries.saturating_sub(moved));
            self.change(physical, |entries| entries + moved);
        }
    }

    /// Counts one entry of an end fewer.
    pub(crate) fn remove(&mut self, end: Guid) {
        let Some(held) = self.ends.get_mut(&end) else {
            return;
        };
        held.entries -= 1;
        let Held { entries, physical } = *held;
        if entries == 0 {
            self.ends.remove(&end);
        }
        self.change(physical, |entries| entries.saturating_sub(1));
    }

    fn change(&mut self, physical: Guid, new: impl FnOnce(usize) -> usize) {
        let before = self.held.get(&physical).copied().unwrap_or(0);
        self.by_number.remove(&(before, physical));
        match new(before) {
            0 => {
                self.held.remove(&physical);
            }
            entries => {
                self.held.insert(physical, entries);
                self.by_number.insert((entries, physical));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Guid = Guid(1);
    const B: Guid = Guid(2);
    const VIRTUAL: Guid = Guid(0x101);

    #[test]
    fn port_has_no_limit_while_half_is_free_and_its_equal_part_afterwards() {
        let mut shares = Shares::new(100, 60);
        shares.set_ports(10);
        for all in 0..49 {
            assert!(shares.permits(A, all));
            shares.add(A);
        }
        assert!(shares.permits(A, 49));
        assert!(!shares.permits(A, 50), "its part is ten");
        assert_eq!(shares.cause(A, A, 50), Some(A));
        for all in 50..60 {
            assert!(shares.permits(B, all));
            shares.add(B);
        }
        assert!(!shares.permits(B, 60));
        // A port that has too many may have more once half is free again.
        assert!(shares.permits(B, 49));
    }

    #[test]
    fn port_never_has_more_than_its_maximum() {
        let mut shares = Shares::new(100, 3);
        for _ in 0..3 {
            shares.add(A);
        }
        assert!(!shares.permits(A, 3));
        shares.remove(A);
        assert!(shares.permits(A, 2));
    }

    #[test]
    fn virtual_ports_are_charged_to_their_physical_port() {
        let mut shares = Shares::new(100, 3);
        for end in [VIRTUAL, VIRTUAL, A] {
            shares.add(end);
        }
        // After a restart the physical port is unknown until the end asks for more.
        assert!(shares.permits(A, 3));
        shares.charge(VIRTUAL, A);
        assert!(!shares.permits(A, 3));
        shares.remove(VIRTUAL);
        assert!(shares.permits(A, 2));
    }

    #[test]
    fn full_table_names_the_port_that_holds_the_most() {
        let mut shares = Shares::new(4, 4);
        for end in [A, VIRTUAL, VIRTUAL, B] {
            shares.add(end);
            shares.charge(end, if end == VIRTUAL { A } else { end });
        }
        let newcomer = Guid(9);
        assert_eq!(shares.cause(newcomer, newcomer, 4), Some(A));
        assert_eq!(shares.cause(newcomer, newcomer, 3), None);
    }
}
