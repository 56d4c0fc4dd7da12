//! Stores drained parts, one row for each order about a part.

use std::collections::BTreeMap;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_plan::avoid::{Avoid, Drained, NodeOrCable, Reason};
use rsm_store::{ChangeSet, Persisted};

use super::table::{self, Rows};

/// Table of drained parts. A key consists of a letter, a node GUID and a port; of an order beside
/// others about the same part, also of its number. Earlier versions keep the rows of such orders
/// and do not read them.
const DRAINED: &str = "drained";

/// Flag: the operator accepted that the drain cuts off ports.
const FORCED: u8 = 1;

/// Flag: the port is disabled.
const DISABLED: u8 = 2;

/// Letter of a drained node, whose port is 0.
const NODE: u8 = b'n';

/// Letter of a drained port.
const PORT: u8 = b'p';

/// Drained parts in the store. Logs and skips invalid rows.
pub(super) fn restored(persisted: &Persisted) -> Avoid {
    let mut avoid = Avoid::default();
    for (part, drained) in table::read(persisted, DRAINED, decode) {
        let parts = BTreeMap::from([(part, Reason::Drained(drained))]);
        if let Err(error) = avoid.add(&parts) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a drained part is forgotten"
            );
        }
    }
    avoid
}

/// Adds the changes after which `persisted` holds these drained parts.
pub(super) fn changes(persisted: &Persisted, avoid: &Avoid, changes: &mut ChangeSet) {
    let orders = avoid.drained().flat_map(|(part, drained)| {
        let orders = (0..).zip(drained.orders());
        orders.map(move |(number, order)| (key(part, number), encode(order)))
    });
    let rows: Rows = orders.collect();
    let is_readable = |key: &[u8], value: &[u8]| decode(key, value).is_some();
    table::replace_readable(persisted, DRAINED, &rows, is_readable, changes);
}

/// Descriptions of the rows that cannot be read, for operators.
pub(super) fn unreadable(persisted: &Persisted) -> Vec<String> {
    let rows = table::rows_of(persisted, DRAINED);
    let unread = rows.filter(|(key, value)| decode(key, value).is_none());
    { unread }
        .map(|(key, _)| format!("the drained part of record {}", hex::encode(key)))
        .collect()
}

/// Key of the row of an order about a part; the first order has the number 0.
fn key(part: NodeOrCable, number: u8) -> Vec<u8> {
    let kind = match part {
        NodeOrCable::Node(_) => NODE,
        NodeOrCable::Port(_) => PORT,
    };
    let number = Some(number).filter(|&number| number > 0);
    [&[kind][..], &port(part.key()), number.as_slice()].concat()
}

/// Encodes a node GUID (8 bytes, big-endian) and a port number (1).
fn port(key: PortKey) -> [u8; 9] {
    let mut bytes = [0; 9];
    bytes[..8].copy_from_slice(&key.node.0.to_be_bytes());
    bytes[8] = key.port.0;
    bytes
}

/// Encodes, in big-endian order: the time (8 bytes), the flags FORCED and DISABLED (1), whether the
/// peer is known (1), the peer (9), then operator, note and name, each after its length (2).
fn encode(drained: &Drained) -> Vec<u8> {
    let none = PortKey::new(Guid::ZERO, PortNum::ZERO);
    let mut value = drained.since_unix_ms.to_be_bytes().to_vec();
    let flag = |holds, bit| if holds { bit } else { 0 };
    value.push(flag(drained.forced, FORCED) | flag(drained.disabled, DISABLED));
    value.push(u8::from(drained.peer.is_some()));
    value.extend(port(drained.peer.unwrap_or(none)));
    for text in [&drained.by, &drained.note, &drained.name] {
        table::write_text(text, &mut value);
    }
    value
}

/// Decodes a row; `None` if the row is invalid.
fn decode(key: &[u8], value: &[u8]) -> Option<(NodeOrCable, Drained)> {
    let (&kind, rest) = key.split_first().filter(|(_, rest)| rest.len() <= 10)?;
    let (at, _number) = rest.split_first_chunk::<9>()?;
    let at = read_port(at)?;
    let part = match kind {
        NODE => NodeOrCable::Node(at.node),
        PORT => NodeOrCable::Port(at),
        _ => return None,
    };
    let (since, value) = value.split_first_chunk()?;
    let (&[flags, has_peer], value) = value.split_first_chunk()?;
    let (peer, value) = value.split_first_chunk::<9>()?;
    let (by, value) = table::read_text(value)?;
    let (note, value) = table::read_text(value)?;
    let (name, value) = table::read_text(value)?;
    let drained = Drained {
        note,
        forced: flags & FORCED != 0,
        disabled: flags & DISABLED != 0,
        name,
        peer: read_port(peer).filter(|_| has_peer != 0),
        ..Drained::new(by, u64::from_be_bytes(*since))
    };
    value.is_empty().then_some((part, drained))
}

/// Decodes a port that [`port`] encoded; `None` if the bytes are invalid.
fn read_port(bytes: &[u8]) -> Option<PortKey> {
    let (guid, port) = bytes.split_first_chunk()?;
    let &[port] = port else { return None };
    Some(PortKey::new(Guid(u64::from_be_bytes(*guid)), PortNum(port)))
}

#[cfg(test)]
mod tests {
    use rsm_store::Namespace;

    use super::*;

    #[test]
    fn stored_drains_are_restored_and_unreadable_rows_are_kept() {
        let drained = |peer| {
            Reason::Drained(Drained {
                note: "ticket 7".to_owned(),
                forced: true,
                name: "leaf-03 port 7".to_owned(),
                peer,
                disabled: peer.is_some(),
                ..Drained::new("alice", 1_700_000_000_000)
            })
        };
        let here = PortKey::new(Guid(3), PortNum(7));
        let mut avoid = Avoid::default();
        let parts = BTreeMap::from([
            (NodeOrCable::Node(Guid(5)), drained(None)),
            (
                NodeOrCable::Port(here),
                drained(Some(PortKey::new(Guid(9), PortNum(1)))),
            ),
        ]);
        avoid.add(&parts).expect("there is room");
        // Bob drains the cable as well: his order is beside the one of alice.
        let Reason::Drained(alice) = drained(None) else {
            unreachable!("the part is drained");
        };
        let by = "bob".to_owned();
        let bob = Reason::Drained(Drained { by, ..alice });
        let parts = BTreeMap::from([(NodeOrCable::Port(here), bob)]);
        avoid.add(&parts).expect("there is room");
        let orders = avoid.drained().flat_map(|(_, drained)| drained.orders());
        assert_eq!(orders.count(), 3);
        let mut persisted = Persisted::default();
        let change = |persisted: &Persisted, avoid: &Avoid| {
            let mut set = ChangeSet::new();
            changes(persisted, avoid, &mut set);
            set
        };
        persisted.apply(&change(&persisted, &avoid));
        assert_eq!(restored(&persisted), avoid);
        assert!(change(&persisted, &avoid).is_empty());
        let namespace = Namespace::new(DRAINED).expect("a name");
        let mut broken = ChangeSet::new();
        broken.set_record(&namespace, b"x", b"").expect("room");
        broken
            .set_record(&namespace, &key(NodeOrCable::Node(Guid(6)), 0), &[0; 20])
            .expect("room");
        persisted.apply(&broken);
        assert_eq!(restored(&persisted), avoid);
        persisted.apply(&change(&persisted, &Avoid::default()));
        // Rows that cannot be read are kept, because a later version may have written them.
        assert_eq!(unreadable(&persisted).len(), 2);
        assert_eq!(persisted.len(), 2);
    }
}
