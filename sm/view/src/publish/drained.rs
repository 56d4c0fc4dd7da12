//! Shows drained parts, with the evidence whether they may be unplugged.

use std::collections::BTreeSet;

use rsm_api::model::{Keyed, PortId, Selector};
use rsm_api::resolve::resolve_node_or_port;
use rsm_api::{ControlError, LookupError, v1};
use rsm_ids::{PortKey, PortNum};
use rsm_plan::avoid::{Drained, Part};

use super::api_view::api_key;
use super::avoided::is_written;
use super::published::Published;

/// Drained parts whose keys `is_wanted` accepts, in ascending order of key. The tables are read
/// when each part is taken.
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

fn message(published: &Published, part: Part, drained: &Drained) -> v1::DrainedPart {
    let mut message = v1::DrainedPart {
        node_guid: part.node().to_string(),
        port: match part {
            Part::Node(_) => None,
            Part::Port(key) => Some(key.port.0.into()),
        },
        name: drained.name.clone(),
        by: drained.by.clone(),
        since_unix_ms: drained.since_unix_ms,
        note: drained.note.clone(),
        forced: drained.forced,
        disabled: drained.disabled,
        ..v1::DrainedPart::default()
    };
    message.state = state(published, part, &mut message).into();
    message
}

/// State of a drained part. Also sets in `message` the number of table entries that lead over the
/// part.
fn state(published: &Published, part: Part, message: &mut v1::DrainedPart) -> v1::DrainState {
    let snapshot = &published.snapshot;
    if !part.is_there(&snapshot.fabric) {
        return v1::DrainState::Away;
    }
    let plan = snapshot.plan.as_deref();
    let plan = plan.filter(|_| is_written(snapshot, part));
    let found = plan.map(|plan| (plan, plan.lids_over(part, |switch| plan.last_table(switch))));
    let Some((plan, Some(found))) = found else {
        return v1::DrainState::Changing;
    };
    message.tables_checked = found.tables as u64;
    message.lids_checked = found.lids as u64;
    message.lids_over = found.over.len() as u64;
    if plan.avoided.uses(part) {
        v1::DrainState::InUse
    } else if found.over.is_empty() {
        v1::DrainState::Safe
    } else {
        v1::DrainState::Carrying
    }
}

/// The part that a name refers to, with its own name and the other end of its cable.
pub(super) fn part(
    published: &Published,
    name: &Selector,
) -> Result<(Part, String, Option<PortKey>), LookupError> {
    let (node, port) = resolve_node_or_port(&published.names, name)?;
    let fabric = published.fabric();
    let called = fabric
        .node_of(node)
        .map_or_else(|| node.to_string(), |node| node.name());
    let port = port.filter(|&port| port != PortNum::ZERO);
    Ok(match port {
        None => (Part::Node(node), called, None),
        Some(number) => {
            let key = PortKey::new(node, number);
            let peer = fabric.find_port(key).and_then(|at| fabric.port(at).peer);
            (Part::Port(key), format!("{called} port {number}"), peer)
        }
    })
}

/// The drained part that a name refers to. An absent part is found by its GUID, or by its name at
/// the time of the drain.
pub(super) fn drained_part(published: &Published, name: &Selector) -> Result<Part, ControlError> {
    let avoid = &published.snapshot.avoid;
    let text = name.to_string();
    let away = avoid.drained().find(|&(part, drained)| {
        let by_guid = match part {
            Part::Node(guid) => *name == Selector::guid(guid),
            Part::Port(key) => {
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
        return Ok(part);
    }
    let (meant, ..) = part(published, name)?;
    let found = avoid.drained_at(meant, published.fabric());
    found.ok_or_else(|| ControlError::Refused {
        reason: format!("`{text}` is not drained"),
    })
}

/// Messages about some drained parts, in the order of the list.
pub(super) fn shown_of(published: &Published, parts: &BTreeSet<Part>) -> Vec<v1::DrainedPart> {
    let keys: BTreeSet<PortId> = parts.iter().map(|part| api_key(part.key())).collect();
    shown(published, |key| keys.contains(&key))
        .map(|part| part.message)
        .collect()
}
