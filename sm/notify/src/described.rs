//! Describes an event in words: name, kind, severity and one sentence.

use rsm_proto::v1::event::Change;
use rsm_proto::{Label, printable, v1};

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Information; nothing is impaired.
    Info,
    /// Something works, but is impaired.
    Warning,
    /// Something does not work.
    Error,
}

impl Severity {
    /// Word for the severity.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }

    /// Severity of a finding; information if the finding states none.
    fn of_finding(finding: &v1::Finding) -> Severity {
        match finding.severity() {
            v1::Severity::Error => Severity::Error,
            v1::Severity::Warning => Severity::Warning,
            v1::Severity::Info | v1::Severity::Unspecified => Severity::Info,
        }
    }
}

/// Name, kind and severities of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rating {
    /// Name of the change, as its field in `rsm.v1.Event`.
    pub name: &'static str,
    /// Kind of the change, as `rsmctl events --kind` names it.
    pub kind: &'static str,
    /// Severity shown to receivers.
    pub shown: Severity,
    /// Severity that filters compare. The end of a condition has the same severity as its
    /// beginning, so that a receiver that got one of them also gets the other.
    pub filtered: Severity,
}

/// Rates a change.
pub fn rate(change: &Change) -> Rating {
    use Severity::{Info, Warning};
    let (name, kind, shown, filtered) = match change {
        Change::StateChanged(to) => {
            let severity = of_state(to.state());
            ("state_changed", "manager", severity, severity)
        }
        Change::ManagerStarted(_) => ("manager_started", "manager", Info, Info),
        Change::NodeAppeared(_) => ("node_appeared", "node", Info, Warning),
        Change::NodeVanished(_) => ("node_vanished", "node", Warning, Warning),
        Change::NodeChanged(_) => ("node_changed", "node", Info, Info),
        Change::PortAppeared(_) => ("port_appeared", "port", Info, Warning),
        Change::PortVanished(_) => ("port_vanished", "port", Warning, Warning),
        Change::PortChanged(_) => ("port_changed", "port", Info, Info),
        Change::LinkAppeared(_) => ("link_appeared", "link", Info, Warning),
        Change::LinkVanished(_) => ("link_vanished", "link", Warning, Warning),
        Change::LinkChanged(_) => ("link_changed", "link", Info, Info),
        Change::RoutesChanged(_) => ("routes_changed", "routes", Info, Info),
        Change::FindingRaised(finding) => {
            let severity = Severity::of_finding(finding);
            ("finding_raised", "finding", severity, severity)
        }
        Change::FindingCleared(finding) => {
            let severity = Severity::of_finding(finding);
            ("finding_cleared", "finding", Info, severity)
        }
        Change::ConvergenceFinished(_) => ("convergence_finished", "convergence", Info, Info),
        Change::OperatorActed(act) => {
            let severity = if act.refusal.is_empty() {
                Info
            } else {
                Warning
            };
            ("operator_acted", "operator", severity, severity)
        }
        Change::EventsUnrecorded(_) => ("events_unrecorded", "gap", Warning, Warning),
    };
    Rating {
        name,
        kind,
        shown,
        filtered,
    }
}

/// Severity of a state: an error if this manager is not active, a warning if the subnet is degraded
/// or another manager is master, otherwise information.
fn of_state(state: v1::SubnetState) -> Severity {
    match state {
        v1::SubnetState::NotActive => Severity::Error,
        v1::SubnetState::Degraded | v1::SubnetState::Standby => Severity::Warning,
        v1::SubnetState::Unspecified
        | v1::SubnetState::Discovering
        | v1::SubnetState::Converging
        | v1::SubnetState::Up => Severity::Info,
    }
}

/// Describes a change in one sentence without control characters.
pub fn sentence(change: &Change) -> String {
    let text = match change {
        Change::StateChanged(to) => match to.reason.as_str() {
            "" => format!("state {}", label::<v1::SubnetState>(to.state)),
            reason => format!("state {}: {reason}", label::<v1::SubnetState>(to.state)),
        },
        Change::ManagerStarted(it) => format!("rsm {} started on {}", it.version, it.fabric),
        Change::NodeAppeared(it) => format!("{} appeared", node(it)),
        Change::NodeVanished(it) => format!("{} vanished", node(it)),
        Change::NodeChanged(it) => format!("{} changed", node(it)),
        Change::PortAppeared(it) => format!("{} appeared", port(it)),
        Change::PortVanished(it) => format!("{} vanished", port(it)),
        Change::PortChanged(it) => format!("{} changed", port(it)),
        Change::LinkAppeared(it) => format!("{} up", link(it)),
        Change::LinkVanished(it) => format!("{} down", link(it)),
        Change::LinkChanged(it) => format!("{} changed", link(it)),
        Change::RoutesChanged(it) => format!(
            "{} entries in {} blocks of {} switches changed",
            it.entries, it.blocks, it.switches
        ),
        Change::FindingRaised(it) => format!("{}: {}", it.kind, it.message),
        Change::FindingCleared(it) => format!("over: {}: {}", it.kind, it.message),
        Change::ConvergenceFinished(it) => format!("converged: {}", it.cause),
        Change::OperatorActed(it) => it.sentence(),
        Change::EventsUnrecorded(it) => format!("{} events lost: {}", it.count, it.reason),
    };
    printable(&text)
}

/// Label of an enum's value; `unknown` for a value that this version does not know.
fn label<E: Label>(value: i32) -> &'static str {
    E::label(value).unwrap_or("unknown")
}

/// Kind, description and GUID of a node.
fn node(node: &v1::Node) -> String {
    let kind = label::<v1::NodeKind>(node.kind);
    format!("{kind} {} ({})", node.description, node.guid)
}

/// Node, number, state and LID of a port.
fn port(port: &v1::Port) -> String {
    let end = end(&port.node_description, port.key.as_ref());
    let state = label::<v1::PortState>(port.state);
    format!("port {end}, {state}, LID {}", port.lid)
}

/// Both ends of a link.
fn link(link: &v1::Link) -> String {
    let named = |side: &Option<v1::LinkEnd>| {
        side.as_ref().map_or_else(String::new, |side| {
            end(&side.description, side.port.as_ref())
        })
    };
    format!("link {} - {}", named(&link.a), named(&link.b))
}

/// Node and number of a port, such as `leaf-3:7 (0x0002c90300000001)`.
fn end(description: &str, key: Option<&v1::PortKey>) -> String {
    key.map_or_else(
        || description.to_owned(),
        |key| format!("{description}:{} ({})", key.number, key.node_guid),
    )
}
