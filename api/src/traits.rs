//! The API's interface to a subnet manager.

use std::pin::Pin;
use std::sync::Arc;

use rsm_ids::{Gid, Guid, Lid};
use rsm_proto::v1;
use tokio::sync::broadcast;

use crate::error::{
    ControlError, CountersError, HistoryError, LookupError, RoutingError, SaError, SimulationError,
};
use crate::model::{
    AgentState, AliasGuidKey, CountersState, DrainQuestion, FindingFilter, GivenUp, GoneSwitches,
    GroupSelector, HistoryQuery, Keyed, LinkFilter, LossSelector, MulticastGroupFilter, NodeFilter,
    Page, PartitionChange, PartitionChanged, PastSpan, PathQuestion, PortCommand, PortFilter,
    PortId, PortOrder, PortTotals, Selector, ServiceFilter, ServiceKey, SimulationAction,
    SubscriptionKey, VirtualPortId, WhenCutOff,
};

/// A boxed future that may move between threads, so that the traits stay object safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Queries about a subnet.
///
/// Every method answers at once from one immutable snapshot and never waits for a sweep. Lists
/// ascend by the key of their kind, begin after `after` and contain at most `limit` items that the
/// filter passes.
pub trait Subnet: Send + Sync + 'static {
    /// The subnet and its manager at a glance.
    fn status(&self) -> v1::SubnetStatus;

    /// The generation of the snapshot in force, as in the status.
    fn generation(&self) -> u64 {
        self.status().generation
    }

    /// The port GUID and the base LID of an end port; `None` for other ports, and for ports that do
    /// not exist.
    fn address(&self, port: PortId) -> Option<(Guid, Lid)>;

    /// The nodes by ascending GUID.
    fn nodes(
        &self,
        after: Option<Guid>,
        limit: usize,
        filter: &NodeFilter,
    ) -> Page<Keyed<Guid, v1::Node>>;

    /// One node; a selector of a port leads to the port's node.
    fn node(&self, selector: &Selector) -> Result<Keyed<Guid, v1::Node>, LookupError>;

    /// The ports by ascending node GUID and port number, including port 0 of switches.
    fn ports(
        &self,
        after: Option<PortId>,
        limit: usize,
        filter: &PortFilter,
    ) -> Page<Keyed<PortId, v1::Port>>;

    /// The virtual ports that are not Down, by ascending port and index; only those of `node` if it
    /// is given.
    fn virtual_ports(
        &self,
        after: Option<VirtualPortId>,
        limit: usize,
        node: Option<Guid>,
    ) -> Page<Keyed<VirtualPortId, v1::VirtualPort>>;

    /// The reason why there are no virtual ports, with the configuration key that enables them;
    /// `None` if they are managed.
    fn virtual_ports_off(&self) -> Option<&'static str>;

    /// The reason why there are no agents of congestion control, with the configuration key that
    /// enables it; `None` if congestion control is on.
    fn congestion_off(&self) -> Option<&'static str>;

    /// The agents of congestion control by ascending node GUID and port number; only those of
    /// `node`, if it is given. Empty while congestion control is off.
    fn congestion_agents(
        &self,
        after: Option<PortId>,
        limit: usize,
        node: Option<Guid>,
    ) -> Page<Keyed<PortId, v1::CongestionAgent>>;

    /// One port, by the rules of [`resolve_port`](crate::resolve::resolve_port).
    fn port(&self, selector: &Selector) -> Result<Keyed<PortId, v1::Port>, LookupError>;

    /// The fields of an attribute of a node or port, from the device's last answer; empty before
    /// the first answer. The M_Key is not shown.
    ///
    /// # Errors
    /// The name does not identify one node, or one port for PortInfo.
    fn attribute(
        &self,
        attribute: v1::SmpAttribute,
        selector: &Selector,
    ) -> Result<Vec<v1::AttributeField>, LookupError>;

    /// The partitions that a port is a member of, by ascending P_Key; empty for external ports of a
    /// switch and for ports that are not present.
    fn partitions_of_port(&self, port: PortId) -> Vec<v1::PortPartition>;

    /// The links by ascending key of their end `a`.
    fn links(
        &self,
        after: Option<PortId>,
        limit: usize,
        filter: &LinkFilter,
    ) -> Page<Keyed<PortId, v1::Link>>;

    /// The entries of a switch's linear forwarding table by ascending LID, as last confirmed by the
    /// switch, without LIDs that the switch drops. The server fills in the page token.
    fn forwarding_table(
        &self,
        switch: &Selector,
        after: Option<Lid>,
        limit: usize,
    ) -> Result<v1::GetForwardingTableResponse, LookupError>;

    /// The path from one port to another, along the tables that the switches confirmed.
    ///
    /// The walk follows `destination` if it is a LID, otherwise the port's base LID. A drop or a
    /// loop is an outcome of the walk, not an error.
    fn route(
        &self,
        source: &Selector,
        destination: &Selector,
    ) -> Result<v1::ResolveRouteResponse, LookupError>;

    /// The partitions by ascending P_Key.
    fn partitions(&self, after: Option<u16>, limit: usize) -> Page<Keyed<u16, v1::Partition>>;

    /// The ports of the partition with this P_Key, whatever its membership bit, by ascending node
    /// GUID and port number.
    fn partition_members(
        &self,
        p_key: u16,
        after: Option<PortId>,
        limit: usize,
    ) -> Result<Page<Keyed<PortId, v1::PartitionMember>>, LookupError>;

    /// The ports that the API has made members of the partition with this P_Key, whatever its
    /// membership bit, by ascending GUID.
    fn partition_guids(
        &self,
        p_key: u16,
        after: Option<Guid>,
        limit: usize,
    ) -> Result<Page<Keyed<Guid, v1::PartitionGuid>>, LookupError>;

    /// The kinds that a finding can have, as filters accept them.
    fn finding_kinds(&self) -> Vec<&'static str>;

    /// The present findings, by ascending identifier.
    fn findings(
        &self,
        after: Option<u64>,
        limit: usize,
        filter: &FindingFilter,
    ) -> Page<v1::Finding>;

    /// The missing nodes and cables by ascending key. A missing switch stands for its cables and
    /// for the hosts behind it.
    fn missing(&self, after: Option<PortId>, limit: usize) -> Page<Keyed<PortId, v1::Missing>>;

    /// All missing nodes and cables by ascending key, including the cables of missing switches and
    /// the hosts behind them.
    fn each_missing(&self, after: Option<PortId>, limit: usize)
    -> Page<Keyed<PortId, v1::Missing>>;

    /// The moves of plugs and cables that turn the fabric into the designed one, by ascending
    /// number, which is the order in which to make them.
    fn design_moves(&self, after: Option<u64>, limit: usize) -> Page<v1::DesignMove>;

    /// The missing switches, and the missing cables between switches, for drawing the fabric.
    fn gone_switches(&self) -> GoneSwitches;

    /// The drained parts by ascending key: the port, or port 0 of a drained node.
    fn drained(&self, after: Option<PortId>, limit: usize) -> Page<Keyed<PortId, v1::DrainedPart>>;

    /// The newest `limit` kept convergences, oldest first.
    fn convergences(&self, limit: usize) -> Page<v1::Convergence>;

    /// The kept events with a sequence number above `after`, oldest first, at most `limit`.
    fn events(&self, after: u64, limit: usize) -> Vec<Arc<v1::Event>>;

    /// The stream of all events from now on. A receiver that lags loses the oldest events, and
    /// learns how many.
    ///
    /// An event is in [`events`](Subnet::events) before the channel sends it, so that a caller that
    /// first subscribes and then reads misses no event. [`EventJournal`](crate::EventJournal)
    /// ensures both.
    fn subscribe(&self) -> broadcast::Receiver<Arc<v1::Event>>;
}

