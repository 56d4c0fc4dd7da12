//! What was cabled, and what of it was missing, in the store: a row of each cable, each missing port and each node.

use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{NodeType, PortState};

use super::table::{self, Rows};
use crate::expected::{Cabling, Expected, LostAt, LostEnd, LostNode, LostPort};
use crate::publish::Clock as UnixClock;
use crate::store::{ChangeSet, Persisted};
use crate::sweep::inventory::PortKey;

/// The table. Its keys are a letter, and a node's GUID or a port.
const CABLING: &str = "cabling";

const NODE: u8 = b'n';
const PORT: u8 = b'p';

/// One row.
enum Row {
    Node(Guid, LostNode),
    Port(PortKey, LostPort),
}

/// What was there at the end of the run before, all of it as missing.
pub(super) fn remembered(persisted: &Persisted) -> Cabling {
    let mut missing = Expected::default();
    for row in table::read(persisted, CABLING, decode) {
        match row {
            Row::Node(guid, node) => missing.lose_node(guid, node),
            Row::Port(key, port) => missing.lose_port(key, port),
        }
    }
    Cabling {
        fabric: Arc::default(),
        missing: Arc::new(missing),
    }
}

/// Adds what has to be written so that `persisted` has this cabling.
pub(super) fn changes(
    persisted: &Persisted,
    cabling: &Cabling,
    clock: &impl UnixClock,
    changes: &mut ChangeSet,
) {
    let mut rows = Rows::new();
    // What is there has no time: it went after the last row was written.
    let there = cabling.recalled();
    for (guid, node) in there.nodes() {
        let at = cabling.missing.node(guid).map(|node| node.at);
        rows.insert(node_key(guid), node_value(node, stamp(at, clock)));
    }
    for (key, port) in there.ports() {
        let at = cabling.missing.port(key).map(|port| port.at);
        rows.insert(port_key(key), port_value(port, stamp(at, clock)));
    }
    table::replace(persisted, CABLING, &rows, changes);
}

/// Milliseconds since the Unix epoch; 0 where the time is not known.
fn stamp(at: Option<LostAt>, clock: &impl UnixClock) -> u64 {
    match at {
        None | Some(LostAt::Unknown) => 0,
        Some(LostAt::Unix(unix_ms)) => unix_ms,
        Some(LostAt::Run(at)) => clock.unix_ms(at),
    }
}

fn lost_at(unix_ms: u64) -> LostAt {
    match unix_ms {
        0 => LostAt::Unknown,
        unix_ms => LostAt::Unix(unix_ms),
    }
}

fn node_key(guid: Guid) -> Vec<u8> {
    [&[NODE][..], &guid.0.to_be_bytes()].concat()
}

fn port_key(key: PortKey) -> Vec<u8> {
    [&[PORT][..], &port_bytes(key)].concat()
}

fn port_bytes(key: PortKey) -> [u8; 9] {
    let mut bytes = [0; 9];
    bytes[..8].copy_from_slice(&key.node.0.to_be_bytes());
    bytes[8] = key.port.0;
    bytes
}

/// Time, kind, number of end ports; of each its number, GUID and LID; the description.
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

/// Time, state, the other end.
fn port_value(port: &LostPort, unix_ms: u64) -> Vec<u8> {
    let mut value = unix_ms.to_be_bytes().to_vec();
    value.push(port.state.code());
    value.extend(port_bytes(port.peer));
    value
}

fn decode(key: &[u8], value: &[u8]) -> Option<Row> {
    let (&letter, key) = key.split_first()?;
    let mut value = Reader(value);
    let at = lost_at(value.u64()?);
    Some(match letter {
        NODE => {
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
            let guid = Guid(Reader(key).u64()?);
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
        PORT => Row::Port(
            Reader(key).port()?,
            LostPort {
                at,
                state: PortState::from_code(value.u8()?),
                peer: value.port()?,
                moved: None,
            },
        ),
        _ => return None,
    })
}

/// Takes values off the front of bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn port(&mut self) -> Option<PortKey> {
        Some(PortKey::new(Guid(self.u64()?), PortNum(self.u8()?)))
    }
}

#[cfg(test)]
mod tests {
    use rsm_mad::Time;

    use super::*;
    use crate::daemon::clock::Clock;

    #[test]
    fn what_is_missing_comes_back_with_its_time() {
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
        changes(&persisted, &cabling, &clock, &mut set);
        persisted.apply(&set);
        let recalled = remembered(&persisted).recalled();
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
        let cabling = remembered(&persisted);
        changes(&persisted, &cabling, &clock, &mut again);
        assert!(again.is_empty(), "nothing is written twice");
    }
}
