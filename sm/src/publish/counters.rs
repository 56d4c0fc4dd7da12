//! The performance counters of ports as the API shows them.

use std::cmp::Reverse;
use std::sync::Arc;

use rsm_api::model::{CountersState, Keyed, Page, PortId, PortOrder, PortTotals, Selector};
use rsm_api::resolve::resolve_node_or_port;
use rsm_api::{CountersError, CountersQueries, v1};
use rsm_ids::{Guid, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::perf::Counter;

use super::api_view::{api_key, core_key};
use super::published::Published;
use super::subnet::page;
use super::view::View;
use crate::counters::{Causes, CountersSnapshot, PortCounters, PortReading, TRAFFIC};
use crate::fabric::Fabric;
use crate::sweep::inventory::PortKey;

/// Access to the last readings of the counters, which another thread collects.
pub trait CountersSource: Send + Sync + 'static {
    /// The last readings. Does not wait.
    fn counters(&self) -> CountersSnapshot;
}

/// Answers readers from the last readings, with the names of the snapshot in force.
pub struct PublishedCounters {
    view: Arc<View>,
    source: Arc<dyn CountersSource>,
}

/// A node, or one of its ports.
type PartKey = (Guid, Option<PortNum>);

impl PublishedCounters {
    /// Shows the readings of `source`, in the subnet of `view`.
    pub fn new(view: Arc<View>, source: Arc<dyn CountersSource>) -> PublishedCounters {
        PublishedCounters { view, source }
    }

    fn now(&self) -> Time {
        self.view.clock.now()
    }

    /// The readings, if there are any.
    fn read(&self) -> Result<CountersSnapshot, CountersError> {
        let counters = self.source.counters();
        if !counters.is_collecting && counters.ports(None).next().is_none() {
            return Err(CountersError::NotRead);
        }
        Ok(counters)
    }

    fn shown(&self, port: &PortCounters<'_>, fabric: &Fabric, is_stale: bool) -> v1::PortCounters {
        let reading = port.reading;
        // Rates of an old reading are no rates of now.
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
        }
    }
}

fn description(fabric: &Fabric, node: Guid) -> String {
    let node = fabric.node_of(node);
    node.map_or_else(String::new, |node| node.description.clone())
}

/// The part that a request names.
fn part_of(
    published: &Published,
    part: Option<&Selector>,
) -> Result<Option<PartKey>, CountersError> {
    let part = part.map(|part| resolve_node_or_port(&published.names, part));
    Ok(part.transpose()?)
}

/// The ports of a part, or all, from the first one above `after` on.
fn ports_of<'a>(
    counters: &'a CountersSnapshot,
    after: Option<PortKey>,
    part: Option<PartKey>,
) -> impl Iterator<Item = PortCounters<'a>> {
    let after = after.max(part.and_then(before));
    let is_of_part = move |key: PortKey| {
        part.is_none_or(|(node, port)| {
            // Port 0 stands for its switch: it has no cable, and so no counters.
            let is_of_port = |port: PortNum| port == PortNum::ZERO || port == key.port;
            key.node == node && port.is_none_or(is_of_port)
        })
    };
    counters
        .ports(after)
        .take_while(move |port| part.is_none_or(|(node, _)| port.key.node <= node))
        .filter(move |port| is_of_part(port.key))
}

/// The value of a port in an order, the greater the earlier; `None` where it has none.
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
            let total: u64 = error_counters()
                .filter(|&counter| counter != Counter::RcvRemotePhysicalErrors)
                .filter_map(|counter| reading.total(counter))
                .fold(0, u64::saturating_add);
            let per_hour = reading.errors().map_or(0.0, |rates| rates.sum());
            (total > 0).then_some((per_hour, total))
        }
    }
}

impl CountersQueries for PublishedCounters {
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
        let mut stale = 0;
        let mut ranked: Vec<((f64, u64), PortCounters<'_>)> = Vec::new();
        for port in ports_of(&counters, None, part) {
            if counters.is_stale(&port, now) {
                stale += 1;
            } else if let Some(rank) = rank(order, port.reading) {
                ranked.push((rank, port));
            }
        }
        let total = ranked.len() as u64;
        ranked.sort_by(|(a, one), (b, other)| {
            let greater_first = b.0.total_cmp(&a.0).then(Reverse(a.1).cmp(&Reverse(b.1)));
            greater_first.then(one.key.cmp(&other.key))
        });
        ranked.truncate(limit);
        let shown = ranked
            .iter()
            .map(|(_, port)| self.shown(port, published.fabric(), false));
        Ok(v1::GetTopPortsResponse {
            ports: shown.collect(),
            total,
            stale,
            at_unix_ms: self.view.clock.unix_ms(now),
        })
    }

    fn each_port(&self, visit: &mut dyn FnMut(PortTotals<'_>)) {
        let counters = self.source.counters();
        let now = self.now();
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
                is_switch: port.agent.is_switch,
                totals: &totals,
                causes: &causes(reading.causes()),
                xmit_bytes_per_s: rates.map(|rates| rates.xmit_bytes.into()),
                rcv_bytes_per_s: rates.map(|rates| rates.rcv_bytes.into()),
                wait_share: rates.and_then(|rates| rates.wait_share).map(f64::from),
                use_share: reading.use_share().map(f64::from),
                errors_sum: errors.map_or(0.0, |errors| errors.sum()),
                errors_per_hour: &hourly,
            });
        }
    }

    fn state(&self) -> CountersState {
        let counters = self.source.counters();
        let now = self.now();
        let (mut ports, mut stale_ports) = (0, 0);
        for port in counters.ports(None) {
            match counters.is_stale(&port, now) {
                true => stale_ports += 1,
                false => ports += 1,
            }
        }
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

/// The key right before those of a node, so that a list of its ports begins there.
fn before((node, _): PartKey) -> Option<PortKey> {
    let before = Guid(node.0.checked_sub(1)?);
    Some(PortKey::new(before, PortNum(u8::MAX)))
}

/// The counters that count errors.
fn error_counters() -> impl Iterator<Item = Counter> {
    let counters = Counter::ALL.into_iter();
    counters.filter(|one| !TRAFFIC.contains(one))
}

/// The causes of PortRcvErrors and PortXmitDiscards by the specification's names (IBA 16.1.4.1 and
/// 16.1.4.2); none before they were read.
fn causes(causes: Option<&Causes>) -> Vec<(&'static str, u64)> {
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
    let named = rcv.into_iter().flatten().chain(xmit.into_iter().flatten());
    named.map(|(name, count)| (name, count.into())).collect()
}

/// The error counters that are not zero.
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
