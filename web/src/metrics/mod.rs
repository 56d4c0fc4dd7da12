//! Metrics in the text format of Prometheus (version 0.0.4).
//!
//! `/metrics` has rsm's own metrics and the fabric's, with one or a few lines for each kind.
//! With `detail=ports` it also has lines for every port, under the names and labels of
//! `infiniband_exporter`; `shard=1/4` gives the first of four shards of the nodes, so that several
//! scrapes share a large fabric.

mod collectors;
mod counted;
mod counters;
mod gpus;
mod own;
mod ports;
mod text;

use std::sync::Arc;

use rsm_api::{Backend, CountersQueries, Gpus, SaQueries, Subnet};
use rsm_ids::Guid;

pub(crate) use self::counted::Counted;
pub(crate) use self::own::links;
use self::text::Text;
use crate::limits::MAX_SHARDS;

/// The parts of rsm from which metrics come.
pub(crate) struct Exporter {
    subnet: Arc<dyn Subnet>,
    sa: Option<Arc<dyn SaQueries>>,
    counters: Option<Arc<dyn CountersQueries>>,
    gpus: Option<Arc<dyn Gpus>>,
    counted: Arc<Counted>,
}

/// A part of the nodes, selected by their GUIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shard {
    /// The index of the shard, from 0.
    index: u64,
    /// The number of shards.
    of: u64,
}

impl Shard {
    /// The only shard, with all nodes.
    pub(crate) const ALL: Shard = Shard { index: 0, of: 1 };

    /// Parses `2/4`, which means the second of four.
    pub(crate) fn parse(text: &str) -> Option<Shard> {
        let (number, of) = text.split_once('/')?;
        let (number, of): (u64, u64) = (number.parse().ok()?, of.parse().ok()?);
        let valid = (1..=of).contains(&number) && of <= MAX_SHARDS;
        valid.then(|| Shard {
            index: number - 1,
            of,
        })
    }

    /// Whether this is the first shard.
    pub(crate) fn is_first(self) -> bool {
        self.index == 0
    }

    /// Whether the node belongs to this shard.
    fn has(self, node: Guid) -> bool {
        // GUIDs of one vendor ascend in steps: a multiplication spreads them (Knuth, 6.4).
        node.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) % self.of == self.index
    }
}

impl Exporter {
    pub(crate) fn new(backend: &Backend, counted: Arc<Counted>) -> Exporter {
        Exporter {
            subnet: Arc::clone(&backend.subnet),
            sa: backend.sa.clone(),
            counters: backend.counters.clone(),
            gpus: backend.gpus.clone(),
            counted,
        }
    }

    /// The metric families of rsm, except the families of links.
    pub(crate) fn own_families(&self) -> String {
        let mut text = Text::new();
        own::write(&mut text, self.subnet.as_ref());
        self.counted.write(&mut text);
        if let Some(sa) = &self.sa {
            own::sa(&mut text, &sa.counters());
        }
        if let Some(gpus) = &self.gpus {
            gpus::write(&mut text, gpus.as_ref());
        }
        text.finish()
    }

    /// The families of the whole fabric. The nonzero error counters of ports are included unless
    /// `with_ports` is set: the scrape then has all counters of ports.
    pub(crate) fn sums(&self, with_ports: bool) -> String {
        let mut text = Text::new();
        ports::switches(&mut text, self.subnet.as_ref());
        let counters = self.counters.as_deref();
        collectors::collectors(&mut text, self.subnet.as_ref(), counters);
        if let Some(counters) = counters {
            counters::sums(&mut text, counters, !with_ports);
        }
        text.finish()
    }

    /// The families of the ports in a shard of the nodes. Takes a few tenths of a second on a large
    /// fabric.
    pub(crate) fn ports(&self, shard: Shard) -> String {
        let mut text = Text::new();
        if let Some(counters) = self.counters.as_deref() {
            counters::ports(&mut text, counters, shard);
            collectors::devices(&mut text, self.subnet.as_ref(), counters, shard);
        }
        ports::write(&mut text, self.subnet.as_ref(), shard);
        text.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_in_one_shard_and_shards_have_similar_sizes() {
        let mut sizes = [0u32; 4];
        for node in 0..4096u64 {
            let guid = Guid(0x0002_c903_0000_0000 + node * 16);
            let parts = (0..4).filter(|&index| Shard { index, of: 4 }.has(guid));
            let parts: Vec<u64> = parts.collect();
            assert_eq!(parts.len(), 1);
            sizes[parts[0] as usize] += 1;
        }
        assert!(
            sizes.iter().all(|size| (824..1224).contains(size)),
            "{sizes:?}"
        );
    }
}
