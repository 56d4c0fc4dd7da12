//! The performance counters of ports, in the form of the API.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rsm_api::limits::MAX_TOP_PORTS;
use rsm_api::model::{
    AgentState, Answering, CountersState, Keyed, Page, PastSpan, PortId, PortOrder, PortTotals,
    Selector,
};
use rsm_api::resolve::{resolve_node, resolve_node_or_port};
use rsm_api::{CountersError, CountersQueries, v1};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::perf::Counter;
use rsm_model::fabric::Fabric;
use rsm_monitor::counters::{
    self, AgentCounters, Corrected, CountersSnapshot, MovedCorrections, PortCounters, PortReading,
    TRAFFIC, is_of_link,
};

use super::api_view::{self, PartKey, api_key, core_key, description};
use super::firmware;
use super::past::{self, PastSource};
use super::published::Published;
use super::subnet::page;
use super::view::View;

/// Source of the last readings of the counters, which another thread collects.
pub trait CountersSource: Send + Sync + 'static {
    /// The last readings. Does not wait.
    fn counters(&self) -> CountersSnapshot;
}

/// Lifetime of a cached answer. Readings become stale with time, so even an answer about unchanged
/// readings expires.
const ANSWER_LIFETIME: Duration = Duration::from_secs(1);

/// Answers readers from the last readings, with the names of the snapshot in force.
pub struct PublishedCounters {
    view: Arc<View>,
    source: Arc<dyn CountersSource>,
    /// Past of the counters; `None` without a past.
    past: Option<Arc<dyn PastSource>>,
    /// Rankings of all ports, in the order of [`ORDERS`]. Simultaneous readers wait for one
    /// computation.
    rankings: [Mutex<Option<CachedAnswer<Ranking>>>; ORDERS.len()],
    /// Number of ports with a current reading, and number of ports with a stale reading.
    counts: Mutex<Option<CachedAnswer<(u64, u64)>>>,
}

/// The orders in which ports can be ranked.
const ORDERS: [PortOrder; 4] = [
    PortOrder::Use,
    PortOrder::Traffic,
    PortOrder::Wait,
    PortOrder::Errors,
];

/// An answer about all ports, cached for further readers.
struct CachedAnswer<T> {
    /// Time of the readings that the answer is made from.
    read_at: Time,
    /// Time when the answer was made.
    made: Time,
    answer: T,
}

impl<T: Clone> CachedAnswer<T> {
    /// Returns the answer in `cached` if it is recent and made from the readings in `counters`;
    /// otherwise makes a new answer and keeps it.
    fn of(
        cached: &Mutex<Option<CachedAnswer<T>>>,
        counters: &CountersSnapshot,
        now: Time,
        make: impl FnOnce() -> T,
    ) -> T {
        let mut cached = cached.lock();
        if let Some(cached) = &*cached
            && cached.read_at == counters.at
            && now.since(cached.made) < ANSWER_LIFETIME
        {
            return cached.answer.clone();
        }
        let answer = make();
        *cached = Some(CachedAnswer {
            read_at: counters.at,
            made: now,
            answer: answer.clone(),
        });
        answer
    }
}

/// The first ports in an order.
#[derive(Clone, Default)]
struct Ranking {
    /// Ports in this order, the first [`MAX_TOP_PORTS`].
    first: Arc<[PortKey]>,
    /// Number of ports with a value in this order.
    total: u64,
    /// Number of ports whose reading is missing or stale.
    stale: u64,
}

impl Ranking {
    /// Ranks `ports` at `now`.
    fn of<'a>(
        order: PortOrder,
        counters: &'a CountersSnapshot,
        ports: impl Iterator<Item = PortCounters<'a>>,
        now: Time,
    ) -> Ranking {
        let mut stale = 0;
        let mut ranked: Vec<((f64, u64), PortKey)> = Vec::new();
        for port in ports {
            if counters.is_stale(&port, now) {
                stale += 1;
            } else if let Some(rank) = rank(order, port.reading) {
                ranked.push((rank, port.key));
            }
        }
        let total = ranked.len() as u64;
        let greater_first = |(a, one): &((f64, u64), PortKey),
                             (b, other): &((f64, u64), PortKey)| {
            let by_rank = b.0.total_cmp(&a.0).then(Reverse(a.1).cmp(&Reverse(b.1)));
            by_rank.then(one.cmp(other))
        };
        if ranked.len() > MAX_TOP_PORTS {
            ranked.select_nth_unstable_by(MAX_TOP_PORTS, greater_first);
            ranked.truncate(MAX_TOP_PORTS);
        }
        ranked.sort_unstable_by(greater_first);
        Ranking {
            first: ranked.into_iter().map(|(_, key)| key).collect(),
            total,
            stale,
        }
    }
}