/// Queries about the registrations of hosts at the SA, and about its answers.
///
/// Registrations change with every request of a host: a call reads their current state, after a
/// wait of at most some milliseconds. Trees and ports come from the latest snapshot. Lists follow
/// the rules of [`Subnet`].
pub trait SaQueries: Send + Sync + 'static {
    /// The SA's counters since the start.
    fn counters(&self) -> v1::SaCounters;

    /// The paths with which the SA answers a host's PathRecord query, computed by the same code.
    ///
    /// The lack of paths is an answer, not an error.
    fn paths(&self, question: &PathQuestion) -> Result<v1::ResolvePathResponse, SaError>;

    /// The tables and rules for quality of service, in the plan in force.
    fn qos(&self) -> Result<v1::GetQosResponse, SaError>;

    /// The services that ports offer, by ascending key.
    fn services(
        &self,
        after: Option<ServiceKey>,
        limit: usize,
        filter: ServiceFilter,
    ) -> BoxFuture<'_, Result<Page<Keyed<ServiceKey, v1::Service>>, SaError>>;

    /// The subscriptions of hosts by ascending key; only the ones of `port` if it is given.
    fn subscriptions(
        &self,
        after: Option<SubscriptionKey>,
        limit: usize,
        port: Option<PortId>,
    ) -> BoxFuture<'_, Result<Page<Keyed<SubscriptionKey, v1::Subscription>>, SaError>>;

    /// The alias GUIDs of ports by ascending key; only the ones of `port` if it is given.
    fn alias_guids(
        &self,
        after: Option<AliasGuidKey>,
        limit: usize,
        port: Option<PortId>,
    ) -> BoxFuture<'_, Result<Page<Keyed<AliasGuidKey, v1::AliasGuid>>, SaError>>;

    /// The multicast groups by ascending MGID.
    fn multicast_groups(
        &self,
        after: Option<Gid>,
        limit: usize,
        filter: MulticastGroupFilter,
    ) -> BoxFuture<'_, Result<Page<Keyed<Gid, v1::MulticastGroup>>, SaError>>;

    /// One multicast group.
    fn multicast_group(
        &self,
        group: GroupSelector,
    ) -> BoxFuture<'_, Result<v1::MulticastGroup, SaError>>;

    /// The members of one group, by ascending GUID in the GID with which they joined (the port's
    /// GID or an alias).
    fn multicast_members(
        &self,
        group: GroupSelector,
        after: Option<Guid>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page<Keyed<Guid, v1::MulticastMember>>, SaError>>;

    /// The switches of one group's tree by ascending GUID.
    fn multicast_switches(
        &self,
        group: GroupSelector,
        after: Option<Guid>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page<Keyed<Guid, v1::MulticastSwitch>>, SaError>>;
}

/// Queries about the performance counters of ports.
pub trait CountersQueries: Send + Sync + 'static {
    /// The nodes with their firmware, by ascending GUID; see [`Subnet`] for lists. A node whose
    /// firmware is not known is listed with the reason.
    fn firmware(&self, after: Option<Guid>, limit: usize) -> Page<Keyed<Guid, v1::DeviceFirmware>>;

    /// The ports that have been read, only those of `part` if it is given; see [`Subnet`] for
    /// lists.
    ///
    /// # Errors
    /// The name does not identify one node, or nothing has been read.
    fn ports(
        &self,
        after: Option<PortId>,
        limit: usize,
        part: Option<&Selector>,
    ) -> Result<Page<Keyed<PortId, v1::PortCounters>>, CountersError>;

    /// The first `limit` ports in `order` among ports whose reading is not stale; only those of
    /// `part` if it is given. Takes some tenths of a second on a large fabric.
    ///
    /// # Errors
    /// The name does not identify one node, or nothing has been read.
    fn top(
        &self,
        order: PortOrder,
        limit: usize,
        part: Option<&Selector>,
    ) -> Result<v1::GetTopPortsResponse, CountersError>;

    /// The counts of a part, or of the fabric if `part` is `None`, in a span of the past. With
    /// `step_seconds` of `None`, the span has about 240 steps. May take seconds, and waits for the
    /// disk. The server has checked the number of steps.
    ///
    /// # Errors
    /// The name does not identify one node, no past is kept, or it cannot be read.
    fn series(
        &self,
        part: Option<&Selector>,
        span: PastSpan,
        step_seconds: Option<u32>,
    ) -> Result<v1::GetCounterSeriesResponse, CountersError>;

    /// The traffic and errors of each port of a node in a span of the past. With `step_seconds` of
    /// `None`, the span has about 240 steps. May take seconds, and waits for the disk. The server
    /// has checked the number of steps.
    ///
    /// # Errors
    /// The name does not identify one node, no past is kept, or it cannot be read.
    fn trends(
        &self,
        node: &Selector,
        span: PastSpan,
        step_seconds: Option<u32>,
    ) -> Result<v1::GetPortTrendsResponse, CountersError>;

    /// The first `limit` ports in `order` over a span of the past; only those of `part` if it is
    /// given. May take seconds, and waits for the disk.
    ///
    /// # Errors
    /// The name does not identify one node, no past is kept, or it cannot be read.
    fn top_since(
        &self,
        order: PortOrder,
        limit: usize,
        part: Option<&Selector>,
        span: PastSpan,
    ) -> Result<v1::GetTopPortsSinceResponse, CountersError>;

    /// The present time, in milliseconds since the Unix epoch.
    fn now_unix_ms(&self) -> u64;

    /// A number that identifies the readings which the other methods show. The number changes with
    /// every new reading, about once a second while counters are read, but not when a reading
    /// becomes stale.
    fn pass(&self) -> u64;

    /// Calls `visit` for each port whose reading is not stale, by ascending key.
    fn each_port(&self, visit: &mut dyn FnMut(PortTotals<'_>));

    /// Calls `visit` for each agent that the collector asks, by ascending key.
    fn each_agent(&self, visit: &mut dyn FnMut(AgentState));

    /// The state of the collector: whether and how well counters are read.
    fn state(&self) -> CountersState;
}

/// Actions on a subnet.
///
/// A caller that drops the future cancels its request, unless the core has already begun to carry
/// it out.
pub trait Control: Send + Sync + 'static {
    /// The current activity, for which callers of the other methods wait.
    fn activity(&self) -> v1::Activity;

    /// Starts a sweep, and returns the resulting convergence.
    ///
    /// `full` reads everything again; otherwise the sweep reads only parts that may have changed. A
    /// sweep under way at the time of the call does not count.
    fn resweep(&self, full: bool) -> BoxFuture<'_, Result<v1::Convergence, ControlError>>;

    /// Reads everything again and writes every block of every linear forwarding table, even if the
    /// switch holds it already, and returns the resulting convergence.
    fn rewrite(&self) -> BoxFuture<'_, Result<v1::Convergence, ControlError>>;

    /// Switches to the engine of this name, and returns the convergence that put its tables into
    /// force. If the core refuses the tables, the engine in use stays. If no mixture of the new and
    /// the present tables is safe, writing the new ones cuts off ports for a while.
    fn set_engine(
        &self,
        name: String,
        cut_off: WhenCutOff,
    ) -> BoxFuture<'_, Result<v1::Convergence, ControlError>>;

    /// Routes around parts from now on, all of them or none, and returns the parts once the tables
    /// are in force.
    fn drain(
        &self,
        question: DrainQuestion,
    ) -> BoxFuture<'_, Result<Vec<v1::DrainedPart>, ControlError>>;

    /// Uses drained parts again, and returns their names, with the convergence that put the tables
    /// into force.
    fn undrain(
        &self,
        parts: Vec<Selector>,
    ) -> BoxFuture<'_, Result<(Vec<String>, v1::Convergence), ControlError>>;

    /// Disables, enables or resets a port. Once the port has answered, returns the port that was
    /// set, the description of its node, and the convergence.
    fn operate_port(
        &self,
        command: PortCommand,
    ) -> BoxFuture<'_, Result<v1::OperatePortResponse, ControlError>>;

    /// Gives every port another M_Key, and returns the state of the keys and the convergence that
    /// wrote them. Refuses while ports hold keys of the previous rotation, unless `force` is set.
    fn rotate_m_keys(
        &self,
        force: bool,
    ) -> BoxFuture<'_, Result<(v1::ManagementKeys, v1::Convergence), ControlError>>;

    /// Changes a partition made through the API, completely or not at all, and returns the changes
    /// once they are in force.
    fn change_partition(
        &self,
        change: PartitionChange,
    ) -> BoxFuture<'_, Result<PartitionChanged, ControlError>>;

    /// Stops expecting missing parts, and returns the counts of the parts given up, at least one.
    fn accept_missing(&self, given_up: GivenUp) -> Result<v1::MissingParts, ControlError>;
}

/// Measurements of the routes in force, and predictions for losses. No method sends anything to the
/// fabric.
pub trait RoutingQueries: Send + Sync + 'static {
    /// The routing engines.
    fn engines(&self) -> Page<v1::Engine>;

    /// Measures how well the tables in force spread traffic; `seed` determines the random traffic.
    fn quality(
        &self,
        seed: u64,
    ) -> BoxFuture<'_, Result<v1::GetRoutingQualityResponse, RoutingError>>;

    /// Predicts the consequence of all `losses` at the same time; there must be at least one.
    fn foresee(
        &self,
        losses: Vec<LossSelector>,
    ) -> BoxFuture<'_, Result<v1::ForeseeLossResponse, RoutingError>>;

    /// The cable at a port, and the paths over it.
    fn cable_use(
        &self,
        port: Selector,
    ) -> BoxFuture<'_, Result<v1::GetCableUseResponse, RoutingError>>;

    /// The hosts whose paths cross the cable at a port, by ascending key; see [`Subnet`] for lists.
    fn cable_hosts(
        &self,
        port: Selector,
        after: Option<PortId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page<Keyed<PortId, v1::CableHost>>, RoutingError>>;
}

/// Checks of the subnet and its manager.
pub trait Reports: Send + Sync + 'static {
    /// The results of all checks on the snapshot in force.
    fn report(&self) -> BoxFuture<'_, v1::Report>;
}

