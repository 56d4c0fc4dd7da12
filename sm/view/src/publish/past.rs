//! The past of the counters, in the form of the API.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rsm_api::model::{PastSpan, PortOrder};
use rsm_api::{CountersError, v1, with_causes};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_model::fabric::Fabric;
use rsm_past::{Counts, Moved, Part, PastReader, Point, Quantity, Span, Trend, Wanted};
use rsm_store::StoreError;

use super::api_view::{PartKey, api_key, description};

/// Bytes in one unit of PortXmitData and PortRcvData (IBA 16.1.3.5).
const WORD: f64 = 4.0;

/// Source of the past of the counters, which another thread writes.
pub trait PastSource: Send + Sync + 'static {
    /// A reader of the past; `None` while its folder cannot be used.
    fn past(&self) -> Option<PastReader>;
}

fn reader(source: Option<&dyn PastSource>) -> Result<PastReader, CountersError> {
    let source = source.ok_or(CountersError::NoPast)?;
    source.past().ok_or_else(|| CountersError::PastUnreadable {
        reason: "its folder cannot be used yet: the finding about the storage says why".to_owned(),
    })
}

fn unreadable(error: StoreError) -> CountersError {
    CountersError::PastUnreadable {
        reason: with_causes(&error),
    }
}

const fn span_of(span: PastSpan) -> Span {
    Span {
        since_unix_ms: span.since_unix_ms,
        until_unix_ms: span.until_unix_ms,
    }
}

/// Port of a part; `None` for a whole node. Port 0 stands for its switch.
fn port_of(part: PartKey) -> Option<PortKey> {
    let number = part.1.filter(|&number| number != PortNum::ZERO)?;
    Some(PortKey::new(part.0, number))
}

/// Series of a part, or of the fabric.
pub(super) fn series(
    fabric: &Fabric,
    source: Option<&dyn PastSource>,
    part: Option<PartKey>,
    span: PastSpan,
    step_seconds: Option<u32>,
) -> Result<v1::GetCounterSeriesResponse, CountersError> {
    let reader = reader(source)?;
    let port = part.and_then(port_of);
    let wanted = match (part, port) {
        (None, _) => Part::Fabric,
        (Some((node, _)), None) => Part::Node(node),
        (_, Some(port)) => Part::Port(port),
    };
    let step_ms = step_seconds.map(|seconds| u64::from(seconds) * 1000);
    let series = reader
        .series(wanted, span_of(span), step_ms)
        .map_err(unreadable)?;
    Ok(v1::GetCounterSeriesResponse {
        steps: series
            .points
            .iter()
            .map(|point| counter_step(point, series.step_ms))
            .collect(),
        // A step is at most as long as the span, which is some days.
        step_seconds: u32::try_from(series.step_ms / 1000).unwrap_or(u32::MAX),
        since_unix_ms: span.since_unix_ms,
        until_unix_ms: span.until_unix_ms,
        began_unix_ms: reader.began_unix_ms().unwrap_or(0),
        description: part.map_or_else(String::new, |(node, _)| description(fabric, node)),
        port: port.map(|port| api_key(port).into()),
    })
}

fn counter_step(point: &Point, step_ms: u64) -> v1::CounterStep {
    let seconds = point.port_seconds as f64 / f64::from(point.ports.max(1));
    let errors = Quantity::errors().filter(|&one| point.counts[one] > 0);
    v1::CounterStep {
        start_unix_ms: point.start_unix_ms,
        ports: point.ports,
        traffic: traffic(&point.counts, seconds),
        errors: errors
            .map(|quantity| v1::CountedErrors {
                name: quantity.name().to_owned(),
                count: point.counts[quantity],
                first_unix_ms: point.start_unix_ms,
                last_unix_ms: point.start_unix_ms.saturating_add(step_ms),
            })
            .collect(),
    }
}

/// Traffic over `seconds`; `None` if they are zero.
fn traffic(counts: &Counts, seconds: f64) -> Option<v1::CountedTraffic> {
    let rate = |quantity: Quantity| counts[quantity] as f64 / seconds;
    (seconds > 0.0).then(|| v1::CountedTraffic {
        xmit_bytes_per_s: rate(Quantity::XmitData) * WORD,
        rcv_bytes_per_s: rate(Quantity::RcvData) * WORD,
        xmit_packets_per_s: rate(Quantity::XmitPkts),
        rcv_packets_per_s: rate(Quantity::RcvPkts),
        wait_ticks_per_s: rate(Quantity::XmitWait),
    })
}

