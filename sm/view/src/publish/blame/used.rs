//! The directions of cables that packets of a job pass, or passed since the start of the question.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rsm_ids::{Guid, PortKey};
use rsm_plan::Plan;
use rsm_plan::adaptive::Adaptive;
use rsm_routing::engine::Routing;
use rsm_routing::topology::{PortUse, Topology};

use super::super::published::Published;
use super::job::Job;
use super::paths::{JobPaths, job_paths};

/// Maximum number of routes of earlier plans that are kept. Routes share unchanged tables.
const MAX_FORMER: usize = 7;

/// Routes that were in force until a time.
#[derive(Clone)]
pub(in crate::publish) struct FormerRoutes {
    in_force: Span,
    plan: Routes,
}

/// A time, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    from_unix_ms: u64,
    until_unix_ms: u64,
}

/// Routes of a plan, without the fabric that they were made for.
#[derive(Clone)]
struct Routes {
    topology: Arc<Topology>,
    routing: Arc<Routing>,
    adaptive: Option<Arc<Adaptive>>,
}

impl Routes {
    fn of(plan: &Plan) -> Routes {
        Routes {
            topology: plan.topology.clone(),
            routing: plan.routing.clone(),
            adaptive: plan.adaptive.clone(),
        }
    }
}

impl Span {
    /// How much is lost with routes that were in force then: the length of the span, as a share of
    /// the time since. Routes that led packets for a second of the last minute matter less than
    /// those of the hour before it.
    fn worth(&self, now_unix_ms: u64) -> f64 {
        let length = self.until_unix_ms.saturating_sub(self.from_unix_ms);
        let since = now_unix_ms.saturating_sub(self.until_unix_ms);
        length as f64 / since as f64
    }
}

/// The index of the span of the least worth, except the last one, which has just ended.
fn least_worth(spans: impl ExactSizeIterator<Item = Span>, now_unix_ms: u64) -> Option<usize> {
    let ended = spans.len().saturating_sub(1);
    let worths = spans.take(ended).map(|span| span.worth(now_unix_ms));
    let least = worths.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
    least.map(|(place, _)| place)
}

/// The routes that ended before the routes of `now`: `earlier`, followed by the routes of `before`,
/// which end at `at_unix_ms`, unless `now` has the same routes. At most [`MAX_FORMER`], those of the
/// greatest [worth](Span::worth). The first routes of a manager began with it, at
/// `began_unix_ms`.
pub(in crate::publish) fn former_routes(
    earlier: &Arc<[FormerRoutes]>,
    before: Option<&Plan>,
    now: Option<&Plan>,
    began_unix_ms: u64,
    at_unix_ms: u64,
) -> Arc<[FormerRoutes]> {
    let Some(before) = before else {
        return earlier.clone();
    };
    if now.is_some_and(|now| Arc::ptr_eq(&now.routing, &before.routing)) {
        return earlier.clone();
    }
    let mut former = earlier.to_vec();
    let last = earlier.last().map(|last| last.in_force.until_unix_ms);
    former.push(FormerRoutes {
        in_force: Span {
            from_unix_ms: last.unwrap_or(began_unix_ms),
            until_unix_ms: at_unix_ms,
        },
        plan: Routes::of(before),
    });
    if former.len() > MAX_FORMER
        && let Some(place) = least_worth(former.iter().map(|one| one.in_force), at_unix_ms)
    {
        former.remove(place);
    }
    former.into()
}

/// The use of a direction of a cable by a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Use {
    /// The receiving end.
    pub(super) peer: PortKey,
    /// Number of the job's ports that packets reach over this direction.
    pub(super) ports_behind: u32,
    /// Whether packets pass this direction at present; if not, they passed it earlier in the
    /// questioned time.
    pub(super) is_now: bool,
    /// The routes by which packets pass this direction: bit `n` for the earlier routes at index
    /// `n`, the oldest first, and [`NOW`].
    routes: u8,
}

/// The bit for the routes in force.
const NOW: u8 = 1 << MAX_FORMER;

/// The bits for all routes.
const ALWAYS: u8 = u8::MAX;

/// The directions of cables that a job uses, each by the sending port.
#[derive(Default, Debug)]
pub(super) struct UsedLinks {
    pub(super) directions: HashMap<PortKey, Use>,
    /// Both ends of each cable.
    ends: HashSet<PortKey>,
    nodes: HashSet<Guid>,
    /// Ports of the job that the routes do not contain.
    pub(super) unrouted: Vec<PortKey>,
    /// Pairs of the GUID of a port of the job and the GUID of a switch at which packets to it are
    /// dropped.
    pub(super) dead_ends: BTreeSet<(Guid, Guid)>,
    /// The times of the earlier routes, the oldest first.
    former: Vec<Span>,
    /// Time from which routes are known, in milliseconds since the Unix epoch, 0 if all routes of this
    /// run are.
    pub(super) known_from_unix_ms: u64,
}

