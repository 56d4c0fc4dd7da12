//! Evidence: its kinds with their weights, and the evidence that the present fabric shows.

use std::collections::{BTreeMap, BTreeSet};

use rsm_api::{thousands, v1};
use rsm_gdr::fabric::host_and_device;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::PortState;
use rsm_mad::wire::perf::Counter;
use rsm_model::text::count;

use super::Case;
use super::used::Use;

/// Minimum weight of evidence that makes the fabric likely at fault.
pub(super) const LIKELY: u32 = 60;

/// Minimum weight of evidence that makes the fabric *unlikely*, instead of *not*, at fault.
pub(super) const UNLIKELY: u32 = 20;

/// Minimum number of discarded packets of a port per hour that slows a job: each discarded packet
/// is sent again after a timeout.
const DISCARDS_PER_HOUR: f64 = 60.0;

/// Maximum number of hosts that evidence about a switch names.
const NAMED_HOSTS: usize = 3;

/// A kind of evidence; [the module](super) has the table of weights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    SwitchMissing,
    NoRoute,
    LinkDown,
    HostMissing,
    LinkErrors,
    LinkFlapped,
    LinkSlow,
    Discards,
    Congestion,
    HostRate,
    FindingError,
    FindingWarning,
    FewerPorts,
    Waits,
    FewErrors,
    LinkCame,
    RoutesChanged,
    NoPartition,
    SlowReceiver,
    Incast,
    Idle,
    ManagerChanged,
    OperatorActed,
}

impl Kind {
    /// The stable name, the weight, and the part that the evidence points to.
    pub(super) const fn row(self) -> (&'static str, u32, v1::BlameBearing) {
        use v1::BlameBearing::{Configuration, Context, Fabric, Host};
        match self {
            Kind::SwitchMissing => ("switch-missing", 100, Fabric),
            Kind::NoRoute => ("no-route", 100, Fabric),
            Kind::LinkDown => ("link-down", 100, Fabric),
            Kind::HostMissing => ("host-missing", 90, Fabric),
            Kind::LinkErrors => ("link-errors", 85, Fabric),
            Kind::LinkFlapped => ("link-flapped", 80, Fabric),
            Kind::LinkSlow => ("link-slow", 75, Fabric),
            Kind::Discards => ("discards", 70, Fabric),
            Kind::Congestion => ("congestion", 65, Fabric),
            Kind::HostRate => ("host-rate", 65, Fabric),
            Kind::FindingError => ("finding-error", 60, Fabric),
            Kind::FindingWarning => ("finding-warning", 40, Fabric),
            Kind::FewerPorts => ("fewer-ports", 40, Fabric),
            Kind::Waits => ("waits", 40, Fabric),
            Kind::FewErrors => ("few-errors", 30, Fabric),
            Kind::LinkCame => ("link-came", 30, Fabric),
            Kind::RoutesChanged => ("routes-changed", 10, Context),
            Kind::NoPartition => ("no-partition", 0, Configuration),
            Kind::SlowReceiver => ("slow-receiver", 0, Host),
            Kind::Incast => ("incast", 0, Host),
            Kind::Idle => ("idle", 0, Host),
            Kind::ManagerChanged => ("manager-changed", 0, Context),
            Kind::OperatorActed => ("operator-acted", 0, Context),
        }
    }

    pub(super) const fn weight(self) -> u32 {
        self.row().1
    }
}

/// The subject of evidence.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    /// A cable, with its lower end first.
    Cable(PortKey, PortKey),
    /// A port.
    Port(PortKey),
    /// A node.
    Node(Guid),
    /// Hosts by name.
    Hosts(String),
    /// The subnet.
    Subnet,
}

impl Place {
    pub(super) fn cable(a: PortKey, b: PortKey) -> Place {
        Place::Cable(a.min(b), a.max(b))
    }
}

/// One piece of evidence.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Evidence {
    pub(super) kind: Kind,
    pub(super) place: Place,
    pub(super) text: String,
    /// Beginning of the observed condition, in milliseconds since the Unix epoch; 0 if it is
    /// unknown.
    pub(super) from_unix_ms: u64,
    pub(super) remedy: String,
}