impl PublishedCounters {
    /// Creates a view of the readings of `source`, in the subnet of `view`.
    pub fn new(view: Arc<View>, source: Arc<dyn CountersSource>) -> PublishedCounters {
        PublishedCounters {
            view,
            source,
            past: None,
            rankings: Default::default(),
            counts: Mutex::default(),
        }
    }

    /// Answers queries about the past from `past`.
    #[must_use]
    pub fn keeping(mut self, past: Option<Arc<dyn PastSource>>) -> PublishedCounters {
        self.past = past;
        self
    }

    /// Ranks the ports of a part, or of the whole fabric if `part` is `None`.
    fn ranking(
        &self,
        order: PortOrder,
        counters: &CountersSnapshot,
        part: Option<PartKey>,
        now: Time,
    ) -> Ranking {
        let make = || Ranking::of(order, counters, ports_of(counters, None, part), now);
        let place = ORDERS.iter().position(|&one| one == order);
        match place.filter(|_| part.is_none()) {
            Some(place) => CachedAnswer::of(&self.rankings[place], counters, now, make),
            None => make(),
        }
    }

    fn now(&self) -> Time {
        self.view.clock.now()
    }

    /// The last readings; an error if counters are not collected and none were read.
    fn read(&self) -> Result<CountersSnapshot, CountersError> {
        let counters = self.source.counters();
        if !counters.is_collecting && counters.ports(None).next().is_none() {
            return Err(CountersError::NotRead);
        }
        Ok(counters)
    }

    fn shown(&self, port: &PortCounters<'_>, fabric: &Fabric, is_stale: bool) -> v1::PortCounters {
        let reading = port.reading;
        // The rates of a stale reading are no longer valid.
        let rates = reading.rates().filter(|_| !is_stale);
        let total = |counter| reading.total(counter);
        let peer = fabric
            .find_port(port.key)
            .and_then(|at| fabric.port(at).peer);
        v1::PortCounters {
            port: Some(api_key(port.key).into()),
            description: description(fabric, port.key.node),
            read_unix_ms: reading.at().map_or(0, |at| self.view.clock.unix_ms(at)),
            xmit_bytes: reading.xmit_bytes(),
            rcv_bytes: reading.rcv_bytes(),
            xmit_packets: total(Counter::XmitPkts),
            rcv_packets: total(Counter::RcvPkts),
            xmit_bytes_per_s: rates.map(|rates| rates.xmit_bytes.into()),
            rcv_bytes_per_s: rates.map(|rates| rates.rcv_bytes.into()),
            wait_share: rates.and_then(|rates| rates.wait_share).map(f64::from),
            errors: errors(reading),
            stale: is_stale,
            use_share: reading.use_share().filter(|_| !is_stale).map(f64::from),
            errors_per_hour: match is_stale {
                true => 0.0,
                false => reading.errors().map_or(0.0, |rates| rates.sum()),
            },
            peer: peer.map(|peer| api_key(peer).into()),
            peer_description: peer.map_or_else(String::new, |peer| description(fabric, peer.node)),
            kind: kind_of(fabric, port.key.node).into(),
            peer_kind: peer
                .map_or(v1::NodeKind::Unspecified, |peer| kind_of(fabric, peer.node))
                .into(),
            errors_observed_s: match is_stale {
                true => 0.0,
                false => reading
                    .errors()
                    .map_or(0.0, |rates| rates.observed().as_secs_f64()),
            },
            error_correction: reading.corrected().map(|done| self.correction(done)),
        }
    }

