//! Shows drained parts, with the evidence whether they may be unplugged.

use std::collections::BTreeSet;

use rsm_api::model::{Keyed, PortId, Selector};
use rsm_api::resolve::resolve_host_or_part;
use rsm_api::{ControlError, LookupError, v1};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_plan::avoid::{Drained, LidsOver, NodeOrCable, Reason};

use super::api_view::api_key;
use super::avoided::{around, is_settled};
use super::published::Published;

/// Drained parts whose keys `is_wanted` accepts, in ascending order of key. The iterator examines
/// the tables for a part only when it reaches it.
pub(super) fn shown(
    published: &Published,
    is_wanted: impl Fn(PortId) -> bool,
) -> impl Iterator<Item = Keyed<PortId, v1::DrainedPart>> {
    let drained = published.snapshot.avoid.drained();
    let keyed = drained.map(|(part, drained)| (api_key(part.key()), part, drained));
    let mut wanted: Vec<_> = keyed.filter(|&(key, ..)| is_wanted(key)).collect();
    wanted.sort_by_key(|&(key, ..)| key);
    wanted.into_iter().map(move |(key, part, drained)| Keyed {
        key,
        message: message(published, part, drained),
    })
}

fn message(published: &Published, part: NodeOrCable, drained: &Drained) -> v1::DrainedPart {
    let mut message = v1::DrainedPart {
        node_guid: part.node().to_string(),
        port: match part {
            NodeOrCable::Node(_) => None,
            NodeOrCable::Port(key) => Some(key.port.0.into()),
        },
        name: drained.name.clone(),
        by: drained.by.clone(),
        since_unix_ms: drained.since_unix_ms,
        note: drained.whole_note(),
        forced: drained.forced,
        disabled: drained.disabled,
        ..v1::DrainedPart::default()
    };
    message.state = state(published, part, &mut message).into();
    message
}

/// State of a drained part. Also sets in `message` the number of table entries that lead over the
/// part.
fn state(
    published: &Published,
    part: NodeOrCable,
    message: &mut v1::DrainedPart,
) -> v1::DrainState {
    let (state, found) = evidence(published, part);
    message.tables_checked = found.tables as u64;
    message.lids_checked = found.lids as u64;
    message.lids_over = found.over.len() as u64;
    state
}

/// The state of a part, drained or not, and the LIDs that tables lead over it. All answers about
/// unplugging follow this rule: a part may be unplugged if no path of other nodes crosses it. Hosts
/// at a switch are other nodes, unless they are drained as well.
pub(super) fn evidence(published: &Published, part: NodeOrCable) -> (v1::DrainState, LidsOver) {
    let snapshot = &published.snapshot;
    if !part.is_there(&snapshot.fabric) {
        return (v1::DrainState::Away, LidsOver::default());
    }
    let plan = snapshot.plan.as_deref();
    let plan = plan.filter(|_| is_settled(snapshot, part));
    let found = plan.map(|plan| (plan, plan.lids_over(part, |switch| plan.last_table(switch))));
    let Some((plan, Some(found))) = found else {
        return (v1::DrainState::Changing, LidsOver::default());
    };
    let is_used = plan.avoided.uses(part) && snapshot.avoid.reason(part).is_some();
    let state = if is_used || part.connects_manager(&snapshot.fabric) {
        v1::DrainState::InUse
    } else if found.over.is_empty() {
        v1::DrainState::Safe
    } else {
        v1::DrainState::Carrying
    };
    (state, found)
}

