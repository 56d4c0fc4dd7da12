//! Parses the route from method, path and query.

use axum::http::{Method, StatusCode};
use rsm_api::access::Need;

use super::body::{form_unescaped, p_key, unescaped};
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
    /// All ports that the filter passes.
    Ports(PortFilter),
    /// Cables; with the name or GUID of a system, only its cables.
    Links(Option<String>),
    /// Switches, adapters and routers; with a kind, only systems of this kind.
    Systems(Option<System>),
    /// Ports that routes go around.
    UnhealthyPorts,
    /// The latest changes of nodes and cables.
    Events,
    /// The latest jobs, or the job with this number.
    Jobs(Option<u64>),
    /// All partitions, or one partition.
    Pkeys {
        /// The P_Key of the partition; `None` for all partitions.
        of: Option<u16>,
        /// The parts of the answer.
        shown: Shown,
    },
}

/// The ports of an answer.
#[derive(Debug, PartialEq, Eq, Clone, Default)]
pub(super) struct PortFilter {
    /// The kind of system; `None` for all kinds.
    pub(super) system: Option<System>,
    /// The name or GUID of a system; `None` for all systems.
    pub(super) of: Option<String>,
    /// Whether only Active ports are included.
    pub(super) active: bool,
}

/// A kind of system.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum System {
    /// A channel adapter.
    Computer,
    /// A switch of the fabric.
    Switch,
    /// A router of the fabric.
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
    /// Replaces all members by the given members, and creates the partition if it does not exist.
    Replace,
    /// Creates a partition without members.
    AddEmpty,
    /// Adds the ports of hosts.
    AddHosts,
    /// Removes members from a partition.
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
            ("GET", ["resources", "links"]) => Route::Read(Reading::Links(links_of(query)?)),
            ("GET", ["resources", "systems"]) => Route::Read(Reading::Systems(systems(query)?)),
            ("GET", ["app", "unhealthy_ports"]) => Route::Read(Reading::UnhealthyPorts),
            ("GET", ["app", "events"]) => Route::Read(Reading::Events),
            ("GET", ["jobs"]) => Route::Read(Reading::Jobs(None)),
            ("GET", ["jobs", number]) => Route::Read(Reading::Jobs(Some(job(number)?))),
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
            Route::Read(Reading::Pkeys { .. } | Reading::Jobs(_) | Reading::Version) => {
                Need::SeePartitions
            }
            Route::Read(_) => Need::Read,
            Route::Change(_) => Need::ChangePartitions,
        }
    }
}

/// The number of a job.
fn job(text: &str) -> Result<u64, Refused> {
    let number = text.parse().ok();
    number.ok_or_else(|| bad("jobs: expected the number of a job, as in /jobs/1"))
}

/// The name and value pairs of a query; parameters that rsm does not know have no effect.
fn pairs(query: &str) -> Result<Vec<(String, String)>, Refused> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((form_unescaped(name)?, form_unescaped(value)?))
    });
    pairs.collect()
}

/// The value of a parameter that is true or false. Another value is refused, because the client
/// would take what it gets for what it asked for.
fn flag(name: &str, value: &str) -> Result<bool, Refused> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(bad(format!("{name}: expected true or false"))),
    }
}

fn shown(query: &str) -> Result<Shown, Refused> {
    let mut shown = Shown::default();
    for (name, value) in pairs(query)? {
        match name.as_str() {
            "guids_data" => shown.guids = flag(&name, &value)?,
            "qos_conf" => shown.qos = flag(&name, &value)?,
            _ => {}
        }
    }
    Ok(shown)
}

/// Parameters that select items and that rsm does not support, each with the reason. rsm refuses
/// them, because the client would mistake all items for the selected items.
const REFUSED: &[(&str, &str)] = &[
    (
        "external",
        "rsm does not know which ports are inside of a chassis",
    ),
    ("high_ber_only", "rsm measures no bit error rate"),
    ("high_ber_severity", "rsm measures no bit error rate"),
    ("page_number", "rsm sends all items at once"),
    ("rpp", "rsm sends all items at once"),
];

/// The pairs of a query for a list; an error if one of them is in [`REFUSED`].
fn list_pairs(query: &str) -> Result<Vec<(String, String)>, Refused> {
    let pairs = pairs(query)?;
    for (name, value) in &pairs {
        let refused = REFUSED.iter().find(|(parameter, _)| parameter == name);
        if let Some((parameter, why)) = refused
            && !value.eq_ignore_ascii_case("false")
        {
            return Err(bad(format!("{parameter}: {why}: leave it out")));
        }
    }
    Ok(pairs)
}

fn system(value: &str) -> Option<System> {
    match value.to_ascii_lowercase().as_str() {
        "computer" | "host" => Some(System::Computer),
        "switch" => Some(System::Switch),
        "router" => Some(System::Router),
        _ => None,
    }
}

fn port_filter(query: &str) -> Result<PortFilter, Refused> {
    let mut filter = PortFilter::default();
    for (name, value) in list_pairs(query)? {
        match name.as_str() {
            "active" => filter.active = flag(&name, &value)?,
            "system" => filter.of = Some(value),
            "sys_type" => {
                let kind = system(&value);
                let kind =
                    kind.ok_or_else(|| bad("sys_type: expected Computer, Switch or Router"))?;
                filter.system = Some(kind);
            }
            _ => {}
        }
    }
    Ok(filter)
}

/// The name or GUID of a system in a query for links.
fn links_of(query: &str) -> Result<Option<String>, Refused> {
    let mut pairs = list_pairs(query)?.into_iter();
    Ok(pairs.find_map(|(name, value)| (name == "system").then_some(value)))
}

/// The kind of system in a query for systems.
fn systems(query: &str) -> Result<Option<System>, Refused> {
    let pairs = list_pairs(query)?;
    let Some((_, value)) = pairs.iter().find(|(name, _)| name == "type") else {
        return Ok(None);
    };
    let kind = system(value).ok_or_else(|| bad("type: expected host, switch or router"))?;
    Ok(Some(kind))
}