    fn correction(&self, done: &Corrected) -> v1::ErrorCorrection {
        let per_hour =
            |moved: MovedCorrections| moved.lost_blocks as f64 * 3600.0 / moved.over.as_secs_f64();
        v1::ErrorCorrection {
            read_unix_ms: self.view.clock.unix_ms(done.at),
            corrected_per_s: done.symbols_per_s(),
            mendable_per_s: (done.mendable_per_s > 0.0).then(|| done.mendable_per_s.into()),
            lost_blocks_per_hour: done.moved.map(per_hour),
            full: done.is_full(),
        }
    }
}

/// The part that a request names; `None` if the request names no part.
fn part_of(
    published: &Published,
    part: Option<&Selector>,
) -> Result<Option<PartKey>, CountersError> {
    let part = part.map(|part| resolve_node_or_port(&published.names, part));
    Ok(part.transpose()?)
}

/// Ports of a part, or of the whole fabric, whose keys are greater than `after`, in ascending order
/// of key.
fn ports_of<'a>(
    counters: &'a CountersSnapshot,
    after: Option<PortKey>,
    part: Option<PartKey>,
) -> impl Iterator<Item = PortCounters<'a>> {
    let after = after.max(part.and_then(before));
    let is_of_part = move |key: PortKey| {
        part.is_none_or(|(node, port)| {
            // Port 0 stands for its switch: it has no cable, and therefore no counters.
            let is_of_port = |port: PortNum| port == PortNum::ZERO || port == key.port;
            key.node == node && port.is_none_or(is_of_port)
        })
    };
    counters
        .ports(after)
        .take_while(move |port| part.is_none_or(|(node, _)| port.key.node <= node))
        .filter(move |port| is_of_part(port.key))
}

/// Sort value of a port in an order, greater for a port that comes earlier; `None` if the port has
/// no value.
fn rank(order: PortOrder, reading: &PortReading) -> Option<(f64, u64)> {
    let rates = reading.rates();
    match order {
        PortOrder::Unspecified | PortOrder::Use => Some((reading.use_share()?.into(), 0)),
        PortOrder::Traffic => rates.map(|rates| {
            let sum = f64::from(rates.xmit_bytes) + f64::from(rates.rcv_bytes);
            (sum, 0)
        }),
        PortOrder::Wait => Some((rates?.wait_share?.into(), 0)),
        PortOrder::Errors => {
            let total = |is_meant: &dyn Fn(Counter) -> bool| {
                let counters = error_counters().filter(|&counter| is_meant(counter));
                let totals = counters.filter_map(|counter| reading.total(counter));
                totals.fold(0, u64::saturating_add)
            };
            let of_link = total(&is_of_link);
            // Packets that a switch could not relay come last: they hide no error of a link.
            let relay = total(&|counter| counter == Counter::RcvSwitchRelayErrors);
            let per_hour = reading.errors().map_or(0.0, |rates| rates.sum());
            (of_link > 0 || relay > 0).then_some((per_hour, of_link))
        }
    }
}

impl CountersQueries for PublishedCounters {
    fn firmware(&self, after: Option<Guid>, limit: usize) -> Page<Keyed<Guid, v1::DeviceFirmware>> {
        let published = self.view.published();
        let counters = self.source.counters();
        let nodes = firmware::shown(&published, &counters, after);
        page(&published, nodes, limit)
    }

    fn ports(
        &self,
        after: Option<PortId>,
        limit: usize,
        part: Option<&Selector>,
    ) -> Result<Page<Keyed<PortId, v1::PortCounters>>, CountersError> {
        let published = self.view.published();
        let part = part_of(&published, part)?;
        let counters = self.read()?;
        let now = self.now();
        let ports = ports_of(&counters, after.map(core_key), part).map(|port| Keyed {
            key: api_key(port.key),
            message: self.shown(&port, published.fabric(), counters.is_stale(&port, now)),
        });
        Ok(page(&published, ports, limit))
    }

    fn top(
        &self,
        order: PortOrder,
        limit: usize,
        part: Option<&Selector>,
    ) -> Result<v1::GetTopPortsResponse, CountersError> {
        let published = self.view.published();
        let part = part_of(&published, part)?;
        let counters = self.read()?;
        let now = self.now();
        let Ranking {
            first,
            total,
            stale,
        } = self.ranking(order, &counters, part, now);
        let ranked = first.iter().take(limit);
        let shown = ranked
            .filter_map(|&key| counters.port(key))
            .map(|port| self.shown(&port, published.fabric(), false));
        Ok(v1::GetTopPortsResponse {
            ports: shown.collect(),
            total,
            stale,
            at_unix_ms: self.view.clock.unix_ms(now),
        })
    }

