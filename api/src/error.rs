//! Errors of the subnet manager, in terms of the subnet.

use rsm_ids::{Guid, Lid, PortNum};

use crate::model::{GroupSelector, PortId};

/// The error for a name that does not identify one node or port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// No node or port has this name.
    #[error("nothing in the fabric is named `{selector}`")]
    NotFound {
        /// The requested name.
        selector: String,
    },
    /// No node or port has this name, and nodes have similar ones.
    #[error("nothing in the fabric is named `{selector}`; did you mean {}?", similar.join(", "))]
    Similar {
        /// The requested name.
        selector: String,
        /// The similar names, as they are written on a command line; `…` stands for more.
        similar: Vec<String>,
    },
    /// A node or port had this name until it disappeared from the subnet.
    #[error("{}", gone(selector, &format!("{name} was at {place} until {until}"), disabled))]
    Gone {
        /// The requested name.
        selector: String,
        /// The node that disappeared.
        node: Guid,
        /// The port of the node that has the name; `None` if the name is the node's.
        port: Option<PortNum>,
        /// The node's description, or its GUID if it had none.
        name: String,
        /// The name of the port to which the node was cabled.
        place: Box<str>,
        /// The time in UTC when the node was last known to be present.
        until: Box<str>,
        /// The order that keeps the port at its place disabled, in words; empty if there is none.
        disabled: Box<str>,
    },
    /// A host had this name, and all its adapters have disappeared from the subnet.
    #[error("{}", gone(selector, &format!("its {} adapters were at {place} until {until}", nodes.len()), disabled))]
    HostGone {
        /// The requested name.
        selector: String,
        /// The adapters, at least two.
        nodes: Vec<Guid>,
        /// The ports to which the adapters were cabled, in words.
        place: Box<str>,
        /// The time in UTC when an adapter was last known to be present.
        until: Box<str>,
        /// The order that keeps the port at the first place disabled, in words; empty unless rsm
        /// keeps all of them disabled.
        disabled: Box<str>,
    },
    /// Several nodes or ports have this name.
    #[error("`{selector}` names {total} things; use one of: {}", listed(candidates, *total))]
    Ambiguous {
        /// The requested name.
        selector: String,
        /// The candidates, at most [`MAX_CANDIDATES`](crate::limits::MAX_CANDIDATES), sorted by GUID
        /// and port.
        candidates: Vec<Candidate>,
        /// The total number of candidates.
        total: usize,
    },
    /// The node has no port of this number.
    #[error("{port} does not exist: the node has no port of that number")]
    NoSuchPort {
        /// The requested port.
        port: PortId,
    },
    /// The name must identify a switch, and identifies another node.
    #[error("`{selector}` is not a switch, so it has no forwarding table")]
    NotASwitch {
        /// The requested name.
        selector: String,
    },
    /// No partition has this P_Key.
    #[error("no partition has the P_Key {p_key:#06x}")]
    NoSuchPartition {
        /// The requested P_Key.
        p_key: u16,
    },
    /// No multicast group matches.
    #[error("no multicast group is named `{group}`")]
    NoSuchGroup {
        /// The requested group.
        group: GroupSelector,
    },
    /// The port has no LID, so no route starts or ends there.
    #[error(
        "{port} has no LID, so no route starts or ends there: name an end port (a switch's is port 0)"
    )]
    NoLid {
        /// The port without a LID.
        port: PortId,
    },
    /// The node has no LID yet, and rsm cannot assign one.
    #[error("{node} has no LID, so no route starts or ends there: {reason}")]
    WithoutLid {
        /// The node without a LID.
        node: Guid,
        /// The reason, in words.
        reason: String,
    },
}

/// The sentence about a node that has left the subnet, or that rsm does not reach because it keeps
/// a port disabled; `disabled` is the order that does so, or empty.
fn gone(selector: &str, place: &str, disabled: &str) -> String {
    match disabled {
        "" => format!("`{selector}` is gone: {place}"),
        disabled => format!("`{selector}` is not reached: {disabled}; {place}"),
    }
}

/// A node or port that an ambiguous name may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// A name that no other node or port has, as it is written on a command line.
    pub name: String,
    /// The kind, LID and place that tell the candidate from the others; empty if they are unknown.
    pub facts: String,
}

/// The candidates as a text such as `'host-1 mlx5_0' (CA, LID 7, at leaf-03 port 7), …`; `…` stands
/// for the candidates beyond the listed ones.
fn listed(candidates: &[Candidate], total: usize) -> String {
    let one = |candidate: &Candidate| match candidate.facts.as_str() {
        "" => candidate.name.clone(),
        facts => format!("{} ({facts})", candidate.name),
    };
    let mut listed: Vec<String> = candidates.iter().map(one).collect();
    if total > candidates.len() {
        listed.push("…".to_owned());
    }
    listed.join(", ")
}

