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
    AgentState, AliasGuidKey, CountersState, DrainQuestion, FindingFilter, GoneSwitches,
    GroupSelector, HistoryQuery, Keyed, LinkFilter, LossSelector, MulticastGroupFilter, NodeFilter,
    Page, PartitionChange, PartitionChanged, PathQuestion, PortCommand, PortFilter, PortId,
    PortOrder, PortTotals, Selector, ServiceFilter, ServiceKey, SimulationAction, SubscriptionKey,
    VirtualPortId, WhenCutOff,
};

/// A boxed future that may move between threads, so that the traits stay object safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Reading a subnet.
///
/// Every method answers at once from one immutable snapshot and never waits for a sweep. Lists
/// ascend by the key of their kind, begin after `after` and hold at most `limit` items that the
/// filter matches.
pub trait Subnet: Send + Sync + 'static {
    /// The subnet and its manager at one glance.
    fn status(&self) -> v1::SubnetStatus;

    /// The generation of the snapshot in force, as in the status.
    fn generation(&self) -> u64 {
        self.status().generation
    }

    /// The port GUID and the base LID of a port with an address of its own; `None` for other ports,
    /// and for those that are not there.
    fn address(&self, port: PortId) -> Option<(Guid, Lid)>;

    /// Nodes by ascending GUID.
    fn nodes(
        &self,
        after: Option<Guid>,
        limit: usize,
        filter: &NodeFilter,
    ) -> Page<Keyed<Guid, v1::Node>>;

    /// One node; a selector of a port leads to the port's node.
    fn node(&self, selector: &Selector) -> Result<Keyed<Guid, v1::Node>, LookupError>;

    /// Ports by ascending node GUID and port number, a switch's port 0 included.
    fn ports(
        &self,
        after: Option<PortId>,
        limit: usize,
        filter: &PortFilter,
    ) -> Page<Keyed<PortId, v1::Port>>;

    /// Virtual ports by ascending port and index, those that are not Down; of `node` only, where
    /// one is given.
    fn virtual_ports(
        &self,
        after: Option<VirtualPortId>,
        limit: usize,
        node: Option<Guid>,
    ) -> Page<Keyed<VirtualPortId, v1::VirtualPort>>;

    /// Why there are no virtual ports, with the key that turns them on; `None` where they are
    /// managed.
    fn virtual_ports_off(&self) -> Option<&'static str>;

    /// Why there are no agents of congestion control, with the key that turns it on; `None` where it
    /// is on.
    fn congestion_off(&self) -> Option<&'static str>;

    /// Agents of congestion control by ascending node GUID and port number; of `node` only, where
    /// one is given. None while congestion control is off.
    fn congestion_agents(
        &self,
        after: Option<PortId>,
        limit: usize,
        node: Option<Guid>,
    ) -> Page<Keyed<PortId, v1::CongestionAgent>>;

    /// One port, by the rules of [`resolve_port`](crate::resolve::resolve_port).
    fn port(&self, selector: &Selector) -> Result<Keyed<PortId, v1::Port>, LookupError>;

    /// Links by ascending key of their end `a`.
    fn links(
        &self,
        after: Option<PortId>,
        limit: usize,
        filter: &LinkFilter,
    ) -> Page<Keyed<PortId, v1::Link>>;

    /// Entries of a switch's linear forwarding table by ascending LID, as the switch last confirmed
    /// them; LIDs that the switch drops are left out. The page token is the server's to fill in.
    fn forwarding_table(
        &self,
        switch: &Selector,
        after: Option<Lid>,
        limit: usize,
    ) -> Result<v1::GetForwardingTableResponse, LookupError>;

    /// The path from one port to another, along the tables that the switches confirmed.
    ///
    /// The walk follows `destination` where it is a LID, otherwise the port's base LID. A drop or a
    /// loop is an outcome of the walk, not an error.
    fn route(
        &self,
        source: &Selector,
        destination: &Selector,
    ) -> Result<v1::ResolveRouteResponse, LookupError>;

    /// Partitions by ascending P_Key.
    fn partitions(&self, after: Option<u16>, limit: usize) -> Page<Keyed<u16, v1::Partition>>;

    /// The ports of the partition with this P_Key, with either membership bit, by ascending node
    /// GUID and port number.
    fn partition_members(
        &self,
        p_key: u16,
        after: Option<PortId>,
        limit: usize,
    ) -> Result<Page<Keyed<PortId, v1::PartitionMember>>, LookupError>;

    /// The ports that the API has made members of the partition with this P_Key, with either
    /// membership bit, by ascending GUID.
    fn partition_guids(
        &self,
        p_key: u16,
        after: Option<Guid>,
        limit: usize,
    ) -> Result<Page<Keyed<Guid, v1::PartitionGuid>>, LookupError>;

    /// The kinds that a finding can have, as a filter takes them.
    fn finding_kinds(&self) -> Vec<&'static str>;

    /// Findings that hold now, by ascending identifier.
    fn findings(
        &self,
        after: Option<u64>,
        limit: usize,
        filter: &FindingFilter,
    ) -> Page<v1::Finding>;

    /// Missing nodes and cables by ascending key.
    fn missing(&self, after: Option<PortId>, limit: usize) -> Page<Keyed<PortId, v1::Missing>>;

    /// Missing switches, and the missing cables between switches, for a drawing.
    fn gone_switches(&self) -> GoneSwitches;

    /// Drained parts by ascending key: the port, or port 0 of a drained node.
    fn drained(&self, after: Option<PortId>, limit: usize) -> Page<Keyed<PortId, v1::DrainedPart>>;

    /// The newest `limit` kept convergences, oldest first.
    fn convergences(&self, limit: usize) -> Page<v1::Convergence>;

    /// Kept events with a sequence number above `after`, oldest first, at most `limit`.
    fn events(&self, after: u64, limit: usize) -> Vec<Arc<v1::Event>>;

    /// Events from now on; a receiver that lags loses the oldest, and gets their number.
    ///
    /// An event is in [`events`](Subnet::events) before the channel sends it, so that a caller that
    /// subscribes first and reads then misses none. [`EventJournal`](crate::EventJournal) keeps
    /// both.
    fn subscribe(&self) -> broadcast::Receiver<Arc<v1::Event>>;
}

