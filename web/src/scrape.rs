//! The route of metrics: the query of a scrape, and the parts of its answer.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::routing::get;
use serde::Deserialize;
use tokio::task::JoinError;

use crate::answer_cache::AnswerKey;
use crate::limits::MAX_SHARDS;
use crate::metrics::{self, Shard};
use crate::reply::{self, Reply, failure};
use crate::routes_state::Shared;

/// The media type of Prometheus' text format.
const MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The fields of a scrape's query.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct ScrapeQuery {
    detail: String,
    shard: String,
}

/// The extent of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scrape {
    /// rsm's own metrics, and sums over the fabric.
    Summary,
    /// The metrics of [`Scrape::Summary`], and the metrics of each port in a shard; only the first
    /// shard has rsm's own metrics.
    Ports(Shard),
}

impl Scrape {
    /// Whether the scrape includes rsm's own metrics.
    fn has_own(self) -> bool {
        !matches!(self, Scrape::Ports(shard) if !shard.is_first())
    }
}

impl ScrapeQuery {
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

async fn scrape(State(shared): State<Arc<Shared>>, uri: Uri) -> Reply {
    let question: Result<ScrapeQuery, _> =
        serde_html_form::from_str(uri.query().unwrap_or_default());
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

/// Writes the parts of a scrape. Simultaneous scrapes share the parts about all ports; rsm's own
/// metrics are always current.
async fn written(shared: &Arc<Shared>, scrape: Scrape) -> Result<Body, JoinError> {
    let key = || AnswerKey::now(shared.subnet.as_ref(), shared.counters.as_deref());
    let mut parts = Vec::new();
    if scrape.has_own() {
        // The graph counts the links; a graph that is recent enough for the page is recent enough
        // here.
        let drawn = shared.graphs.current().await;
        let exporter = Arc::clone(shared);
        let own = tokio::task::spawn_blocking(move || exporter.exporter.own_families()).await?;
        let links = drawn.map_or_else(
            |_| String::new(),
            |drawn| metrics::links(drawn.links_active, drawn.links_not_active),
        );
        parts.push(Bytes::from(own + &links));
        let (exporter, with_ports) = (Arc::clone(shared), scrape != Scrape::Summary);
        let sums = move || Bytes::from(exporter.exporter.sums(with_ports));
        let kept = match with_ports {
            true => &shared.sums_with_ports,
            false => &shared.sums,
        };
        parts.push(kept.get(key, sums).await?);
    }
    if let Scrape::Ports(shard) = scrape {
        let exporter = Arc::clone(shared);
        let make = move || exporter.exporter.ports(shard);
        let places = Arc::clone(&shared.port_scrapes);
        let text = shared.port_texts.get(shard, places, key, make).await?;
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
        ScrapeQuery { detail, shard }.scrape().ok()
    }

    #[test]
    fn query_of_a_scrape_selects_detail_and_shard() {
        assert_eq!(asked("", ""), Some(Scrape::Summary));
        assert_eq!(asked("ports", ""), Some(Scrape::Ports(Shard::ALL)));
        let second = Shard::parse("2/4").unwrap();
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
}
