//! Stores the cabling and its missing parts: one row for each node, and one row with the node's
//! cables. A key consists of a letter and a node GUID. One row for each cable would multiply the
//! number of rows, and a row takes memory once in the database and twice beside it.
//!
//! The rows are written at the end of a pass, when ports are in their final state.

use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::wire::attr::{NodeType, PortState};
use rsm_model::expected::{Cabling, Expected, LostAt, LostEnd, LostNode, LostPort};
use rsm_store::{CABLING, ChangeSet, Namespace, Persisted};
use rsm_view::publish::UnixClock;

use super::table::{self, Rows};

/// Letter in the key of a node's row.
const NODE: u8 = b'n';
/// Letter in the key of a row with the node's cables.
const CABLES: u8 = b'c';

/// Decoded row.
enum Row {
    Node(Guid, LostNode),
    Cables(Vec<(PortKey, LostPort)>),
}

/// Cabling at the end of the earlier run, with all parts marked as missing.
pub(super) fn restored(persisted: &Persisted) -> Cabling {
    let mut missing = Expected::default();
    for row in table::read(persisted, CABLING, decode) {
        match row {
            Row::Node(guid, node) => missing.lose_node(guid, node),
            Row::Cables(ports) => {
                for (key, port) in ports {
                    missing.lose_port(key, port);
                }
            }
        }
    }
    Cabling {
        fabric: Arc::default(),
        missing: Arc::new(missing),
    }
}

/// Adds the changes that make the cabling of `persisted` equal to that of `rows`. Returns whether
/// `rows` have the table.
pub(super) fn follow(persisted: &Persisted, rows: &Persisted, changes: &mut ChangeSet) -> bool {
    let name = Namespace::new(CABLING).ok();
    let table = name.and_then(|name| rows.records.get(&name));
    if let Some(table) = table {
        table::replace(persisted, CABLING, table, changes);
    }
    table.is_some()
}

/// Adds the changes that turn the cabling `before`, which `persisted` holds, into `cabling`. If
/// `before` is `None`, compares all rows.
pub(super) fn changes(
    persisted: &Persisted,
    before: Option<&Cabling>,
    cabling: &Cabling,
    clock: &impl UnixClock,
    changes: &mut ChangeSet,
) {
    let rows = |guid: Guid| {
        let node = cabling.node(guid);
        let node = node.map(|node| node_value(&node, stamp(node.at, clock)));
        let mut cables = Vec::new();
        for (here, port) in cabling.cables_of(guid) {
            write_cable(&mut cables, here.port, &port, stamp(port.at, clock));
        }
        let cables = (!cables.is_empty()).then_some(cables);
        [(key(NODE, guid), node), (key(CABLES, guid), cables)]
    };
    match before {
        None => {
            let rows = cabling.nodes().into_iter().flat_map(rows);
            let wanted: Rows = rows
                .filter_map(|(key, value)| Some((key, value?)))
                .collect();
            table::replace(persisted, CABLING, &wanted, changes);
        }
        Some(before) => {
            for (key, value) in cabling.differing(before).into_iter().flat_map(rows) {
                table::put(persisted, CABLING, &key, value.as_deref(), changes);
            }
        }
    }
}

/// Time in milliseconds since the Unix epoch; 0 if the time is unknown.
fn stamp(at: LostAt, clock: &impl UnixClock) -> u64 {
    match at {
        // A present part has no time: if it disappears, it does so after its last row was written.
        LostAt::Unknown => 0,
        LostAt::Unix(unix_ms) => unix_ms,
        LostAt::Run(at) => clock.unix_ms(at),
    }
}

/// Converts a time that [`stamp`] returned.
fn lost_at(unix_ms: u64) -> LostAt {
    match unix_ms {
        0 => LostAt::Unknown,
        unix_ms => LostAt::Unix(unix_ms),
    }
}

/// Key of a row of a node.
fn key(letter: u8, guid: Guid) -> Vec<u8> {
    [&[letter][..], &guid.0.to_be_bytes()].concat()
}

/// Encodes a node: time, kind, number of end ports, then number, GUID and LID of each end port, and
/// the description.
fn node_value(node: &LostNode, unix_ms: u64) -> Vec<u8> {
    let mut value = unix_ms.to_be_bytes().to_vec();
    value.push(node.kind.code());
    // A node has at most 255 ports.
    value.push(node.ends.len() as u8);
    for end in &node.ends {
        value.push(end.port.0);
        value.extend(end.guid.0.to_be_bytes());
        value.extend(end.lid.0.to_be_bytes());
    }
    value.extend(node.description.as_bytes());
    value
}

/// Appends a cable of a node: port, time, state and other end.
fn write_cable(cables: &mut Vec<u8>, here: PortNum, port: &LostPort, unix_ms: u64) {
    cables.push(here.0);
    cables.extend(unix_ms.to_be_bytes());
    cables.push(port.state.code());
    cables.extend(port.peer.node.0.to_be_bytes());
    cables.push(port.peer.port.0);
}

/// Reads a cable of `node` that [`write_cable`] wrote.
fn read_cable(node: Guid, value: &mut Reader) -> Option<(PortKey, LostPort)> {
    let here = PortKey::new(node, PortNum(value.u8()?));
    let port = LostPort {
        at: lost_at(value.u64()?),
        state: PortState::from_code(value.u8()?),
        peer: PortKey::new(Guid(value.u64()?), PortNum(value.u8()?)),
        moved: None,
    };
    Some((here, port))
}