/// Trends of the ports of a node. A step without a reading has -1 bytes per second.
pub(super) fn trends(
    source: Option<&dyn PastSource>,
    node: Guid,
    span: PastSpan,
    step_seconds: Option<u32>,
) -> Result<v1::GetPortTrendsResponse, CountersError> {
    let step_ms = step_seconds.map(|seconds| u64::from(seconds) * 1000);
    let trends = reader(source)?.trends(node, span_of(span), step_ms);
    let trends = trends.map_err(unreadable)?;
    let steps = trends.steps.values();
    let numbers: BTreeSet<PortNum> = steps
        .clone()
        .flat_map(|ports| ports.keys().copied())
        .collect();
    let of_port = |number: PortNum| {
        let steps = steps.clone().map(|ports| ports.get(&number).copied());
        let steps: Vec<Trend> = steps.map(Option::unwrap_or_default).collect();
        let bytes_per_s = |trend: &Trend| match trend.seconds {
            0 => -1.0,
            seconds => trend.words as f64 * WORD / seconds as f64,
        };
        v1::PortTrend {
            port: Some(api_key(PortKey::new(node, number)).into()),
            bytes_per_s: steps.iter().map(bytes_per_s).collect(),
            errors: steps.iter().map(|trend| trend.errors).collect(),
        }
    };
    Ok(v1::GetPortTrendsResponse {
        ports: numbers.into_iter().map(of_port).collect(),
        step_start_unix_ms: trends.steps.keys().copied().collect(),
        step_seconds: u32::try_from(trends.step_ms / 1000).unwrap_or(u32::MAX),
    })
}

/// The first `limit` ports in `order` over a span, of a part or of the whole fabric.
pub(super) fn top(
    fabric: &Fabric,
    source: Option<&dyn PastSource>,
    (order, limit): (PortOrder, usize),
    part: Option<PartKey>,
    span: PastSpan,
) -> Result<v1::GetTopPortsSinceResponse, CountersError> {
    let reader = reader(source)?;
    let wanted = match order {
        PortOrder::Errors => Wanted::Errors,
        _ => Wanted::All,
    };
    let ports = part.map(ports_of);
    let mut ranked = reader
        .moved(ports.as_ref(), span_of(span), wanted)
        .map_err(unreadable)?;
    ranked.retain(|moved| {
        // A port that only counts packets which a switch could not relay comes last.
        let has_relay_errors = moved.counts[Quantity::RcvSwitchRelayErrors] > 0;
        rank(order, moved) > 0.0 || order == PortOrder::Errors && has_relay_errors
    });
    ranked.sort_by(|a, b| {
        let by_rank = rank(order, b).total_cmp(&rank(order, a));
        let by_errors = Reverse(a.counts.errors()).cmp(&Reverse(b.counts.errors()));
        by_rank.then(by_errors).then(a.port.cmp(&b.port))
    });
    let total = ranked.len() as u64;
    let first = ranked.iter().take(limit);
    Ok(v1::GetTopPortsSinceResponse {
        ports: first
            .map(|moved| counted_port(fabric, moved, wanted))
            .collect(),
        total,
        since_unix_ms: span.since_unix_ms,
        until_unix_ms: span.until_unix_ms,
        began_unix_ms: reader.began_unix_ms().unwrap_or(0),
    })
}

/// The port of a part; for a whole node, all port numbers that it can have.
fn ports_of(part: PartKey) -> BTreeSet<PortKey> {
    if let Some(port) = port_of(part) {
        return BTreeSet::from([port]);
    }
    let numbers = (0..=u8::MAX).map(PortNum);
    numbers.map(|number| PortKey::new(part.0, number)).collect()
}

/// Value of a port in an order, greater for a port that comes earlier; 0 if it has no value.
fn rank(order: PortOrder, moved: &Moved) -> f64 {
    let seconds = moved.seconds.max(1) as f64;
    let rate = |quantity: Quantity| moved.counts[quantity] as f64 / seconds;
    match order {
        PortOrder::Errors => moved.counts.errors() as f64,
        PortOrder::Wait => rate(Quantity::XmitWait),
        PortOrder::Unspecified | PortOrder::Use | PortOrder::Traffic => {
            rate(Quantity::XmitData) + rate(Quantity::RcvData)
        }
    }
}

fn counted_port(fabric: &Fabric, moved: &Moved, wanted: Wanted) -> v1::CountedPort {
    let peer = fabric
        .find_port(moved.port)
        .and_then(|at| fabric.port(at).peer);
    let traffic = traffic(&moved.counts, moved.seconds as f64);
    v1::CountedPort {
        port: Some(api_key(moved.port).into()),
        description: description(fabric, moved.port.node),
        peer: peer.map(|peer| api_key(peer).into()),
        peer_description: peer.map_or_else(String::new, |peer| description(fabric, peer.node)),
        seconds: moved.seconds,
        traffic: traffic.filter(|_| wanted == Wanted::All),
        errors: moved
            .errors
            .iter()
            .map(|(quantity, errors)| v1::CountedErrors {
                name: quantity.name().to_owned(),
                count: errors.count,
                first_unix_ms: errors.first_unix_ms,
                last_unix_ms: errors.last_unix_ms,
            })
            .collect(),
    }
}