impl UsedLinks {
    /// The links of `job` by the routes in force, and by earlier routes that were in force at or
    /// after `since_unix_ms`, in milliseconds since the Unix epoch.
    pub(super) fn find(published: &Published, job: &Job, since_unix_ms: u64) -> UsedLinks {
        let mut used = UsedLinks::default();
        if let Some(plan) = published.plan() {
            let routes = Routes::of(plan);
            let (ends, paths) = paths(&routes, job);
            for end in &paths.dead_ends {
                let destination = routes.topology.destinations()[end.destination].guid;
                let switch = routes.topology.switch(end.switch).guid;
                used.dead_ends.insert((destination, switch));
            }
            let is_routed = |guid: &Guid| ends.contains_key(guid);
            let unrouted = job.ports.iter().filter(|port| !is_routed(&port.guid));
            used.unrouted = unrouted.map(|port| port.key).collect();
            used.add(&routes.topology, &paths, NOW);
        }
        for (place, former) in published.former.iter().enumerate() {
            used.former.push(former.in_force);
            if former.in_force.until_unix_ms >= since_unix_ms {
                let (_, paths) = paths(&former.plan, job);
                used.add(&former.plan.topology, &paths, 1 << place);
            }
        }
        let first = published
            .former
            .first()
            .map(|first| first.in_force.from_unix_ms);
        used.known_from_unix_ms = first
            .filter(|&from| from != published.began_unix_ms)
            .unwrap_or(0);
        used.add_host_links(published, job);
        used
    }

    fn add(&mut self, topology: &Topology, paths: &JobPaths, routes: u8) {
        for link in &paths.links {
            if let PortUse::Link { peer, peer_port } = topology.port_use(link.switch, link.port) {
                let here = PortKey::new(topology.switch(link.switch).guid, link.port);
                let there = PortKey::new(topology.switch(peer).guid, peer_port);
                self.insert(here, there, link.destinations, routes);
            }
        }
    }

    /// Adds the cables of the job's ports, which all of their packets pass, and the cables of
    /// vanished adapters.
    fn add_host_links(&mut self, published: &Published, job: &Job) {
        let others = u32::try_from(job.ports.len()).unwrap_or(u32::MAX);
        let others = others.saturating_sub(1);
        let fabric = published.fabric();
        for port in &job.ports {
            if let Some(peer) = fabric.port(port.at).peer {
                self.insert(port.key, peer, others, ALWAYS);
                self.insert(peer, port.key, 1, ALWAYS);
            }
        }
        for gone in &job.gone {
            for (key, lost) in published.snapshot.expected.ports_of(gone.guid) {
                self.insert(key, lost.peer, others, ALWAYS & !NOW);
                self.insert(lost.peer, key, 1, ALWAYS & !NOW);
            }
        }
    }

    fn insert(&mut self, here: PortKey, peer: PortKey, ports_behind: u32, routes: u8) {
        self.ends.extend([here, peer]);
        self.nodes.extend([here.node, peer.node]);
        let new = Use {
            peer,
            ports_behind,
            is_now: routes & NOW != 0,
            routes,
        };
        let held = self.directions.entry(here).or_insert(new);
        if held.peer == peer {
            held.routes |= routes;
        } else if new.is_now && !held.is_now {
            *held = new;
        }
    }

    /// Whether packets passed the cable between two ports at a time, by the routes in force then.
    /// For a time whose routes are not known, the known routes before and after it decide.
    pub(super) fn passes_at(&self, a: PortKey, b: PortKey, at_unix_ms: u64) -> bool {
        let bits = routes_at(&self.former, at_unix_ms);
        let passes = |here, there| {
            let direction = self.directions.get(&here);
            direction.is_some_and(|to| to.peer == there && to.routes & bits != 0)
        };
        passes(a, b) || passes(b, a)
    }

    /// Whether a cable with this end is used.
    pub(super) fn has_end(&self, port: PortKey) -> bool {
        self.ends.contains(&port)
    }

    /// Whether packets of the job leave through this port.
    pub(super) fn sends_from(&self, port: PortKey) -> bool {
        self.directions.contains_key(&port)
    }

