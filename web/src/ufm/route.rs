//! Parses the route from method, path and query.

use axum::http::{Method, StatusCode};
use rsm_api::access::Need;

use super::body::{p_key, unescaped};
use super::{Refused, bad};

/// A request to the interface.
#[derive(Debug, PartialEq)]
pub(super) enum Route {
    /// A request that reads.
    Read(Reading),
    /// A request that changes partitions.
    Change(Change),
}

/// A request that reads.
#[derive(Debug, PartialEq)]
pub(super) enum Reading {
    /// The version of UFM.
    Version,
    /// The configuration of the subnet manager.
    Conf,
    /// The ports.
    Ports(PortFilter),
    /// All partitions, or one.
    Pkeys {
        /// The P_Key of the one partition; `None` for all.
        of: Option<u16>,
        /// The parts of the answer.
        shown: Shown,
    },
}

/// The ports that an answer includes.
#[derive(Debug, PartialEq, Eq, Clone, Copy, Default)]
pub(super) struct PortFilter {
    /// Only ports of this kind of system.
    pub(super) system: Option<System>,
    /// Whether only Active ports are included.
    pub(super) active: bool,
}

/// A kind of system.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum System {
    /// A channel adapter.
    Computer,
    /// A switch.
    Switch,
    /// A router.
    Router,
}

/// The parts of an answer about partitions.
#[derive(Debug, PartialEq, Eq, Clone, Copy, Default)]
pub(super) struct Shown {
    /// Whether members are shown.
    pub(super) guids: bool,
    /// Whether quality of service is shown.
    pub(super) qos: bool,
}

/// A request that changes partitions. Values that are not here are in the body.
#[derive(Debug, PartialEq)]
pub(super) enum Change {
    /// Adds members, and creates the partition if it does not exist.
    Add,
    /// Makes these the members and no others, and creates the partition if it does not exist.
    Replace,
    /// Creates a partition without members.
    AddEmpty,
    /// Adds the ports of hosts.
    AddHosts,
    /// Removes members.
    RemoveGuids,
    /// Removes the members in a list of GUIDs.
    RemoveGuidsOf(u16, String),
    /// Removes the ports of the hosts in a list.
    RemoveHostsOf(u16, String),
    /// Deletes a partition.
    Delete(u16),
    /// Sets the quality of service.
    Qos,
}

impl Route {
    /// Parses the route of a request; `path` is the part after the prefix.
    pub(super) fn of(method: &Method, path: &str, query: &str) -> Result<Route, Refused> {
        let path = path.trim_matches('/');
        let parts: Vec<&str> = path.split('/').collect();
        let reads = *method == Method::GET;
        let verb = method.as_str();
        let route = match (verb, &parts[..]) {
            ("GET", ["app", "ufm_version"]) => Route::Read(Reading::Version),
            ("GET", ["app", "smconf"]) => Route::Read(Reading::Conf),
            ("GET", ["resources", "ports"]) => Route::Read(Reading::Ports(port_filter(query)?)),
            ("GET", ["resources", "pkeys"]) => Route::Read(Reading::Pkeys {
                of: None,
                shown: shown(query)?,
            }),
            ("GET", ["resources", "pkeys", key]) => Route::Read(Reading::Pkeys {
                of: Some(p_key(key)?),
                shown: shown(query)?,
            }),
            ("POST", ["resources", "pkeys"]) => Route::Change(Change::Add),
            ("PUT", ["resources", "pkeys"]) => Route::Change(Change::Replace),
            ("POST", ["resources", "pkeys", "add"]) => Route::Change(Change::AddEmpty),
            ("POST", ["resources", "pkeys", "hosts"]) => Route::Change(Change::AddHosts),
            ("PUT" | "POST", ["resources", "pkeys", "qos_conf"]) => Route::Change(Change::Qos),
            ("POST", ["actions", "remove_guids_from_pkey"]) => Route::Change(Change::RemoveGuids),
            ("DELETE", ["resources", "pkeys", key]) => Route::Change(Change::Delete(p_key(key)?)),
            ("DELETE", ["resources", "pkeys", key, "guids", list]) => {
                Route::Change(Change::RemoveGuidsOf(p_key(key)?, unescaped(list)?))
            }
            ("DELETE", ["resources", "pkeys", key, "hosts", list]) => {
                Route::Change(Change::RemoveHostsOf(p_key(key)?, unescaped(list)?))
            }
            _ => {
                let place = if reads { "path" } else { "method and path" };
                let text =
                    format!("rsm has nothing of UFM at this {place}: see its page on tenancy");
                return Err((StatusCode::NOT_FOUND, text));
            }
        };
        Ok(route)
    }

    /// The right that the route needs.
    pub(super) fn need(&self) -> Need {
        match self {
            Route::Read(Reading::Pkeys { .. } | Reading::Version) => Need::SeePartitions,
            Route::Read(Reading::Conf | Reading::Ports(_)) => Need::Read,
            Route::Change(_) => Need::ChangePartitions,
        }
    }
}

/// The name and value pairs of a query; parameters that rsm does not know have no effect.
fn pairs(query: &str) -> Result<Vec<(String, String)>, Refused> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((unescaped(name)?, unescaped(value)?))
    });
    pairs.collect()
}

fn is_true(value: &str) -> bool {
    value.eq_ignore_ascii_case("true")
}

fn shown(query: &str) -> Result<Shown, Refused> {
    let mut shown = Shown::default();
    for (name, value) in pairs(query)? {
        match name.as_str() {
            "guids_data" => shown.guids = is_true(&value),
            "qos_conf" => shown.qos = is_true(&value),
            _ => {}
        }
    }
    Ok(shown)
}

fn port_filter(query: &str) -> Result<PortFilter, Refused> {
    let mut filter = PortFilter::default();
    for (name, value) in pairs(query)? {
        match name.as_str() {
            "active" => filter.active = is_true(&value),
            "sys_type" => {
                filter.system = Some(match value.to_ascii_lowercase().as_str() {
                    "computer" => System::Computer,
                    "switch" => System::Switch,
                    "router" => System::Router,
                    _ => return Err(bad("sys_type: expected Computer, Switch or Router")),
                });
            }
            _ => {}
        }
    }
    Ok(filter)
}
