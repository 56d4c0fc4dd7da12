//! The table of the ports in a segment, in the order of their values in columns.

use std::collections::HashMap;

use rsm_ids::{Guid, PortKey, PortNum};

/// Maximum number of ports in the table: nearly four times the ports of a fabric of 45,056 hosts.
/// When the table is full, new segments begin with an empty table, so that ports that have vanished
/// are dropped.
pub(crate) const MAX_PORTS: usize = 1 << 20;

/// A port of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// The port.
    pub(crate) key: PortKey,
    /// Whether the port's node is a switch.
    pub(crate) is_switch: bool,
}

/// Ports, numbered from 0 in the order in which they were first read.
#[derive(Default, Debug)]
pub(crate) struct PortTable {
    /// Ports by number.
    entries: Vec<Entry>,
    /// Number of each port.
    numbers: HashMap<PortKey, u32>,
}

impl PortTable {
    /// Number of ports.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The ports by number.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The number of a port, which is assigned if the port has none yet; `None` if the table is
    /// full.
    pub(crate) fn number(&mut self, entry: Entry) -> Option<usize> {
        let next = self.entries.len();
        if let Some(&number) = self.numbers.get(&entry.key) {
            return Some(number as usize);
        }
        if next == MAX_PORTS {
            return None;
        }
        self.numbers.insert(entry.key, next as u32);
        self.entries.push(entry);
        Some(next)
    }
}

/// Encodes entries; the first one has the number `first`.
///
/// ```text
/// first (4) { node (8) is_switch (1) ports (1) port (1)... }...
/// ```
pub(crate) fn encode(first: usize, entries: &[Entry]) -> Vec<u8> {
    let mut out = (first as u32).to_be_bytes().to_vec();
    let is_same_node =
        |a: &Entry, b: &Entry| a.key.node == b.key.node && a.is_switch == b.is_switch;
    for run in entries.chunk_by(is_same_node) {
        // The ports of a node may be in several pieces of at most 255 ports.
        for piece in run.chunks(255) {
            out.extend(piece[0].key.node.0.to_be_bytes());
            out.extend([u8::from(piece[0].is_switch), piece.len() as u8]);
            out.extend(piece.iter().map(|entry| entry.key.port.0));
        }
    }
    out
}

/// Calls `visit` with the number of each entry of an encoded port table and with the entry. Stops
/// at the end, or at the first entry that is invalid.
pub(crate) fn decode(payload: &[u8], mut visit: impl FnMut(usize, Entry)) {
    let Some((first, mut rest)) = payload.split_first_chunk::<4>() else {
        return;
    };
    let mut number = u32::from_be_bytes(*first) as usize;
    while let Some((run, after)) = rest.split_first_chunk::<10>() {
        let [node @ .., is_switch, count] = *run;
        let count = usize::from(count);
        let Some(ports) = after.get(..count) else {
            return;
        };
        for &port in ports {
            if number >= MAX_PORTS {
                return;
            }
            let entry = Entry {
                key: PortKey::new(Guid(u64::from_be_bytes(node)), PortNum(port)),
                is_switch: is_switch != 0,
            };
            visit(number, entry);
            number += 1;
        }
        rest = &after[count..];
    }
}