/// Whether a part may be unplugged, with the operator's next step if not.
pub(super) fn unplug(published: &Published, part: NodeOrCable) -> (v1::Unplug, LidsOver) {
    let (state, over) = evidence(published, part);
    let (snapshot, fabric) = (&published.snapshot, published.fabric());
    let around = around(snapshot, part);
    let is_drained =
        |part: &NodeOrCable| matches!(snapshot.avoid.reason(*part), Some(Reason::Drained(_)));
    let is_host = |part: &NodeOrCable| {
        let node = fabric.node_of(part.node());
        node.is_some_and(|node| !node.is_switch())
    };
    let unplug = match state {
        v1::DrainState::Safe => v1::Unplug::Safe,
        v1::DrainState::InUse if part.connects_manager(fabric) => v1::Unplug::CutsOff,
        v1::DrainState::Carrying | v1::DrainState::InUse => {
            if around.iter().any(is_drained) {
                v1::Unplug::CutsOff
            } else if around.iter().any(is_host) {
                v1::Unplug::DrainHost
            } else {
                v1::Unplug::DrainFirst
            }
        }
        v1::DrainState::Away | v1::DrainState::Changing | v1::DrainState::Unspecified => {
            v1::Unplug::Changing
        }
    };
    (unplug, over)
}

/// Whether all of several parts may be unplugged: the worst answer for any of the parts.
pub(super) fn unplug_all(published: &Published, parts: &[NodeOrCable]) -> v1::Unplug {
    let all = parts.iter().map(|&part| unplug(published, part).0);
    all.max_by_key(|unplug| match unplug {
        v1::Unplug::Unspecified | v1::Unplug::Safe => 0,
        v1::Unplug::DrainFirst => 1,
        v1::Unplug::DrainHost => 2,
        v1::Unplug::Changing => 3,
        v1::Unplug::CutsOff => 4,
    })
    .unwrap_or(v1::Unplug::Changing)
}

/// A part that a name refers to, with its own name and the other end of its cable.
type NamedPart = (NodeOrCable, String, Option<PortKey>);

/// The parts that a name refers to: all adapters of a host, or one part.
pub(super) fn named_parts(
    published: &Published,
    name: &Selector,
) -> Result<Vec<NamedPart>, LookupError> {
    let found = resolve_host_or_part(&published.names, name)?.into_iter();
    Ok(found.map(|found| named_part(published, found)).collect())
}

fn named_part(published: &Published, (node, port): (Guid, Option<PortNum>)) -> NamedPart {
    let fabric = published.fabric();
    let called = fabric
        .node_of(node)
        .map_or_else(|| node.to_string(), |node| node.name());
    match port.filter(|&port| port != PortNum::ZERO) {
        None => (NodeOrCable::Node(node), called, None),
        Some(number) => {
            let key = PortKey::new(node, number);
            let peer = fabric.find_port(key).and_then(|at| fabric.port(at).peer);
            (
                NodeOrCable::Port(key),
                format!("{called} port {number}"),
                peer,
            )
        }
    }
}

/// The drained parts that a name refers to; for a host, its drained adapters. An absent part is
/// found by its GUID, or by its name at the time of the drain.
pub(super) fn drained_parts(
    published: &Published,
    name: &Selector,
) -> Result<Vec<NodeOrCable>, ControlError> {
    let avoid = &published.snapshot.avoid;
    let text = name.to_string();
    let away = avoid.drained().find(|&(part, drained)| {
        let by_guid = match part {
            NodeOrCable::Node(guid) => *name == Selector::guid(guid),
            NodeOrCable::Port(key) => {
                let port = Some(key.port);
                *name
                    == Selector::Guid {
                        guid: key.node,
                        port,
                    }
            }
        };
        by_guid || drained.name == text || drained.name.replacen(" port ", ":", 1) == text
    });
    if let Some((part, _)) = away {
        return Ok(vec![part]);
    }
    let meant = named_parts(published, name)?.into_iter();
    let found = meant.filter_map(|(part, ..)| avoid.drained_at(part, published.fabric()));
    let found: Vec<NodeOrCable> = found.collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(ControlError::Refused {
            reason: format!("`{text}` is not drained"),
        }),
    }
}

/// Messages about some drained parts, in the order of the list.
pub(super) fn shown_of(
    published: &Published,
    parts: &BTreeSet<NodeOrCable>,
) -> Vec<v1::DrainedPart> {
    let keys: BTreeSet<PortId> = parts.iter().map(|part| api_key(part.key())).collect();
    shown(published, |key| keys.contains(&key))
        .map(|part| part.message)
        .collect()
}