impl Case<'_> {
    /// The name of a port, as commands accept it: `leaf-03:7`.
    pub(super) fn port_name(&self, port: PortKey) -> String {
        let expected = &self.published.snapshot.expected;
        let node = expected.name(self.published.fabric(), port.node);
        format!("{node}:{}", port.port)
    }

    /// The end by which commands name a cable: the switch's end, if the other end is a host.
    pub(super) fn near_end(&self, a: PortKey, b: PortKey) -> PortKey {
        let fabric = self.published.fabric();
        let is_switch = |end: PortKey| self.published.snapshot.expected.is_switch(fabric, end.node);
        match (is_switch(a), is_switch(b)) {
            (false, true) => b,
            _ => a,
        }
    }

    /// Whether an end of a cable is a host.
    fn is_of_host(&self, a: PortKey, b: PortKey) -> bool {
        let (fabric, expected) = (self.published.fabric(), &self.published.snapshot.expected);
        ![a, b]
            .into_iter()
            .all(|end| expected.is_switch(fabric, end.node))
    }

    /// Instructions to repair a cable that loses packets.
    pub(super) fn repair_advice(&self, a: PortKey, b: PortKey) -> String {
        let port = self.port_name(self.near_end(a, b));
        match self.is_of_host(a, b) {
            true => format!(
                "clean or replace that cable or its transceivers; `rsmctl port reset {port}` trains the \
                 link again"
            ),
            false => format!(
                "`rsmctl drain {port}`, clean or replace that cable, `rsmctl undrain {port}`"
            ),
        }
    }

    /// Finds evidence in the state of ports and links, and in the routes.
    pub(super) fn find_port_evidence(&self, found: &mut Vec<Evidence>) {
        let fabric = self.published.fabric();
        for (&here, to) in &self.used.directions {
            if to.is_now {
                found.extend(self.inactive_port_evidence(here, to));
            }
            let low = here.min(to.peer);
            let slow = self
                .published
                .snapshot
                .slow_links
                .get(low, here.max(to.peer));
            let is_there = fabric.find_port(low).map(|at| fabric.port(at).peer);
            if slow.is_some() && is_there == Some(Some(here.max(to.peer))) {
                let port = self.port_name(self.near_end(here, to.peer));
                let rate = fabric
                    .find_port(low)
                    .and_then(|at| fabric.port(at).link_rate());
                let rate = rate.map_or_else(String::new, |rate| format!(" ({rate})"));
                found.push(Evidence {
                    kind: Kind::LinkSlow,
                    place: Place::cable(here, to.peer),
                    text: format!(
                        "the link carries less than its ends or its siblings do{rate}: all that pass it \
                         wait for it"
                    ),
                    from_unix_ms: 0,
                    remedy: format!(
                        "`rsmctl port reset {port}` trains it again; if it stays slow, replace the cable \
                         or its transceivers"
                    ),
                });
            }
        }
        for &(destination, switch) in &self.used.dead_ends {
            let port = self.published.index().port_of_guid(destination);
            let name = port.map_or_else(
                || destination.to_string(),
                |at| self.port_name(fabric.key(at)),
            );
            found.push(Evidence {
                kind: Kind::NoRoute,
                place: Place::Node(switch),
                text: format!("packets to {name} end there: its table leads nowhere"),
                from_unix_ms: 0,
                remedy: "`rsmctl findings --severity error` says why".to_owned(),
            });
        }
        for &port in &self.used.unrouted {
            found.push(Evidence {
                kind: Kind::NoRoute,
                place: Place::Port(port),
                text: "the port is in no route yet: no packet reaches it".to_owned(),
                from_unix_ms: 0,
                remedy: "`rsmctl status` says what rsm does; `rsmctl findings --node NODE`"
                    .to_owned(),
            });
        }
        self.compare_hosts(found);
    }

    /// Finds evidence in missing adapters of the job's hosts. A missing switch explains the
    /// adapters that were cabled only to missing switches, and replaces the evidence about these
    /// adapters and about its own lost links.
    pub(super) fn find_missing_adapters(&self, found: &mut Vec<Evidence>) {
        let mut hosts_by_dead_switch: BTreeMap<Guid, BTreeSet<String>> = BTreeMap::new();
        for gone in &self.job.gone {
            if let Some(switch) = self.dead_switch(gone.guid) {
                let host = host_and_device(&gone.description).map(|(host, _)| host.to_owned());
                let host = host.unwrap_or_else(|| gone.description.clone());
                hosts_by_dead_switch.entry(switch).or_default().insert(host);
                continue;
            }
            let lost = self.missing_record(gone.guid);
            found.push(Evidence {
                kind: Kind::HostMissing,
                place: Place::Node(gone.guid),
                text: match lost {
                    Some(lost) => format!("it is gone from {}: {}", lost.place, lost.seen),
                    None => "it is gone from the fabric".to_owned(),
                },
                from_unix_ms: lost.and_then(|lost| lost.lost_unix_ms).unwrap_or(0),
                remedy: "look at the host's power and cable; `rsmctl expect` has its place"
                    .to_owned(),
            });
        }
        let is_behind = |port: PortKey| hosts_by_dead_switch.contains_key(&port.node);
        let has_lost = |host: &str| {
            hosts_by_dead_switch
                .values()
                .any(|hosts| hosts.contains(host))
        };
        found.retain(|one| match &one.place {
            Place::Cable(a, b) => !is_behind(*a) && !is_behind(*b),
            Place::Port(port) => !is_behind(*port),
            Place::Hosts(host) => one.kind != Kind::FewerPorts || !has_lost(host),
            Place::Node(node) => {
                one.kind != Kind::LinkFlapped || !hosts_by_dead_switch.contains_key(node)
            }
            Place::Subnet => true,
        });
        for (switch, hosts) in hosts_by_dead_switch {
            let lost = self.missing_record(switch);
            let named: Vec<&str> = hosts.iter().take(NAMED_HOSTS).map(String::as_str).collect();
            let more = match hosts.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            found.push(Evidence {
                kind: Kind::SwitchMissing,
                place: Place::Node(switch),
                text: format!(
                    "the switch is gone, and {} of the job with it: {}{more}",
                    count(hosts.len(), "host", "hosts"),
                    named.join(", ")
                ),
                from_unix_ms: lost.and_then(|lost| lost.lost_unix_ms).unwrap_or(0),
                remedy: "look at the power and the management port of that switch".to_owned(),
            });
        }
    }

    /// The record of a missing node; `None` if the node is not missing.
    fn missing_record(&self, node: Guid) -> Option<&v1::Missing> {
        let mut lost = self.published.missing.iter();
        let lost =
            lost.find(|missing| missing.key.node == node && missing.key.number == PortNum::ZERO);
        lost.map(|missing| &missing.message)
    }

    /// The missing switch that explains a missing adapter: the first of the adapter's peers, if all
    /// of them are missing switches.
    fn dead_switch(&self, adapter: Guid) -> Option<Guid> {
        let (fabric, expected) = (self.published.fabric(), &self.published.snapshot.expected);
        let mut peers = expected.ports_of(adapter).map(|(_, port)| port.peer.node);
        let is_dead = |node: Guid| fabric.find(node).is_none() && expected.is_switch(fabric, node);
        let first = peers.next().filter(|&first| is_dead(first))?;
        peers.all(is_dead).then_some(first)
    }

    /// Evidence that a used port passes no data at present.
    fn inactive_port_evidence(&self, here: PortKey, to: &Use) -> Option<Evidence> {
        let fabric = self.published.fabric();
        let word = |end: PortKey, peer: PortKey| {
            let Some(at) = fabric.find_port(end) else {
                return Some("is gone");
            };
            let port = fabric.port(at);
            match port.state() {
                _ if port.peer != Some(peer) || !port.up => Some("has lost its link"),
                PortState::Active => None,
                _ => Some("is not Active: it passes no data"),
            }
        };
        let ends = [(here, to.peer), (to.peer, here)];
        let (end, word) = ends
            .into_iter()
            .find_map(|(end, peer)| Some((end, word(end, peer)?)))?;
        Some(Evidence {
            kind: Kind::LinkDown,
            place: Place::cable(here, to.peer),
            text: format!("{} {word}, and routes lead over it", self.port_name(end)),
            from_unix_ms: 0,
            remedy: self.repair_advice(here, to.peer),
        })
    }

    /// Finds hosts whose ports are slower or fewer than those of most hosts.
    fn compare_hosts(&self, found: &mut Vec<Evidence>) {
        let fabric = self.published.fabric();
        let rate = |at| fabric.port(at).link_rate().map(|rate| rate.data_mbps());
        let rates = self.job.ports.iter().filter_map(|port| rate(port.at));
        if let Some(most) = majority(rates) {
            for port in &self.job.ports {
                if let (Some(own), Some(peer)) = (rate(port.at), fabric.port(port.at).peer)
                    && own < most
                {
                    found.push(Evidence {
                        kind: Kind::HostRate,
                        place: Place::cable(port.key, peer),
                        text: format!(
                            "the host's port runs at {} Gb/s, most of the job's ports at {} Gb/s",
                            f64::from(own) / 1000.0,
                            f64::from(most) / 1000.0
                        ),
                        from_unix_ms: 0,
                        remedy: "a slower adapter or cable: leave that host out, or replace it"
                            .to_owned(),
                    });
                }
            }
        }
        let mut ports = vec![0u64; self.job.hosts.len()];
        for port in &self.job.ports {
            ports[port.host] += 1;
        }
        let Some(most) = majority(ports.iter().copied()) else {
            return;
        };
        for (host, &own) in self
            .job
            .hosts
            .iter()
            .zip(&ports)
            .filter(|(_, own)| **own < most)
        {
            found.push(Evidence {
                kind: Kind::FewerPorts,
                place: Place::Hosts(host.clone()),
                text: format!(
                    "the host has {} in the fabric, most of the job's hosts {most}",
                    count(own, "port", "ports")
                ),
                from_unix_ms: 0,
                remedy: format!("`rsmctl ports --node {host}` shows what its ports do"),
            });
        }
    }

    /// Finds evidence in the counters of ports. Returns the number of used directions of cables for
    /// which neither end was read.
    pub(super) fn find_counter_evidence(&self, found: &mut Vec<Evidence>) -> usize {
        let mut unread = 0;
        for (&here, to) in &self.used.directions {
            let sends = self.past.moves(here, self.since_unix_ms);
            let receives = self.past.moves(to.peer, self.since_unix_ms);
            unread += usize::from(sends.is_none() && receives.is_none());
            let place = Place::cable(here, to.peer);
            for (end, moves, is_receiver) in [(here, &sends, false), (to.peer, &receives, true)] {
                let errors = moves.iter().flat_map(|moves| &moves.errors);
                for moved in errors {
                    let is_of_end = match moved.counter {
                        Counter::LinkErrorRecovery | Counter::LinkDowned => true,
                        Counter::XmitDiscards => !is_receiver,
                        _ => is_receiver,
                    };
                    let Some((kind, text)) = self.classify_errors(moved).filter(|_| is_of_end)
                    else {
                        continue;
                    };
                    // Data that waits at a port for too long is discarded there: both have one
                    // cause.
                    let waits = moves.as_ref().and_then(|moves| moves.wait_share);
                    let waits = waits.is_some_and(|share| share >= super::waits::WAITING);
                    if moved.counter == Counter::XmitDiscards && waits {
                        continue;
                    }
                    found.push(Evidence {
                        kind,
                        place: place.clone(),
                        text: format!("{text} at {}", self.port_name(end)),
                        from_unix_ms: moved.from_unix_ms,
                        remedy: match kind {
                            Kind::LinkErrors => self.repair_advice(here, to.peer),
                            Kind::Discards => format!(
                                "`rsmctl counters {}` has the cause of the discards",
                                self.port_name(end)
                            ),
                            _ => String::new(),
                        },
                    });
                }
            }
        }
        unread
    }

    /// Kind and text of the evidence in an error counter that moved; `None` if healthy links show
    /// the same.
    fn classify_errors(&self, moved: &super::past::Moved) -> Option<(Kind, String)> {
        use rsm_config::Symptom;
        let is_new = moved.is_new;
        let number = thousands(moved.count);
        if moved.counter == Counter::XmitDiscards {
            let kind = match is_new && moved.per_hour >= DISCARDS_PER_HOUR {
                true => Kind::Discards,
                false => Kind::FewErrors,
            };
            return Some((kind, format!("{number} packets discarded instead of sent")));
        }
        let mut symptoms = Symptom::ALL.into_iter();
        let symptom = symptoms.find(|symptom| symptom.counter() == Some(moved.counter))?;
        let limit = f64::from(self.limits.of(symptom)?);
        let rate = thousands(moved.per_hour as u64);
        match (is_new, moved.per_hour >= limit) {
            (true, true) => Some((
                Kind::LinkErrors,
                format!(
                    "{number} {} ({rate} an hour, limit {limit})",
                    symptom.name()
                ),
            )),
            (false, true) => Some((
                Kind::FewErrors,
                format!("{number} {}, some of them from before", symptom.name()),
            )),
            // A good link has occasional symbol errors.
            (_, false) if symptom == Symptom::SymbolErrors => None,
            (_, false) => Some((
                Kind::FewErrors,
                format!("{number} {} (fewer than {limit} an hour)", symptom.name()),
            )),
        }
    }
}

/// The value of more than half of the items; `None` if there is none.
fn majority<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let all: usize = counts.values().sum();
    let mut counts = counts.into_iter();
    counts
        .find(|&(_, count)| 2 * count > all)
        .map(|(value, _)| value)
}
