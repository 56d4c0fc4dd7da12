//! The performance counters of ports as the API shows them.

use std::sync::Arc;

use rsm_api::model::{Keyed, Page, PortId, Selector};
use rsm_api::resolve::resolve_node_or_port;
use rsm_api::{CountersError, CountersQueries, v1};
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::perf::Counter;

use super::api_view::{api_key, core_key};
use super::subnet::page;
use super::view::View;
use crate::counters::{CountersSnapshot, PortCounters, PortReading, TRAFFIC};
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

impl PublishedCounters {
    /// Shows the readings of `source`, in the subnet of `view`.
    pub fn new(view: Arc<View>, source: Arc<dyn CountersSource>) -> PublishedCounters {
        PublishedCounters { view, source }
    }

    fn shown(&self, port: &PortCounters<'_>, description: &str) -> v1::PortCounters {
        let reading = port.reading;
        let rates = reading.rates();
        let total = |counter| reading.total(counter);
        v1::PortCounters {
            port: Some(api_key(port.key).into()),
            description: description.to_owned(),
            read_unix_ms: reading.at().map_or(0, |at| self.view.clock.unix_ms(at)),
            xmit_bytes: reading.xmit_bytes(),
            rcv_bytes: reading.rcv_bytes(),
            xmit_packets: total(Counter::XmitPkts),
            rcv_packets: total(Counter::RcvPkts),
            xmit_bytes_per_s: rates.map(|rates| rates.xmit_bytes.into()),
            rcv_bytes_per_s: rates.map(|rates| rates.rcv_bytes.into()),
            wait_share: rates.and_then(|rates| rates.wait_share).map(f64::from),
            errors: errors(reading),
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
        let part = part.map(|part| resolve_node_or_port(&published.names, part));
        let part = part.transpose()?;
        let counters = self.source.counters();
        if !counters.is_collecting && counters.ports(None).next().is_none() {
            return Err(CountersError::NotRead);
        }
        let after = after.map(core_key).max(part.and_then(before));
        let is_of_part = |key: PortKey| {
            part.is_none_or(|(node, port)| {
                // Port 0 stands for its switch: it has no cable, and so no counters.
                let is_of_port = |port: PortNum| port == PortNum::ZERO || port == key.port;
                key.node == node && port.is_none_or(is_of_port)
            })
        };
        let ports = counters
            .ports(after)
            .take_while(|port| part.is_none_or(|(node, _)| port.key.node <= node))
            .filter(|port| is_of_part(port.key));
        let ports = ports.map(|port| {
            let node = published.fabric().node_of(port.key.node);
            let description = node.map_or("", |node| node.description.as_str());
            Keyed {
                key: api_key(port.key),
                message: self.shown(&port, description),
            }
        });
        Ok(page(&published, ports, limit))
    }
}

/// The key right before those of a node, so that a list of its ports begins there.
fn before((node, _): (Guid, Option<PortNum>)) -> Option<PortKey> {
    let before = Guid(node.0.checked_sub(1)?);
    Some(PortKey::new(before, PortNum(u8::MAX)))
}

/// The error counters that are not zero.
fn errors(reading: &PortReading) -> Vec<v1::ErrorCounter> {
    let rates = reading.errors();
    let of_errors = Counter::ALL
        .into_iter()
        .filter(|one| !TRAFFIC.contains(one));
    let shown = of_errors.filter_map(|counter| {
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
