//! Missing nodes and cables, as they are shown and looked up.

use rsm_api::model::{Keyed, MissingKind, PortId, Selector};
use rsm_api::{LookupError, timestamp, v1};
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::attr::{PortInfo, PortPhysicalState};

use super::api_view::{api_key, shown_state};
use crate::core::snapshot::Snapshot;
use crate::expected::{self, LostAt, LostEnd, Missing};
use crate::fabric::Fabric;

/// A missing node, with its description.
pub(super) struct Gone {
    guid: Guid,
    description: String,
    ends: Vec<LostEnd>,
    place: String,
    until: String,
}

impl Gone {
    /// The node, with the port where `selector` names one of this node's.
    pub(super) fn named(&self, selector: &Selector) -> Option<(Guid, Option<PortNum>)> {
        let end = |is_it: &dyn Fn(&LostEnd) -> bool| {
            let end = self.ends.iter().find(|end| is_it(end))?;
            Some((self.guid, Some(end.port)))
        };
        match selector {
            Selector::Guid { guid, port } if *guid == self.guid => Some((self.guid, *port)),
            Selector::Guid { guid, port: None } => end(&|end| end.guid == *guid),
            Selector::Guid { .. } => None,
            Selector::Lid(lid) => end(&|end| end.lid == *lid && *lid != Lid::NONE),
            Selector::Gid(gid) => end(&|end| end.guid == gid.guid()),
            Selector::Description(text) if *text == self.description => Some((self.guid, None)),
            Selector::Description(text) => {
                let (name, port) = Selector::split_port(text)?;
                (name == self.description).then_some((self.guid, Some(port)))
            }
        }
    }

    /// The answer to a lookup of the node.
    pub(super) fn error(&self, selector: &Selector) -> LookupError {
        LookupError::Gone {
            selector: selector.to_string(),
            place: self.place.clone(),
            until: self.until.clone(),
        }
    }
}

/// Every missing node. `unix_ms` converts a time of this run to Unix time.
pub(super) fn gone(snapshot: &Snapshot, unix_ms: &dyn Fn(Time) -> u64) -> Vec<Gone> {
    let (expected, fabric) = (&snapshot.expected, &snapshot.fabric);
    let nodes = expected
        .nodes()
        .filter(|(guid, _)| fabric.find(*guid).is_none());
    nodes
        .map(|(guid, node)| {
            let first = expected.ports_of(guid).next();
            Gone {
                guid,
                description: node.description.clone(),
                ends: node.ends.clone(),
                place: first.map_or_else(
                    || "a place that is not known".to_owned(),
                    |(_, port)| expected.port_name(fabric, port.peer),
                ),
                until: lost_unix_ms(node.at, unix_ms)
                    .map_or_else(|| "before this start of rsm".to_owned(), timestamp),
            }
        })
        .collect()
}

/// Every missing node and cable, by ascending key.
pub(super) fn shown(
    snapshot: &Snapshot,
    unix_ms: &dyn Fn(Time) -> u64,
) -> Vec<Keyed<PortId, v1::Missing>> {
    let missing = snapshot.expected.missing(&snapshot.fabric);
    let shown = missing.into_iter().map(|missing| Keyed {
        key: api_key(missing.key),
        message: v1::Missing {
            node_guid: missing.key.node.to_string(),
            port: (missing.key.port != PortNum::ZERO).then(|| missing.key.port.0.into()),
            kind: kind(missing.kind).into(),
            place: missing.place(),
            lost_unix_ms: lost_unix_ms(missing.at, unix_ms),
            last_state: shown_state(missing.state).into(),
            cables: missing.cables.len() as u64,
            hosts_behind: missing.hosts_behind as u64,
            moved_routes: missing.moved,
            seen: seen(&snapshot.fabric, &missing),
            name: missing.name,
            left: missing.left,
        },
    });
    shown.collect()
}

/// The present state of the other end of the first cable that is there.
fn seen(fabric: &Fabric, missing: &Missing) -> String {
    let mut far = missing.cables.iter().zip(&missing.peers);
    let far = far.find_map(|(&(_, far), name)| Some((fabric.find_port(far)?, name)));
    let Some((at, name)) = far else {
        return "the switch at the other end is gone as well".to_owned();
    };
    let place = format!("{name}:{}", at.port);
    let port = fabric.port(at);
    let state = port.info.as_ref().map(PortInfo::port_physical_state);
    match state {
        _ if port.up && port.peer.is_none() => format!(
            "the link at {place} is up and no node answers behind it: the adapter or its firmware hangs"
        ),
        _ if port.up => format!("{place} leads elsewhere now: it was cabled anew"),
        Some(PortPhysicalState::Disabled) => format!("{place} is disabled"),
        Some(PortPhysicalState::PortConfigurationTraining) => {
            format!("the link at {place} trains and does not come up: cable or optics")
        }
        Some(PortPhysicalState::Sleep) => format!("{place} sleeps"),
        _ => format!("no signal at {place}: no power, or the cable is out"),
    }
}

fn lost_unix_ms(at: LostAt, unix_ms: &dyn Fn(Time) -> u64) -> Option<u64> {
    match at {
        LostAt::Unknown => None,
        LostAt::Unix(unix_ms) => Some(unix_ms),
        LostAt::Run(at) => Some(unix_ms(at)),
    }
}

fn kind(kind: expected::MissingKind) -> MissingKind {
    match kind {
        expected::MissingKind::Switch => MissingKind::Switch,
        expected::MissingKind::Cable => MissingKind::Cable,
        expected::MissingKind::Host => MissingKind::Host,
        expected::MissingKind::HostCable => MissingKind::HostCable,
    }
}