    fn series(
        &self,
        part: Option<&Selector>,
        span: PastSpan,
        step_seconds: Option<u32>,
    ) -> Result<v1::GetCounterSeriesResponse, CountersError> {
        let published = self.view.published();
        let part = part_of(&published, part)?;
        past::series(
            published.fabric(),
            self.past.as_deref(),
            part,
            span,
            step_seconds,
        )
    }

    fn trends(
        &self,
        node: &Selector,
        span: PastSpan,
        step_seconds: Option<u32>,
    ) -> Result<v1::GetPortTrendsResponse, CountersError> {
        let published = self.view.published();
        let node = resolve_node(&published.names, node)?;
        past::trends(self.past.as_deref(), node, span, step_seconds)
    }

    fn top_since(
        &self,
        order: PortOrder,
        limit: usize,
        part: Option<&Selector>,
        span: PastSpan,
    ) -> Result<v1::GetTopPortsSinceResponse, CountersError> {
        let published = self.view.published();
        let part = part_of(&published, part)?;
        let past = self.past.as_deref();
        past::top(published.fabric(), past, (order, limit), part, span)
    }

    fn now_unix_ms(&self) -> u64 {
        self.view.clock.unix_ms(self.now())
    }

    fn pass(&self) -> u64 {
        self.source.counters().at.as_nanos()
    }