/// The judgement whether the fabric is at fault for a slow job.
pub trait Judge: Send + Sync + 'static {
    /// Judges a job on `hosts` by what happened at or after a time in milliseconds since the Unix
    /// epoch; 0 stands for an hour ago, or for the start of the manager if that was later.
    ///
    /// The judgement lists hosts that are not found; they are not an error.
    ///
    /// # Errors
    /// Too many requests are waiting, or the manager is stopping.
    fn judge(
        &self,
        hosts: Vec<String>,
        since_unix_ms: u64,
    ) -> BoxFuture<'_, Result<v1::Judgement, RoutingError>>;
}

/// The history on the disk, which includes events of earlier runs.
pub trait History: Send + Sync + 'static {
    /// The matching events, oldest first, each with the number of its record; numbers ascend over
    /// all runs.
    fn events(
        &self,
        query: HistoryQuery,
    ) -> BoxFuture<'_, Result<Vec<(u64, v1::Event)>, HistoryError>>;

    /// The differences between the present subnet and its state at a time in milliseconds since the
    /// Unix epoch. If the history begins later, its first state is the earlier one.
    fn differences(&self, at_unix_ms: u64) -> BoxFuture<'_, Result<Differences, HistoryError>>;
}

/// The differences of the subnet from an earlier state.
#[derive(Debug, Clone, PartialEq)]
pub struct Differences {
    /// The differences, in the order of their kinds, then of nodes and ports.
    pub list: Vec<v1::Difference>,
    /// The time of the earlier state, in milliseconds since the Unix epoch.
    pub from_unix_ms: u64,
}

/// A log of operators' requests.
pub trait ActionLog: Send + Sync + 'static {
    /// Records a request that was carried out or refused. Never waits.
    fn acted(&self, act: v1::OperatorActed);
}

/// Actions on a simulated fabric.
pub trait Simulation: Send + Sync + 'static {
    /// Carries out an action, and returns once the simulated hardware has changed: links of a
    /// reconnected cable are up, and a rebooting node is still off. Events report the subnet
    /// manager's reaction.
    fn act(&self, action: SimulationAction) -> BoxFuture<'_, Result<(), SimulationError>>;
}
