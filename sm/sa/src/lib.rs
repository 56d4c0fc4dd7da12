//! The SA, which answers the requests of hosts (IBA 15).
//!
//! The SA is a state machine without I/O: [`Sa::handle`] takes a message and returns the answer,
//! from the snapshot last given to [`Sa::replace`]. The SA never waits for a sweep or for planning,
//! and neither waits for the SA. The records of a table are produced one by one while the table is
//! sent, so a table may have any length.
//!
//! Input: requests of hosts, snapshots, notices from the core. Output: answers, reports to
//! subscribers, members of multicast groups and alias GUIDs for the core, registrations for the
//! store, counters. Tables of hosts' registrations have bounds. A host whose registration would
//! exceed a bound gets an error.
//!
//! The crate must never know the core, send a Set, or read a clock.

mod alias_index;
mod answer;
mod breach;
mod changed_nodes;
mod directory;
mod directory_qos;
mod due;
mod ends;
pub mod events;
pub mod guids;
mod latencies;
pub mod mcast;
mod membership;
mod memory;
mod minima;
mod pace;
mod partitions;
mod path;
mod path_qos;
mod query;
mod query_context;
mod refused_joins;
mod requests;
mod reregister;
mod sa_snapshot;
mod searches;
pub mod services;
mod shares;
mod statistics;
mod template;
mod trust;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use answer::{Pulled, SaAnswer, TooLong, WORK_PER_PULL};
pub use directory::Directory;
pub use ends::{EndIx, EndPort};
pub use latencies::{Latencies, LatencyCounts};
pub use memory::{SavedSaState, Touched, Unsaved};
pub use partitions::{can_talk, planned_keys};
pub use path::NoPath;
pub use path::between::{PathEnd, PathQuery, TracedPath};
pub use path_qos::SlReason;
use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::ids::Tid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::Notice;
pub use sa_snapshot::SaSnapshot;
pub use searches::{SearchAdmission, Searches};
pub use statistics::{SaCounters, Statistics};
pub use trust::{Offence, Trust, TrustRules};

use rsm_model::alias_guids::AliasGuids;
use rsm_model::findings::Finding;
use rsm_state::Snapshot;

use self::events::{Events, NoticeReport, PublishedNotice, SubscriptionsView};
use self::guids::AliasRegistry;
use self::mcast::{
    GroupRegistry, GroupRegistryConfig, GroupRules, GroupsView, SavedGroup, Unexamined,
};
use self::refused_joins::RefusedJoins;
use self::reregister::LostRegistrations;
use self::services::{ServiceRegistry, ServicesView};
use self::trust::Offences;

/// Time after a start for which saved registrations count although no sweep has found their ports.
/// The sweep and bring-up of a large subnet take less time.
const RESTORED_FOR: Duration = Duration::from_secs(300);

/// A message as it arrived.
#[derive(Clone, Copy, Debug)]
pub struct SaRequest<'a> {
    /// Header and data, as received.
    pub bytes: &'a [u8],
    /// Address of the sender.
    pub requester: RemoteAddress,
}

/// Configuration of the SA.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SaConfig {
    /// The SA's SM_Key, which trusted requesters show; 0 if no requester is trusted.
    pub sm_key: u64,
    /// Whether tables include records of virtual ports even if the request names no port.
    pub lists_vports: bool,
    /// Rules for multicast groups and joins.
    pub groups: GroupRules,
    /// Rules about requests that ports make in the name of other ports.
    pub trust: TrustRules,
}

/// The registrations of hosts with the SA at one moment. While a value exists, the SA copies each
/// part that it changes.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    /// Multicast groups and their members.
    pub groups: GroupsView,
    /// Services that ports offer.
    pub services: ServicesView,
    /// Subscriptions to notices.
    pub subscriptions: SubscriptionsView,
    /// Alias GUIDs of ports.
    pub alias_guids: Arc<AliasGuids>,
}