/// The reason why the core did not carry out a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The name does not identify one node or port.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Another subnet manager is master, so this one changes nothing.
    #[error("this subnet manager is standby and sends no Set: ask the master at LID {master}")]
    Standby {
        /// The LID of the master.
        master: Lid,
    },
    /// There is no subnet to manage.
    #[error("the subnet manager is not attached to a subnet: {reason}")]
    NotAttached {
        /// The reason, in a few words.
        reason: String,
    },
    /// The queue of requests is full.
    #[error("too many requests are waiting already: ask again once a convergence has finished")]
    Busy,
    /// No engine has the requested name.
    #[error("{message}")]
    UnknownEngine {
        /// A message that states the requested name and the existing names.
        message: String,
    },
    /// The requested tables failed the proof; everything stays unchanged.
    #[error("refused, and everything stays as it was: {reason}")]
    Refused {
        /// The reason, in words.
        reason: String,
    },
    /// The request would cut off ports, and does not accept that; everything stays unchanged.
    #[error("{reason}")]
    CutOff {
        /// The number of ports that would be cut off.
        ports: u64,
        /// The names of these ports, and their losses.
        reason: String,
    },
    /// The request would end what another operator ordered, and does not accept that;
    /// everything stays unchanged.
    #[error("{reason}")]
    OfAnother {
        /// The other operator, the order with its time and note, and the consequence.
        reason: String,
    },
    /// A change to a partition was refused; the partition stays unchanged.
    #[error("{reason}")]
    Partition {
        /// The kind of refusal.
        refusal: PartitionRefusal,
        /// The reason, in words.
        reason: String,
    },
    /// The request is accepted and kept, but not all of the hardware holds the change yet. The
    /// subnet manager keeps trying.
    #[error("accepted and kept, but not yet written everywhere: {}{what}; rsm tries again, and findings say why",
        match parts { 0 => String::new(), 1 => "1 part of the fabric lacks it: ".to_owned(), _ => format!("{parts} parts of the fabric lack it: ") })]
    Unwritten {
        /// The number of ports and nodes that lack it; 0 if it is not known.
        parts: u64,
        /// The names of the first of these ports and nodes, or the reason why nothing was written.
        what: String,
    },
    /// The subnet manager is being stopped.
    #[error("the subnet manager is stopping")]
    Stopping,
    /// The core began to carry the request out and failed.
    #[error("the sweep failed: {reason}")]
    Failed {
        /// The reason, in a few words.
        reason: String,
    },
}

/// The kinds of refusal of a change to a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionRefusal {
    /// The partition does not exist.
    NotFound,
    /// A partition with this P_Key or name exists already.
    Exists,
    /// The request is invalid, whatever partitions exist.
    Invalid,
    /// The identity may not change one of the affected partitions.
    NotAllowed,
    /// The maximum number of partitions, members, or P_Keys of a port or tenant is reached.
    Full,
    /// The partition file, a port or the plan conflicts with the change.
    Refused,
}

/// The reason why the core did not measure or foresee routes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The name does not identify one node or port.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// No routes are in force.
    #[error("no routes are in force: the subnet manager has none yet, or is not master")]
    NoRoutes,
    /// The loss of the named cable or node cannot be computed.
    #[error("{reason}")]
    Impossible {
        /// The reason, in words.
        reason: String,
    },
    /// The queue of requests is full.
    #[error(
        "too many requests for route measurements are waiting already: ask again in some seconds"
    )]
    Busy,
    /// The subnet manager is being stopped, and the computation ended without an answer.
    #[error("the subnet manager is stopping")]
    Stopping,
}

/// The reason why the SA gives no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SaError {
    /// The name does not identify a single object.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The SA does not answer hosts either; hosts repeat their requests.
    #[error("the SA does not answer here: {reason}")]
    NotAnswering {
        /// The reason, in a few words.
        reason: String,
    },
    /// The queue of requests to the SA is full.
    #[error("too many requests are waiting for the SA already: ask again")]
    Busy,
    /// The subnet manager is being stopped.
    #[error("the subnet manager is stopping")]
    Stopping,
}

/// The reason why the history gives no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// The history has no state of the subnet yet.
    #[error(
        "the history has no state of the subnet yet{}: ask again once the subnet is up",
        began_unix_ms.map_or_else(String::new, |began| format!(", it begins at {}", crate::timestamp(began)))
    )]
    TooEarly {
        /// The time of the oldest record, in milliseconds since the Unix epoch; `None` if there is
        /// no record.
        began_unix_ms: Option<u64>,
    },
    /// A file of the history cannot be read.
    #[error("the history cannot be read: {reason}")]
    Unreadable {
        /// The file and the error.
        reason: String,
    },
}

/// The reason why there are no counters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CountersError {
    /// The name does not identify a single object.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// No counter has been read.
    #[error(
        "rsm has read no performance counters: it does so while it is master, if `enabled = true` is \
         in section [counters] of its configuration"
    )]
    NotRead,
    /// The subnet manager keeps no past of the counters.
    #[error(
        "this rsm keeps no past of the counters: it does so with a state folder, if `enabled = true` is in \
         section [counters] of its configuration and `past_days` is not 0"
    )]
    NoPast,
    /// A file of the past cannot be read.
    #[error("the past of the counters cannot be read: {reason}")]
    PastUnreadable {
        /// The file and the error.
        reason: String,
    },
}

/// The reason why the simulation did not carry out a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The name does not identify one node.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The port never had a cable.
    #[error("{port} has no cable in this simulation")]
    NoCable {
        /// The port without a cable.
        port: PortId,
    },
    /// The name identifies a node with several ports, and no port is given.
    #[error("`{name}` names no port: expected NODE:PORT, with a port from 1 to 254")]
    NoPort {
        /// The requested name.
        name: String,
    },
    /// The name identifies a port, and the request also has a port number.
    #[error(
        "`{name}` names port {named}, and port {number} is given beside it: expected one of them"
    )]
    TwoPorts {
        /// The requested name.
        name: String,
        /// The port that the name identifies.
        named: PortNum,
        /// The port number in the request.
        number: PortNum,
    },
    /// No counter of a port has the requested name.
    #[error("`{name}` is no counter of a port: expected one of {}", expected.join(", "))]
    NoCounter {
        /// The requested name.
        name: String,
        /// The names of all counters.
        expected: Vec<&'static str>,
    },
    /// The simulation has ended.
    #[error("the simulation has ended")]
    Ended,
}
