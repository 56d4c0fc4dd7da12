//! Parses the fields of requests.

use std::time::SystemTime;

use rsm_ids::{Guid, PortNum};
use rsm_proto::Label as _;
use rsm_proto::v1;
use rsm_proto::v1::EventKind;
use rsm_routing::netlist::host_of;
use tonic::Status;

use crate::calendar::timestamp;
use crate::error::LookupError;
use crate::limits::{MAX_FILTER_BYTES, MAX_PATHS};
use crate::model::{
    Keyed, NodeFilter, NodeKind, PortAction, PortId, PortOrder, PortState, Selector, Severity,
};
use crate::refusal::{Reason, malformed_name, refusal};
use crate::traits::Subnet;

/// Parses the name that a request gives in `field`.
pub(super) fn selector(field: &str, text: &str) -> Result<Selector, Status> {
    text.parse::<Selector>()
        .map_err(|error| malformed_name(field, &error))
}

/// The GUID of the node that a filter names; `None` if the filter is empty.
pub(super) fn node_filter(subnet: &dyn Subnet, text: &str) -> Result<Option<Guid>, Status> {
    Ok(named_node(subnet, text)?.map(|node| node.key))
}

/// The GUIDs of the nodes that a filter names: all adapters of a host, present or gone, or one node,
/// which may have left the subnet. An empty filter gives an empty list. For lists that also cover
/// nodes that have left.
pub(super) fn present_or_gone(subnet: &dyn Subnet, text: &str) -> Result<Vec<Guid>, Status> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let missing = subnet.each_missing(None, usize::MAX).items;
    let gone = missing.into_iter().filter(|one| {
        one.message.kind() == v1::MissingKind::Host && host_of(&one.message.name) == Some(text)
    });
    let mut nodes: Vec<Guid> = gone.map(|one| one.key.node).collect();
    let is_host = !nodes.is_empty();
    match subnet.node(&selector("node", text)?) {
        Err(LookupError::Gone { node, .. }) => nodes.push(node),
        Err(_) if is_host => nodes.extend(adapters(subnet, text).map(|adapter| adapter.key)),
        _ => {
            let present = named_host_or_node(subnet, text)?.into_iter();
            nodes.extend(present.map(|node| node.key));
        }
    }
    Ok(nodes)
}

/// The port that a filter names; `None` if the filter is empty.
pub(super) fn port_filter(subnet: &dyn Subnet, text: &str) -> Result<Option<PortId>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(subnet.port(&selector("port", text)?)?.key))
}

/// A filter by text; `None` if it is empty.
pub(super) fn text_filter(field: &str, text: String) -> Result<Option<String>, Status> {
    if text.len() > MAX_FILTER_BYTES {
        return Err(refusal(
            Reason::InvalidField,
            format!(
                "{field}: {} bytes are too long, at most {MAX_FILTER_BYTES} are compared",
                text.len()
            ),
        ));
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// The node that a filter names; `None` if the filter is empty.
pub(super) fn named_node(
    subnet: &dyn Subnet,
    text: &str,
) -> Result<Option<Keyed<Guid, v1::Node>>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(subnet.node(&selector("node", text)?)?))
}

/// The nodes that a filter names: all adapters of a host, or one node. An empty filter gives an
/// empty list.
pub(super) fn named_host_or_node(
    subnet: &dyn Subnet,
    text: &str,
) -> Result<Vec<Keyed<Guid, v1::Node>>, Status> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let adapters: Vec<Keyed<Guid, v1::Node>> = adapters(subnet, text).collect();
    match adapters.len() {
        0 | 1 => Ok(named_node(subnet, text)?.into_iter().collect()),
        _ => Ok(adapters),
    }
}

/// The present adapters of the host with this name.
fn adapters(subnet: &dyn Subnet, host: &str) -> impl Iterator<Item = Keyed<Guid, v1::Node>> {
    let filter = NodeFilter {
        kind: Some(NodeKind::Ca),
        description_contains: Some(host.to_owned()),
    };
    let nodes = subnet.nodes(None, usize::MAX, &filter).items.into_iter();
    nodes.filter(move |node| host_of(&node.message.description) == Some(host))
}

