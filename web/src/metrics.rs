//! Metrics in the text format of Prometheus (version 0.0.4).
//!
//! `/metrics` has rsm's own and the fabric's, a line or a few for each kind. With `detail=ports` it
//! also has lines for every port, under the names and labels of `infiniband_exporter`; `shard=1/4`
//! gives the first of four parts of the nodes, so that several scrapes share a large fabric.

mod collectors;
mod counted;
mod counters;
mod gpus;
mod own;
mod ports;
mod text;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::routing::get;
use rsm_api::{Backend, CountersQueries, Gpus, SaQueries, Subnet};
use rsm_ids::Guid;
use serde::Deserialize;
use tokio::task::JoinError;

pub(crate) use self::counted::Counted;
use self::text::Text;
use crate::limits::MAX_SHARDS;
use crate::reply::{self, Reply, failure};
use crate::server::Shared;
use crate::shown::Moment;

/// The media type of the format.
const MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The parts that metrics come from.
pub(crate) struct Exporter {
    subnet: Arc<dyn Subnet>,
    sa: Option<Arc<dyn SaQueries>>,
    counters: Option<Arc<dyn CountersQueries>>,
    gpus: Option<Arc<dyn Gpus>>,
    counted: Arc<Counted>,
}

/// A part of the nodes, by their GUIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shard {
    /// The part, from 0.
    index: u64,
    /// How many parts there are.
    of: u64,
}

impl Shard {
    /// All nodes.
    const ALL: Shard = Shard { index: 0, of: 1 };

    /// Parses `2/4`, the second of four.
    fn parse(text: &str) -> Option<Shard> {
        let (number, of) = text.split_once('/')?;
        let (number, of): (u64, u64) = (number.parse().ok()?, of.parse().ok()?);
        let valid = (1..=of).contains(&number) && of <= MAX_SHARDS;
        valid.then(|| Shard {
            index: number - 1,
            of,
        })
    }

    /// Whether the node is in this part.
    fn has(self, node: Guid) -> bool {
        // GUIDs of one maker count up in steps: a multiplication spreads them (Knuth, 6.4).
        node.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) % self.of == self.index
    }
}

/// The fields of a scrape.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Question {
    detail: String,
    shard: String,
}

/// The extent of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scrape {
    /// rsm's own, and the fabric in sums.
    Summary,
    /// These, and each port of a part of the nodes; rsm's own only with the first part.
    Ports(Shard),
}

impl Scrape {
    /// Whether rsm's own are in it.
    fn has_own(self) -> bool {
        !matches!(self, Scrape::Ports(shard) if shard.index > 0)
    }
}