/// Decodes a row; `None` if the row is invalid.
fn decode(key: &[u8], value: &[u8]) -> Option<Row> {
    let (&letter, key) = key.split_first()?;
    let guid = Guid(u64::from_be_bytes(key.try_into().ok()?));
    let mut value = Reader(value);
    Some(match letter {
        NODE => {
            let at = lost_at(value.u64()?);
            let kind = NodeType::from_code(value.u8()?);
            let ends = value.u8()?;
            let ends = (0..ends).map(|_| {
                Some(LostEnd {
                    port: PortNum(value.u8()?),
                    guid: Guid(value.u64()?),
                    lid: Lid(u16::from_be_bytes(value.take()?)),
                })
            });
            let ends = ends.collect::<Option<Vec<LostEnd>>>()?;
            let description = String::from_utf8_lossy(value.0).into_owned();
            Row::Node(
                guid,
                LostNode {
                    kind,
                    description,
                    at,
                    ends,
                },
            )
        }
        CABLES => {
            let mut ports = Vec::new();
            while !value.0.is_empty() {
                ports.push(read_cable(guid, &mut value)?);
            }
            Row::Cables(ports)
        }
        _ => return None,
    })
}

/// Reads values from the front of a byte slice.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// Splits off `N` bytes; `None` if there are fewer.
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads one byte.
    fn u8(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    /// Reads a big-endian number.
    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use rsm_mad::Time;
    use rsm_model::expected::Accept;
    use rsm_model::fabric::{Delta, Fabric};
    use rsm_routing::generate::generate;

    use super::*;
    use crate::daemon::clock::Clock;

    #[test]
    fn missing_parts_are_restored_with_their_time() {
        let host = PortKey::new(Guid(7), PortNum(1));
        let leaf = PortKey::new(Guid(2), PortNum(9));
        let mut missing = Expected::default();
        let at = LostAt::Run(Time::from_nanos(5_000_000));
        let node = LostNode {
            kind: NodeType::Ca,
            description: "gpu-07".to_owned(),
            at,
            ends: vec![LostEnd {
                port: PortNum(1),
                guid: Guid(8),
                lid: Lid(70),
            }],
        };
        missing.lose_node(host.node, node);
        for (key, peer) in [(host, leaf), (leaf, host)] {
            let port = LostPort {
                peer,
                at,
                state: PortState::Active,
                moved: None,
            };
            missing.lose_port(key, port);
        }
        let cabling = Cabling {
            fabric: Arc::default(),
            missing: Arc::new(missing),
        };
        let clock = Clock::start();
        let mut persisted = Persisted::default();
        let mut set = ChangeSet::new();
        changes(&persisted, None, &cabling, &clock, &mut set);
        persisted.apply(&set);
        let recalled = restored(&persisted).recalled();
        let at = LostAt::Unix(UnixClock::unix_ms(&clock, Time::from_nanos(5_000_000)));
        let node = recalled.node(host.node).expect("it is missing");
        assert_eq!((node.at, &*node.description), (at, "gpu-07"));
        assert_eq!(node.ends[0].lid, Lid(70));
        let port = recalled.port(leaf).expect("it is missing");
        assert_eq!(
            (port.at, port.peer, port.state),
            (at, host, PortState::Active)
        );
        let mut again = ChangeSet::new();
        let cabling = restored(&persisted);
        changes(&persisted, None, &cabling, &clock, &mut again);
        assert!(again.is_empty(), "nothing is written twice");
    }

    #[test]
    fn incremental_changes_equal_a_full_comparison() {
        let clock = Clock::start();
        let whole = Arc::new(Fabric::of_netlist(
            &generate("fat-tree:k=4,levels=3").unwrap(),
        ));
        let cables: Vec<PortKey> = whole
            .nodes()
            .flat_map(|node| node.cables())
            .map(|(here, _)| here)
            .collect();
        let mut before = Cabling {
            fabric: whole.clone(),
            missing: Arc::default(),
        };
        let mut persisted = Persisted::default();
        let mut set = ChangeSet::new();
        changes(&persisted, None, &before, &clock, &mut set);
        persisted.apply(&set);
        for step in 1..12usize {
            // In each round some cables disappear and some return; in every third round an operator
            // accepts the missing cables.
            let gone = cables
                .iter()
                .copied()
                .skip(step * 5)
                .step_by(17 + step)
                .take(step % 4);
            let fabric = Arc::new(whole.without(&gone.collect()));
            let mut missing = Expected::clone(&before.missing);
            let delta = Delta::between(&before.fabric, &fabric);
            let now = Time::from_nanos(step as u64 * 1_000_000_000);
            missing.update(&delta, &before.fabric, &fabric, now);
            if step % 3 == 0 {
                missing.accept(Accept::Missing, &fabric);
            }
            let after = Cabling {
                fabric,
                missing: Arc::new(missing),
            };
            let mut by_difference = ChangeSet::new();
            changes(
                &persisted,
                Some(&before),
                &after,
                &clock,
                &mut by_difference,
            );
            persisted.apply(&by_difference);
            let mut rest = ChangeSet::new();
            changes(&persisted, None, &after, &clock, &mut rest);
            assert!(rest.is_empty(), "step {step}: {rest:?}");
            before = after;
        }
    }
}