    /// Whether a cable of this node is used.
    pub(super) fn has_node(&self, node: Guid) -> bool {
        self.nodes.contains(&node)
    }

    /// Number of the job's ports behind the cable between two ports, in the direction with more
    /// ports; 0 if no direction is used.
    pub(super) fn ports_behind(&self, a: PortKey, b: PortKey) -> u32 {
        let behind = |here, there| {
            let direction = self.directions.get(&here);
            let direction = direction.filter(|direction| direction.peer == there);
            direction.map_or(0, |direction| direction.ports_behind)
        };
        behind(a, b).max(behind(b, a))
    }

    /// Number of used cables.
    pub(super) fn cables(&self) -> usize {
        let directions = self.directions.iter();
        let cables = directions.filter(|(here, to)| {
            let back = self.directions.get(&to.peer);
            **here < to.peer || back.is_none_or(|back| back.peer != **here)
        });
        cables.count()
    }
}

/// The bits for the routes in force at a time, in milliseconds since the Unix epoch. Former routes
/// were in force in the spans `former`; those around a gap stand for the gap.
fn routes_at(former: &[Span], at_unix_ms: u64) -> u8 {
    // Routes are replaced after the event that changed them, or together with it.
    let place = former.partition_point(|span| span.until_unix_ms < at_unix_ms);
    let Some(next) = former.get(place) else {
        return NOW;
    };
    let is_gap =
        |before: &Span| before.until_unix_ms < next.from_unix_ms && at_unix_ms <= next.from_unix_ms;
    match place.checked_sub(1) {
        Some(before) if is_gap(&former[before]) => 1 << place | 1 << before,
        _ => 1 << place,
    }
}

/// The destinations of the job's ports by GUID, and the paths between them.
fn paths(routes: &Routes, job: &Job) -> (HashMap<Guid, usize>, JobPaths) {
    let wanted: HashSet<Guid> = job.ports.iter().map(|port| port.guid).collect();
    let all = routes.topology.destinations().iter().enumerate();
    let ends: HashMap<Guid, usize> = all
        .filter(|(_, destination)| wanted.contains(&destination.guid))
        .map(|(index, destination)| (destination.guid, index))
        .collect();
    let mut indices: Vec<usize> = ends.values().copied().collect();
    indices.sort_unstable();
    let tables = &routes.routing.tables;
    let adaptive = routes.adaptive.as_ref().map(|adaptive| &adaptive.tables);
    let paths = job_paths(&routes.topology, tables, adaptive, &indices);
    (ends, paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The spans that are kept where routes changed at `changes`.
    fn kept(changes: &[u64]) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut from_unix_ms = 0;
        for &until_unix_ms in changes {
            spans.push(Span {
                from_unix_ms,
                until_unix_ms,
            });
            from_unix_ms = until_unix_ms;
            if spans.len() > MAX_FORMER {
                let place = least_worth(spans.iter().copied(), until_unix_ms);
                spans.remove(place.unwrap());
            }
        }
        spans
    }

    #[test]
    fn routes_of_the_hour_before_outlast_many_that_were_in_force_for_a_second() {
        let hour = 3_600_000;
        let changes: Vec<u64> = (0..40).map(|second| hour + 1000 * second).collect();
        assert_eq!(kept(&changes)[0].from_unix_ms, 0);
        assert_eq!(kept(&changes)[0].until_unix_ms, hour);
    }

    #[test]
    fn routes_around_a_gap_stand_for_it() {
        let span = |from_unix_ms, until_unix_ms| Span {
            from_unix_ms,
            until_unix_ms,
        };
        let former = [span(0, 100), span(150, 200), span(200, 300)];
        for (at, bits) in [
            (50, 0b001),
            (100, 0b001),
            (120, 0b011),
            (150, 0b011),
            (180, 0b010),
            (200, 0b010),
            (201, 0b100),
            (300, 0b100),
            (301, NOW),
        ] {
            assert_eq!(routes_at(&former, at), bits, "{at}");
        }
        assert_eq!(routes_at(&[], 5), NOW);
    }

    #[test]
    fn routes_of_this_night_outlast_those_of_a_week_ago() {
        let (day, minute) = (24 * 3_600_000, 60_000);
        let week = (1..=7).map(|number| number * day);
        let night = (1..=7).map(|number| 14 * day + 10 * number * minute);
        let changes: Vec<u64> = week.chain(night).collect();
        let of_night = kept(&changes);
        let of_night = of_night.iter().filter(|span| span.until_unix_ms > 14 * day);
        assert!(of_night.count() >= 5);
    }
}