/// The subnet administration agent.
#[derive(Debug)]
pub struct Sa {
    config: SaConfig,
    sa_snapshot: SaSnapshot,
    multicast: GroupRegistry,
    services: ServiceRegistry,
    guids: AliasRegistry,
    /// Whether the ports of `sa_snapshot` must still be compared with the ports of `compared`.
    must_compare_ports: bool,
    /// Ports whose memberships may have ended, because the port may be absent or in other
    /// partitions.
    unexamined: Unexamined,
    events: Events,
    reregister: LostRegistrations,
    refused_joins: RefusedJoins,
    offences: Offences,
    /// The last findings about refused joins, and the last findings about offences.
    findings: [Vec<Finding>; 2],
    /// The last directory whose ports were compared with the ports of its predecessor.
    compared: Option<Arc<Directory>>,
    /// Time of the last group set for the core, and the number of memberships examined for it.
    last_group_set: Option<(Time, u32)>,
    /// Time of the last alias GUIDs for the core, and their number.
    last_aliases: Option<(Time, u32)>,
    /// Time at which [`Sa::poll_save`] last returned a state.
    last_save: Option<Time>,
    /// Changes made by requests since the last [`Sa::take_touched`].
    touched: Vec<Touched>,
    statistics: Arc<Statistics>,
}

impl Sa {
    /// Creates an SA without a snapshot, which answers no request.
    pub fn new(config: SaConfig) -> Sa {
        let multicast = GroupRegistry::new(GroupRegistryConfig {
            rules: config.groups,
            ..GroupRegistryConfig::default()
        });
        Sa {
            config,
            sa_snapshot: SaSnapshot::default(),
            multicast,
            services: ServiceRegistry::default(),
            guids: AliasRegistry::default(),
            must_compare_ports: false,
            unexamined: Unexamined::default(),
            events: Events::default(),
            reregister: LostRegistrations::default(),
            refused_joins: RefusedJoins::default(),
            offences: Offences::default(),
            findings: [Vec::new(), Vec::new()],
            compared: None,
            last_group_set: None,
            last_aliases: None,
            last_save: None,
            touched: Vec::new(),
            statistics: Arc::default(),
        }
    }

    /// Whether requests are answered: this manager is master and has a plan.
    pub fn is_serving(&self) -> bool {
        self.sa_snapshot.in_force().is_some()
    }

    /// Answers from `snapshot` from now on. An answer in progress keeps the snapshot that it
    /// started with.
    pub fn replace(&mut self, snapshot: &Snapshot) {
        self.answer_from(SaSnapshot::of(snapshot, Some(&self.sa_snapshot)));
    }

    /// Answers from `sa_snapshot` from now on, as [`Sa::replace`] does. Another thread may have
    /// prepared `sa_snapshot`.
    pub fn answer_from(&mut self, sa_snapshot: SaSnapshot) {
        // Each join of a group changes the plan, but neither ports nor partitions.
        let has_same_ports = sa_snapshot.has_ports_of(&self.sa_snapshot);
        self.sa_snapshot = sa_snapshot;
        self.publish_alias_guids();
        if !self.is_serving() {
            // This manager no longer decides about joins.
            self.refused_joins.clear();
            self.offences.clear();
        }
        if has_same_ports {
            return;
        }
        if std::mem::replace(&mut self.must_compare_ports, true) {
            // A comparison would miss members that joined under an intermediate snapshot.
            self.unexamined.add_all();
        }
        if !self.sa_snapshot.is_master {
            // Another manager reports changes of ports to subscribers.
            self.compared = None;
        }
        if let Some(directory) = self.sa_snapshot.directory.as_ref() {
            let registry = &mut self.multicast;
            registry.configure(GroupRegistryConfig {
                packet_life_time: directory.plan.policy.ports.links.packet_life_time,
                subnet_prefix: directory.prefix(),
                rules: self.config.groups,
                ..GroupRegistryConfig::default()
            });
            let partitions = directory.plan.policy.partitions.list.len();
            registry.set_capacity(directory.multicast_capacity(), partitions);
            registry.set_ports(directory.ports());
            self.services.set_ports(directory.ports());
            // Well-known groups beyond the limits are not created.
            registry.set_well_known(&directory.well_known_groups());
        }
    }

    /// Passes the alias GUIDs of ports to the directory.
    fn publish_alias_guids(&mut self) {
        if let Some(directory) = &mut self.sa_snapshot.directory {
            *directory = Arc::new(directory.with_alias_index(self.guids.alias_index()));
        }
    }

    /// Handles a notice that a port sent to the subnet manager; subscribers get reports of it.
    pub fn notice(&mut self, notice: &Notice, now: Time) {
        let Some(directory) = self.sa_snapshot.in_force() else {
            return;
        };
        match PublishedNotice::of_trap(directory, notice) {
            Some(published) => self.events.publish(published, now),
            None => self.statistics.unknown_issuer(),
        }
    }

    /// The next report to a subscriber. `None` if no report is ready, or if other work must have
    /// its turn first; in the latter case, [`Sa::next_deadline`] has passed.
    pub fn poll_report(&mut self, now: Time) -> Option<NoticeReport> {
        let directory = self.sa_snapshot.in_force()?;
        self.events.poll_report(directory, now)
    }