impl Question {
    fn scrape(&self) -> Result<Scrape, String> {
        let shard = match self.shard.as_str() {
            "" => Shard::ALL,
            text => Shard::parse(text).ok_or_else(|| {
                format!("shard: `{text}`, expected a part and their number such as 1/4, at most {MAX_SHARDS}")
            })?,
        };
        match self.detail.as_str() {
            "ports" => Ok(Scrape::Ports(shard)),
            "" if self.shard.is_empty() => Ok(Scrape::Summary),
            "" => Err("shard: only detail=ports has parts".to_owned()),
            other => Err(format!("detail: `{other}` is unknown, expected ports")),
        }
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

    /// rsm's own families, but for those of links.
    fn own(&self) -> Text {
        let mut text = Text::new();
        own::write(&mut text, self.subnet.as_ref());
        self.counted.write(&mut text);
        if let Some(sa) = &self.sa {
            own::sa(&mut text, &sa.counters());
        }
        if let Some(gpus) = &self.gpus {
            gpus::write(&mut text, gpus.as_ref());
        }
        text
    }

    /// Families of the whole fabric, of one walk over its ports where `with_ports` is not set.
    fn sums(&self, with_ports: bool) -> String {
        let mut text = Text::new();
        ports::switches(&mut text, self.subnet.as_ref());
        let counters = self.counters.as_deref();
        collectors::collectors(&mut text, self.subnet.as_ref(), counters);
        if let Some(counters) = counters {
            counters::sums(&mut text, counters, !with_ports);
        }
        text.finish()
    }

    /// Families of the ports of a part of the nodes. Takes some tenths of a second on a large
    /// fabric.
    fn ports(&self, shard: Shard) -> String {
        let mut text = Text::new();
        if let Some(counters) = self.counters.as_deref() {
            counters::ports(&mut text, counters, shard);
            collectors::devices(&mut text, counters, shard);
        }
        ports::write(&mut text, self.subnet.as_ref(), shard);
        text.finish()
    }
}

async fn scrape(State(shared): State<Arc<Shared>>, uri: Uri) -> Reply {
    let question: Result<Question, _> = serde_html_form::from_str(uri.query().unwrap_or_default());
    let scrape = match question.map_err(|error| error.to_string()) {
        Ok(question) => question.scrape(),
        Err(error) => Err(error),
    };
    let scrape = match scrape {
        Ok(scrape) => scrape,
        Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
    };
    match written(&shared, scrape).await {
        Ok(text) => reply::body(StatusCode::OK, MEDIA, text),
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// The parts of a scrape. Those about all ports are shared by scrapes of the same moment; rsm's own
/// are those of now.
async fn written(shared: &Arc<Shared>, scrape: Scrape) -> Result<Body, JoinError> {
    let moment = || Moment::now(shared.subnet.as_ref(), shared.counters.as_deref());
    let mut parts = Vec::new();
    if scrape.has_own() {
        // Links are counted where the graph is made; a graph as old as a page's will do.
        let drawn = shared.graphs.current().await;
        let exporter = Arc::clone(shared);
        let own = tokio::task::spawn_blocking(move || exporter.exporter.own().finish()).await?;
        let links = drawn.map_or_else(
            |_| String::new(),
            |drawn| own::links(drawn.links_active, drawn.links_not_active),
        );
        parts.push(Bytes::from(own + &links));
        let (exporter, with_ports) = (Arc::clone(shared), scrape != Scrape::Summary);
        let sums = move || Bytes::from(exporter.exporter.sums(with_ports));
        let kept = match with_ports {
            true => &shared.sums_with_ports,
            false => &shared.sums,
        };
        parts.push(kept.get(moment, sums).await?);
    }
    if let Scrape::Ports(shard) = scrape {
        let exporter = Arc::clone(shared);
        let make = move || exporter.exporter.ports(shard);
        let places = Arc::clone(&shared.port_scrapes);
        let text = shared.port_texts.get(shard, places, moment, make).await?;
        parts.push(text.bytes());
    }
    let parts = parts.into_iter().map(Ok::<_, Infallible>);
    Ok(Body::from_stream(tokio_stream::iter(parts)))
}

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/metrics", get(scrape))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(detail: &str, shard: &str) -> Option<Scrape> {
        let (detail, shard) = (detail.to_owned(), shard.to_owned());
        Question { detail, shard }.scrape().ok()
    }

    #[test]
    fn a_scrape_names_detail_and_part() {
        assert_eq!(asked("", ""), Some(Scrape::Summary));
        assert_eq!(asked("ports", ""), Some(Scrape::Ports(Shard::ALL)));
        let second = Shard { index: 1, of: 4 };
        assert_eq!(asked("ports", "2/4"), Some(Scrape::Ports(second)));
        for (detail, shard) in [
            ("port", ""),
            ("", "1/4"),
            ("ports", "0/4"),
            ("ports", "5/4"),
            ("ports", "1/0"),
            ("ports", "1/999999"),
            ("ports", "1"),
            ("ports", "-1/2"),
        ] {
            assert_eq!(asked(detail, shard), None, "{detail} {shard}");
        }
    }

    #[test]
    fn each_node_is_in_one_part_and_parts_are_alike() {
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