    fn each_port(&self, visit: &mut dyn FnMut(PortTotals<'_>)) {
        let counters = self.source.counters();
        let now = self.now();
        let published = self.view.published();
        let guid_of = |port: &PortCounters<'_>| port_guid(published.fabric(), port.key, port.agent);
        let (mut totals, mut hourly) = (Vec::new(), Vec::new());
        for port in counters.ports(None) {
            if counters.is_stale(&port, now) {
                continue;
            }
            let reading = port.reading;
            let (rates, errors) = (reading.rates(), reading.errors());
            totals.clear();
            hourly.clear();
            for counter in Counter::ALL {
                let total = reading.total(counter);
                totals.extend(total.map(|total| (counter.name(), total)));
            }
            if let Some(errors) = errors {
                let of_kind = |counter: Counter| (counter.name(), errors.per_hour(counter));
                hourly.extend(
                    error_counters()
                        .map(of_kind)
                        .filter(|&(_, rate)| rate > 0.0),
                );
            }
            visit(PortTotals {
                port: api_key(port.key),
                guid: guid_of(&port),
                is_switch: port.agent.is_switch,
                totals: &totals,
                causes: &causes(reading),
                xmit_bytes_per_s: rates.map(|rates| rates.xmit_bytes.into()),
                rcv_bytes_per_s: rates.map(|rates| rates.rcv_bytes.into()),
                wait_share: rates.and_then(|rates| rates.wait_share).map(f64::from),
                use_share: reading.use_share().map(f64::from),
                errors_sum: errors.map_or(0.0, |errors| errors.sum()),
                errors_per_hour: &hourly,
            });
        }
    }

    fn each_agent(&self, visit: &mut dyn FnMut(AgentState)) {
        let counters = self.source.counters();
        let published = self.view.published();
        for agent in counters.agents() {
            visit(AgentState {
                node: agent.key.node,
                guid: port_guid(published.fabric(), agent.key, agent),
                is_switch: agent.is_switch,
                answering: match agent.state {
                    counters::AgentState::New => Answering::New,
                    counters::AgentState::Answers => Answering::Answers,
                    counters::AgentState::Silent(_) => Answering::Silent,
                    counters::AgentState::Unreadable => Answering::Unreadable,
                },
                took: agent.took,
            });
        }
    }

    fn state(&self) -> CountersState {
        let counters = self.source.counters();
        let now = self.now();
        let (ports, stale_ports) = CachedAnswer::of(&self.counts, &counters, now, || {
            let (mut ports, mut stale_ports) = (0, 0);
            for port in counters.ports(None) {
                match counters.is_stale(&port, now) {
                    true => stale_ports += 1,
                    false => ports += 1,
                }
            }
            (ports, stale_ports)
        });
        let stats = counters.stats;
        CountersState {
            is_collecting: counters.is_collecting,
            agents: stats.agents as u64,
            silent_agents: stats.silent as u64,
            ports,
            stale_ports,
            requests: stats.sent,
            results: [
                ("answered", stats.answered),
                ("timed-out", stats.timed_out),
                ("refused", stats.refused),
                ("busy", stats.busy),
                ("redirected", stats.redirected),
            ],
            resets: stats.resets,
            behind: stats.behind,
        }
    }
}

/// GUID of a port; the node GUID for a switch, and for a port that is no longer in the fabric.
fn port_guid(fabric: &Fabric, key: PortKey, agent: &AgentCounters) -> Guid {
    let port = (!agent.is_switch).then(|| fabric.find_port(key)).flatten();
    port.map_or(key.node, |at| fabric.port(at).guid)
}

/// Key before a node's first port, so that a list after it begins with that port; `None` if no key
/// precedes it.
fn before((node, _): PartKey) -> Option<PortKey> {
    let before = Guid(node.0.checked_sub(1)?);
    Some(PortKey::new(before, PortNum(u8::MAX)))
}

/// The error counters.
fn error_counters() -> impl Iterator<Item = Counter> {
    let counters = Counter::ALL.into_iter();
    counters.filter(|one| !TRAFFIC.contains(one))
}

/// Causes of PortRcvErrors and PortXmitDiscards by the specification's names (IBA 16.1.4.1 and
/// 16.1.4.2), and results of forward error correction (IBA 16.1.4.12); empty if none of them has
/// been read.
fn causes(reading: &PortReading) -> Vec<(&'static str, u64)> {
    let causes = reading.causes();
    let rcv = causes.and_then(|causes| causes.rcv).map(|rcv| {
        [
            ("PortLocalPhysicalErrors", rcv.local_physical),
            ("PortMalformedPacketErrors", rcv.malformed_packet),
            ("PortBufferOverrunErrors", rcv.buffer_overrun),
            ("PortDLIDMappingErrors", rcv.dlid_mapping),
            ("PortVLMappingErrors", rcv.vl_mapping),
            ("PortLoopingErrors", rcv.looping),
        ]
    });
    let xmit = causes.and_then(|causes| causes.xmit).map(|xmit| {
        [
            ("PortInactiveDiscards", xmit.inactive),
            ("PortNeighborMTUDiscards", xmit.neighbor_mtu),
            ("PortSwLifetimeLimitDiscards", xmit.lifetime),
            ("PortSwHOQLifetimeLimitDiscards", xmit.hoq_lifetime),
        ]
    });
    let corrections = reading.corrected().map(|corrected| {
        let done = corrected.counters;
        [
            ("SyncHeaderErrorCounter", done.sync_header_errors.into()),
            ("UnknownBlockCounter", done.unknown_blocks.into()),
            ("PortFECCorrectableBlockCtr", done.correctable_blocks.into()),
            (
                "PortFECUncorrectableBlockCtr",
                done.uncorrectable_blocks.into(),
            ),
            ("PortFECCorrectedSymbolCtr", done.corrected_symbols.into()),
        ]
    });
    let named = rcv.into_iter().flatten().chain(xmit.into_iter().flatten());
    let named = named.map(|(name, count)| (name, count.into()));
    named.chain(corrections.into_iter().flatten()).collect()
}

/// Error counters that are not zero.
fn errors(reading: &PortReading) -> Vec<v1::ErrorCounter> {
    let rates = reading.errors();
    let shown = error_counters().filter_map(|counter| {
        let total = reading.total(counter).filter(|&total| total > 0)?;
        Some(v1::ErrorCounter {
            name: counter.name().to_owned(),
            total,
            per_hour: rates.map_or(0.0, |rates| rates.per_hour(counter)),
            full: reading.is_full(counter),
        })
    });
    shown.collect()
}

/// The kind of a node; unspecified if it has left the subnet.
fn kind_of(fabric: &Fabric, node: Guid) -> v1::NodeKind {
    let node = fabric.node_of(node);
    node.map_or(v1::NodeKind::Unspecified, api_view::kind)
}
