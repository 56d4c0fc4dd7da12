//! Parses the fields of requests.

use rsm_ids::{Guid, PortNum};
use tonic::Status;

use crate::limits::{MAX_FILTER_BYTES, MAX_PATHS};
use crate::model::{NodeKind, PortId, PortOrder, PortState, Selector, Severity};
use crate::traits::Subnet;

/// The name that a request gives in `field`.
pub(super) fn selector(field: &str, text: &str) -> Result<Selector, Status> {
    text.parse::<Selector>()
        .map_err(|error| Status::invalid_argument(format!("{field}: {error}")))
}

/// The GUID of the node that a filter names; none where the filter is empty.
pub(super) fn node_filter(subnet: &dyn Subnet, text: &str) -> Result<Option<Guid>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(subnet.node(&selector("node", text)?)?.key))
}

/// The port that a filter names; none where the filter is empty.
pub(super) fn port_filter(subnet: &dyn Subnet, text: &str) -> Result<Option<PortId>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(subnet.port(&selector("port", text)?)?.key))
}

/// A filter by text; none where it is empty.
pub(super) fn text_filter(field: &str, text: String) -> Result<Option<String>, Status> {
    if text.len() > MAX_FILTER_BYTES {
        return Err(Status::invalid_argument(format!(
            "{field}: {} bytes are too long, at most {MAX_FILTER_BYTES} are compared",
            text.len()
        )));
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// The number of a port.
pub(super) fn port_number(number: u32) -> Result<PortNum, Status> {
    u8::try_from(number)
        .ok()
        .filter(|number| (1..=254).contains(number))
        .map(PortNum)
        .ok_or_else(|| {
            Status::invalid_argument(format!("port: {number} is out of range, expected 1 to 254"))
        })
}

/// A P_Key, with or without the bit of full membership.
pub(super) fn p_key(field: &str, number: u32) -> Result<u16, Status> {
    u16::try_from(number)
        .ok()
        .filter(|key| key & 0x7fff != 0)
        .ok_or_else(|| {
            Status::invalid_argument(format!(
                "{field}: {number:#x} is no P_Key, expected 0x0001 to 0x7fff, with or without the bit 0x8000"
            ))
        })
}

/// A filter by P_Key; none where it is 0.
pub(super) fn p_key_filter(field: &str, number: u32) -> Result<Option<u16>, Status> {
    (number != 0).then(|| p_key(field, number)).transpose()
}

/// A service level.
pub(super) fn service_level(number: u32) -> Result<u8, Status> {
    u8::try_from(number)
        .ok()
        .filter(|number| *number < 16)
        .ok_or_else(|| {
            Status::invalid_argument(format!(
                "service_level: {number} is out of range, expected 0 to 15"
            ))
        })
}

/// A QoSClass.
pub(super) fn qos_class(number: u32) -> Result<u16, Status> {
    u16::try_from(number)
        .ok()
        .filter(|number| *number < 0x1000)
        .ok_or_else(|| {
            Status::invalid_argument(format!(
                "qos_class: {number} is out of range, expected 0 to 4095"
            ))
        })
}

/// The largest number of paths; 0 stands for [`MAX_PATHS`].
pub(super) fn max_paths(number: u32) -> Result<u8, Status> {
    let number = u8::try_from(number)
        .ok()
        .filter(|number| *number <= MAX_PATHS);
    match number {
        Some(0) => Ok(MAX_PATHS),
        Some(number) => Ok(number),
        None => Err(Status::invalid_argument(format!(
            "max_paths: expected 0 to {MAX_PATHS}"
        ))),
    }
}

fn unknown(field: &str, value: i32) -> Status {
    Status::invalid_argument(format!(
        "{field}: this server knows no value {value}; it may be older than the client"
    ))
}

/// A filter by kind of node; none where it is unspecified.
pub(super) fn node_kind(field: &str, value: i32) -> Result<Option<NodeKind>, Status> {
    let kind = NodeKind::try_from(value).map_err(|_| unknown(field, value))?;
    Ok(Some(kind).filter(|&kind| kind != NodeKind::Unspecified))
}

/// A filter by state of a port or link; none where it is unspecified.
pub(super) fn port_state(field: &str, value: i32) -> Result<Option<PortState>, Status> {
    let state = PortState::try_from(value).map_err(|_| unknown(field, value))?;
    Ok(Some(state).filter(|&state| state != PortState::Unspecified))
}

/// A filter by severity; none where it is unspecified.
pub(super) fn severity(field: &str, value: i32) -> Result<Option<Severity>, Status> {
    let severity = Severity::try_from(value).map_err(|_| unknown(field, value))?;
    Ok(Some(severity).filter(|&severity| severity != Severity::Unspecified))
}

/// An order of ports; by use where it is unspecified.
pub(super) fn port_order(field: &str, value: i32) -> Result<PortOrder, Status> {
    match PortOrder::try_from(value).map_err(|_| unknown(field, value))? {
        PortOrder::Unspecified => Ok(PortOrder::Use),
        order => Ok(order),
    }
}