    /// Records that the transport no longer waits for the answer to the report with this
    /// transaction ID.
    pub fn unanswered(&mut self, tid: Tid) {
        self.events.unanswered(tid);
    }

    /// The findings about refused joins, and about ports that make requests in the name of other
    /// ports or beyond their share. `None` if the findings cannot differ from those of the last
    /// call.
    pub fn poll_findings(&mut self, now: Time) -> Option<Vec<Finding>> {
        let directory = self.sa_snapshot.in_force().cloned();
        let directory = directory.as_deref();
        let polled = [
            self.refused_joins.poll(directory, now),
            self.offences.poll(directory, now),
        ];
        let has_changed = polled.iter().any(Option::is_some);
        for (last, polled) in self.findings.iter_mut().zip(polled) {
            if let Some(findings) = polled {
                *last = findings;
            }
        }
        has_changed.then(|| self.findings.concat())
    }

    /// Records that the port at `lid` made `requests` requests beyond a share that other code
    /// accounts for.
    pub fn record_excess(&mut self, lid: Lid, offence: Offence, requests: u64, now: Time) {
        let directory = self.sa_snapshot.in_force();
        let port = directory.and_then(|directory| Some(directory.end(directory.by_lid(lid)?).guid));
        if let Some(port) = port {
            self.offences.record_excess(port, offence, requests, now);
        }
    }

    /// Subscriptions to notices.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Restores saved state at the start of the daemon. Returns the number of skipped records.
    pub fn restore(&mut self, saved_state: SavedSaState, now: Time) -> usize {
        let SavedSaState {
            groups,
            services,
            guids,
            subscriptions,
        } = saved_state;
        if groups.is_empty() {
            // The broadcast group of IP over InfiniBand always exists, so a state without groups
            // was never saved.
            self.multicast.mark_memberships_unknown();
        }
        // Without an SM_Key, no subscriber is trusted.
        let trusts = self.config.sm_key != 0;
        let subscriptions = subscriptions.into_iter().map(|mut saved| {
            saved.trusted &= trusts;
            saved
        });
        // Each port counts as absent until it is examined.
        self.unexamined.add_all();
        let until = now + RESTORED_FOR;
        let skipped = [
            self.multicast.restore(groups, until),
            self.services.restore(services, now),
            self.guids.restore(&guids, until),
            self.events.restore(subscriptions, until),
        ];
        skipped.into_iter().sum()
    }

    /// Replaces all registrations by saved registrations, because another manager has been master
    /// in the meantime. Returns the number of skipped records.
    pub fn restore_anew(&mut self, saved_state: SavedSaState, now: Time) -> usize {
        let statistics = Arc::clone(&self.statistics);
        let mut anew = Sa::new(self.config.clone()).counting_in(statistics);
        let skipped = anew.restore(saved_state, now);
        anew.refused_joins = std::mem::take(&mut self.refused_joins);
        anew.refused_joins.clear();
        anew.offences = std::mem::take(&mut self.offences);
        anew.offences.clear();
        anew.answer_from(self.sa_snapshot.clone());
        *self = anew;
        skipped
    }

    /// The changes made by the requests answered since the last call. The owner must call this
    /// method after each [`Sa::handle`].
    pub fn take_touched(&mut self) -> Vec<Touched> {
        std::mem::take(&mut self.touched)
    }

    /// The registrations of hosts at this moment.
    pub fn holdings(&self) -> Holdings {
        Holdings {
            groups: self.multicast.view(),
            services: self.services.view(),
            subscriptions: self.events.view(),
            alias_guids: self.guids.alias_index().aliases().clone(),
        }
    }

    /// Groups and their members.
    pub fn multicast(&self) -> &GroupRegistry {
        &self.multicast
    }

    /// Services that ports offer.
    pub fn services(&self) -> &ServiceRegistry {
        &self.services
    }

    /// Alias GUIDs of ports.
    pub fn guids(&self) -> &AliasRegistry {
        &self.guids
    }

    /// Counts in `statistics` from now on. Other threads may count there as well, and read the
    /// counts.
    #[must_use]
    pub fn counting_in(mut self, statistics: Arc<Statistics>) -> Sa {
        self.statistics = statistics;
        self
    }

    /// The counters of requests and answers so far.
    pub fn counters(&self) -> SaCounters {
        self.statistics.counters()
    }
}
