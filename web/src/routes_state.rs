//! The parts that all routes share.

use std::sync::Arc;

use axum::body::Bytes;
use rsm_api::{CountersQueries, Reader, Subnet};
use tokio::sync::{Semaphore, watch};

use crate::answer_cache::{CachedAnswer, SharedTexts};
use crate::graph::GraphCache;
use crate::metrics::{Exporter, Shard};

/// The parts that all routes share.
pub(crate) struct Shared {
    pub(crate) reader: Reader,
    pub(crate) subnet: Arc<dyn Subnet>,
    pub(crate) graphs: GraphCache,
    pub(crate) exporter: Exporter,
    pub(crate) counters: Option<Arc<dyn CountersQueries>>,
    /// The load of the links of the last graph, as JSON.
    pub(crate) load: CachedAnswer<Result<Bytes, String>>,
    /// The part of a scrape that comes from counters.
    pub(crate) sums: CachedAnswer<Bytes>,
    /// The part of a scrape that comes from counters, without the errors of ports, for scrapes of
    /// all ports.
    pub(crate) sums_with_ports: CachedAnswer<Bytes>,
    /// The scrapes of all ports.
    pub(crate) port_texts: SharedTexts<Shard>,
    /// The permits for scrapes of all ports.
    pub(crate) port_scrapes: Arc<Semaphore>,
    /// The permits for clients that follow changes.
    pub(crate) followers: Arc<Semaphore>,
    /// Becomes true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
}