/// Reading the registrations of hosts at the SA, and its answers.
///
/// Registrations change with every request of a host: a call reads their present state, after a
/// wait of some milliseconds at most. Trees and ports come from the latest snapshot. Lists follow
/// [`Subnet`].
pub trait SaQueries: Send + Sync + 'static {
    /// Counters since the start.
    fn counters(&self) -> v1::SaCounters;

    /// The paths that the SA answers to a host's PathRecord query, by the same code.
    ///
    /// The lack of paths is an answer, not an error.
    fn paths(&self, question: &PathQuestion) -> Result<v1::ResolvePathResponse, SaError>;

    /// Tables and rules for quality of service, by the plan in force.
    fn qos(&self) -> Result<v1::GetQosResponse, SaError>;

    /// Services that ports offer by ascending key.
    fn services(
        &self,
        after: Option<ServiceKey>,
        limit: usize,
        filter: ServiceFilter,
    ) -> BoxFuture<'_, Result<Page<Keyed<ServiceKey, v1::Service>>, SaError>>;

    /// Subscriptions of hosts by ascending key; of `port` only, where one is given.
    fn subscriptions(
        &self,
        after: Option<SubscriptionKey>,
        limit: usize,
        port: Option<PortId>,
    ) -> BoxFuture<'_, Result<Page<Keyed<SubscriptionKey, v1::Subscription>>, SaError>>;

    /// Alias GUIDs of ports by ascending key; of `port` only, where one is given.
    fn alias_guids(
        &self,
        after: Option<AliasGuidKey>,
        limit: usize,
        port: Option<PortId>,
    ) -> BoxFuture<'_, Result<Page<Keyed<AliasGuidKey, v1::AliasGuid>>, SaError>>;

    /// Multicast groups by ascending MGID.
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

    /// The members of one group by ascending GUID in the GID that they joined by: the port's, or
    /// one of its aliases.
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