/// Checks the name of a node after a search for events about it has found nothing. No name can be
/// refused before the search: the history also has nodes that are neither present nor expected.
///
/// # Errors
/// Nothing has or had this name.
pub(super) fn known_place(subnet: &dyn Subnet, text: &str) -> Result<(), Status> {
    let found = text.parse().map(|selector| subnet.node(&selector));
    match found {
        Ok(Err(error @ (LookupError::NotFound { .. } | LookupError::Similar { .. }))) => {
            Err(refusal(
                Reason::NoSuchName,
                format!("node: nothing that is kept is about it, and {error}"),
            ))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A filter by kind of finding; `None` if it is empty.
pub(super) fn finding_kind(subnet: &dyn Subnet, kind: String) -> Result<Option<String>, Status> {
    let kind = text_filter("kind", kind)?;
    if let Some(kind) = &kind {
        let known = subnet.finding_kinds();
        if !known.contains(&kind.as_str()) {
            return Err(refusal(
                Reason::InvalidField,
                format!(
                    "kind: `{}` is no kind of finding, expected one of {}",
                    kind.escape_debug(),
                    known.join(", ")
                ),
            ));
        }
    }
    Ok(kind)
}

/// The maximum time by which the clock of a client may be ahead of this one, in milliseconds.
const CLOCK_SKEW_MS: u64 = 60_000;

/// Checks a time in the past, in milliseconds since the Unix epoch; 0 stands for no time.
///
/// # Errors
/// The time is in the future: nothing can have happened since.
pub(super) fn past(field: &str, at_unix_ms: u64) -> Result<u64, Status> {
    // A clock before 1970 is not set: no time can be compared with it.
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(u64::MAX, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    });
    if at_unix_ms > now.saturating_add(CLOCK_SKEW_MS) {
        return Err(refusal(
            Reason::InvalidField,
            format!(
                "{field}: {} ({at_unix_ms}) is in the future, expected a time before {}",
                timestamp(at_unix_ms),
                timestamp(now)
            ),
        ));
    }
    Ok(at_unix_ms)
}

/// Checks a span in the past, from `since` on and before `until`, as [`past`] does for one time.
///
/// # Errors
/// The errors of [`past`], and a span that ends before it begins.
pub(super) fn past_span(since_unix_ms: u64, until_unix_ms: u64) -> Result<(u64, u64), Status> {
    let since = past("since_unix_ms", since_unix_ms)?;
    let until = past("until_unix_ms", until_unix_ms)?;
    if until > 0 && until <= since {
        return Err(refusal(
            Reason::InvalidField,
            format!(
                "until_unix_ms: {} ({until}) is not after since_unix_ms, {} ({since}): nothing is between them",
                timestamp(until),
                timestamp(since)
            ),
        ));
    }
    Ok((since, until))
}

/// Parses the number of a port.
pub(super) fn port_number(number: u32) -> Result<PortNum, Status> {
    u8::try_from(number)
        .ok()
        .filter(|number| (1..=254).contains(number))
        .map(PortNum)
        .ok_or_else(|| {
            refusal(
                Reason::InvalidField,
                format!("port: {number} is out of range, expected 1 to 254"),
            )
        })
}

/// Parses a P_Key, with or without the bit of full membership.
pub(super) fn p_key(field: &str, number: u32) -> Result<u16, Status> {
    u16::try_from(number)
        .ok()
        .filter(|key| key & 0x7fff != 0)
        .ok_or_else(|| {
            let text = format!(
                "{field}: {number:#x} is no P_Key, expected 0x0001 to 0x7fff, with or without the bit 0x8000"
            );
            refusal(Reason::InvalidField, text)
        })
}

/// A filter by P_Key; `None` if it is 0.
pub(super) fn p_key_filter(field: &str, number: u32) -> Result<Option<u16>, Status> {
    (number != 0).then(|| p_key(field, number)).transpose()
}

/// Parses a service level.
pub(super) fn service_level(number: u32) -> Result<u8, Status> {
    u8::try_from(number)
        .ok()
        .filter(|number| *number < 16)
        .ok_or_else(|| {
            refusal(
                Reason::InvalidField,
                format!("service_level: {number} is out of range, expected 0 to 15"),
            )
        })
}

/// Parses a QoSClass.
pub(super) fn qos_class(number: u32) -> Result<u16, Status> {
    u16::try_from(number)
        .ok()
        .filter(|number| *number < 0x1000)
        .ok_or_else(|| {
            refusal(
                Reason::InvalidField,
                format!("qos_class: {number} is out of range, expected 0 to 4095"),
            )
        })
}

/// Parses the maximum number of paths; 0 means [`MAX_PATHS`].
pub(super) fn max_paths(number: u32) -> Result<u8, Status> {
    match u8::try_from(number) {
        Ok(0) => Ok(MAX_PATHS),
        Ok(number @ ..=MAX_PATHS) => Ok(number),
        Ok(_) | Err(_) => Err(refusal(
            Reason::InvalidField,
            format!("max_paths: {number} is out of range, expected 0 to {MAX_PATHS}"),
        )),
    }
}

/// The refusal of a number that is no value of the enum in `field`.
fn unknown(field: &str, value: i32) -> Status {
    refusal(
        Reason::InvalidField,
        format!("{field}: this server knows no value {value}; it may be older than the client"),
    )
}

/// A filter by kind of node; `None` if it is unspecified.
pub(super) fn node_kind(field: &str, value: i32) -> Result<Option<NodeKind>, Status> {
    let kind = NodeKind::try_from(value).map_err(|_| unknown(field, value))?;
    Ok(Some(kind).filter(|&kind| kind != NodeKind::Unspecified))
}

/// Checks a filter by kind of node that is combined with a single node.
///
/// # Errors
/// The node is of another kind, so that nothing passes both.
pub(super) fn of_kind(
    field: &str,
    node: Option<&Keyed<Guid, v1::Node>>,
    kind: Option<NodeKind>,
) -> Result<(), Status> {
    let label = |kind: NodeKind| NodeKind::label(kind.into()).unwrap_or_default();
    match (node, kind) {
        (Some(Keyed { key, message }), Some(kind)) if message.kind() != kind => Err(refusal(
            Reason::InvalidField,
            format!(
                "{field}: {key} is no {} but a {}, so that nothing passes both filters",
                label(kind),
                label(message.kind())
            ),
        )),
        _ => Ok(()),
    }
}

/// A filter by state of a port or link; `None` if it is unspecified.
pub(super) fn port_state(field: &str, value: i32) -> Result<Option<PortState>, Status> {
    let state = PortState::try_from(value).map_err(|_| unknown(field, value))?;
    Ok(Some(state).filter(|&state| state != PortState::Unspecified))
}

/// A filter by severity; `None` if it is unspecified.
pub(super) fn severity(field: &str, value: i32) -> Result<Option<Severity>, Status> {
    let severity = Severity::try_from(value).map_err(|_| unknown(field, value))?;
    Ok(Some(severity).filter(|&severity| severity != Severity::Unspecified))
}

/// A filter by kind of event; `None` if it is unspecified.
pub(super) fn event_kind(field: &str, value: i32) -> Result<Option<EventKind>, Status> {
    let kind = EventKind::try_from(value).map_err(|_| unknown(field, value))?;
    Ok(Some(kind).filter(|&kind| kind != EventKind::Unspecified))
}

/// Parses an action on a port.
pub(super) fn port_action(field: &str, value: i32) -> Result<PortAction, Status> {
    match PortAction::try_from(value).map_err(|_| unknown(field, value))? {
        PortAction::Unspecified => Err(unknown(field, value)),
        action => Ok(action),
    }
}

/// Parses an attribute of subnet management.
pub(super) fn smp_attribute(field: &str, value: i32) -> Result<v1::SmpAttribute, Status> {
    match v1::SmpAttribute::try_from(value) {
        Ok(v1::SmpAttribute::Unspecified) | Err(_) => Err(unknown(field, value)),
        Ok(attribute) => Ok(attribute),
    }
}

/// Parses an order of ports; an unspecified one means the order by use.
pub(super) fn port_order(field: &str, value: i32) -> Result<PortOrder, Status> {
    match PortOrder::try_from(value).map_err(|_| unknown(field, value))? {
        PortOrder::Unspecified => Ok(PortOrder::Use),
        order => Ok(order),
    }
}