/// Reading the performance counters of ports.
pub trait CountersQueries: Send + Sync + 'static {
    /// The ports that have been read, of `part` only where it is given; see [`Subnet`] for lists.
    ///
    /// # Errors
    /// The name does not lead to one node, or nothing has been read.
    fn ports(
        &self,
        after: Option<PortId>,
        limit: usize,
        part: Option<&Selector>,
    ) -> Result<Page<Keyed<PortId, v1::PortCounters>>, CountersError>;

    /// The `limit` ports that come first in `order`, of those with a reading that is not stale, of
    /// `part` only where it is given. Takes some tenths of a second on a large fabric.
    ///
    /// # Errors
    /// The name does not lead to one node, or nothing has been read.
    fn top(
        &self,
        order: PortOrder,
        limit: usize,
        part: Option<&Selector>,
    ) -> Result<v1::GetTopPortsResponse, CountersError>;

    /// Names the readings that the other methods show: it changes with them, about once a second
    /// while counters are read. A reading can become stale in between.
    fn pass(&self) -> u64;

    /// Shows `visit` each port with a reading that is not stale, by ascending key.
    fn each_port(&self, visit: &mut dyn FnMut(PortTotals<'_>));

    /// Shows `visit` each agent that is asked, by ascending key.
    fn each_agent(&self, visit: &mut dyn FnMut(AgentState));

    /// Whether and how well counters are read.
    fn state(&self) -> CountersState;
}

/// Acting on a subnet.
///
/// A caller that drops the future cancels its request, unless the core has already begun with it.
pub trait Control: Send + Sync + 'static {
    /// The present activity, which callers of the other methods wait for.
    fn activity(&self) -> v1::Activity;

    /// Sweeps again, and answers with the resulting convergence.
    ///
    /// `full` reads everything anew; otherwise only the parts that may have changed. A sweep that
    /// is under way when the call comes does not count as the answer.
    fn resweep(&self, full: bool) -> BoxFuture<'_, Result<v1::Convergence, ControlError>>;

    /// Reads everything anew and writes every block of every linear forwarding table, even where
    /// the switch holds it already, and answers with the resulting convergence.
    fn rewrite(&self) -> BoxFuture<'_, Result<v1::Convergence, ControlError>>;

    /// Routes with the engine of this name from now on, and answers with the convergence that put
    /// its tables into force. If the core refuses the tables, the engine in use stays. The writing
    /// of the tables cuts ports off where no mixture of them and the present ones is safe.
    fn set_engine(
        &self,
        name: String,
        cut_off: WhenCutOff,
    ) -> BoxFuture<'_, Result<v1::Convergence, ControlError>>;

    /// Routes around parts from now on, all of them or none, and answers with them once the tables
    /// are in force.
    fn drain(
        &self,
        question: DrainQuestion,
    ) -> BoxFuture<'_, Result<Vec<v1::DrainedPart>, ControlError>>;

    /// Uses drained parts again, and answers how many, with the convergence that put the tables
    /// into force.
    fn undrain(
        &self,
        parts: Vec<Selector>,
    ) -> BoxFuture<'_, Result<(u64, v1::Convergence), ControlError>>;

    /// Disables, enables or resets a port, and answers with the port that was set, the description of
    /// its node and the convergence, once the port has answered.
    fn operate_port(
        &self,
        command: PortCommand,
    ) -> BoxFuture<'_, Result<v1::OperatePortResponse, ControlError>>;

    /// Gives every port another M_Key, and answers with the state of the keys and the convergence
    /// that wrote them. Refused while ports hold keys of the rotation before, unless `force` is set.
    fn rotate_m_keys(
        &self,
        force: bool,
    ) -> BoxFuture<'_, Result<(v1::ManagementKeys, v1::Convergence), ControlError>>;

    /// Changes a partition that is made through the API, all of it or nothing, and answers what it
    /// changed once it is in force.
    fn change_partition(
        &self,
        change: PartitionChange,
    ) -> BoxFuture<'_, Result<PartitionChanged, ControlError>>;

    /// Expects the node or cable with this name no longer (`None`: all that are missing now), and
    /// answers the number of nodes and ports given up.
    fn accept_missing(&self, name: Option<Selector>) -> Result<u64, ControlError>;
}

/// Measuring the routes in force, and foreseeing others. No method sends anything to the fabric.
pub trait RoutingQueries: Send + Sync + 'static {
    /// The routing engines.
    fn engines(&self) -> Page<v1::Engine>;

    /// How well the tables in force spread traffic, random traffic beginning at `seed`.
    fn quality(
        &self,
        seed: u64,
    ) -> BoxFuture<'_, Result<v1::GetRoutingQualityResponse, RoutingError>>;

    /// The consequence of all of `losses` at the same time, at least one.
    fn foresee(
        &self,
        losses: Vec<LossSelector>,
    ) -> BoxFuture<'_, Result<v1::ForeseeLossResponse, RoutingError>>;

    /// The cable at a port, and the paths over it.
    fn cable_use(
        &self,
        port: Selector,
    ) -> BoxFuture<'_, Result<v1::GetCableUseResponse, RoutingError>>;

    /// The hosts whose paths cross the cable at a port by ascending key; see [`Subnet`] for lists.
    fn cable_hosts(
        &self,
        port: Selector,
        after: Option<PortId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page<Keyed<PortId, v1::CableHost>>, RoutingError>>;
}

/// Checking the subnet and its manager.
pub trait Reports: Send + Sync + 'static {
    /// Every check, from the snapshot in force.
    fn report(&self) -> BoxFuture<'_, v1::Report>;
}

/// Reading the history on the disk, events of earlier runs included.
pub trait History: Send + Sync + 'static {
    /// Matching events, oldest first, each with the number of its record; numbers rise over all
    /// runs.
    fn events(
        &self,
        query: HistoryQuery,
    ) -> BoxFuture<'_, Result<Vec<(u64, v1::Event)>, HistoryError>>;

    /// The differences of the subnet now from a time, in milliseconds since the Unix epoch.
    fn differences(
        &self,
        at_unix_ms: u64,
    ) -> BoxFuture<'_, Result<Vec<v1::Difference>, HistoryError>>;
}

/// Takes notes of operators' requests.
pub trait ActionLog: Send + Sync + 'static {
    /// A request was carried out or refused. Never waits.
    fn acted(&self, act: v1::OperatorActed);
}

/// Acting on a simulated fabric.
pub trait Simulation: Send + Sync + 'static {
    /// Acts, and answers once the simulated hardware has changed: links of a cable that is put in
    /// are up, a node that reboots is still dark. The subnet manager's reaction comes as events.
    fn act(&self, action: SimulationAction) -> BoxFuture<'_, Result<(), SimulationError>>;
}
