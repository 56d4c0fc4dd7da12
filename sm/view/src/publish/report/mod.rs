//! The report: named checks of the subnet and its manager.
//!
//! The verdict of a check follows from its measurement, and from the findings of its [`Topic`]:
//! each kind of finding belongs to one topic, so that none is missing from the report. A check that
//! cannot be made is *not known*, and states the reason.

mod capacity;
mod checks;
mod counted;
mod host;
mod orders;
mod partitions;
mod parts;
mod redundancy;
mod topic;

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_api::model::MulticastGroupFilter;
use rsm_api::{BoxFuture, CountersQueries, Gpus, Reports, SaQueries, v1};

pub(super) use self::checks::{Sources, make_checks};
use self::checks::{all_firmware, errors, errors_of_day, waits};
pub use self::host::{HostFact, HostFacts};
use self::topic::Topic;
use super::analysis::{RouteAnalyst, compute};
use super::view::View;

/// Answers requests for the report.
pub struct Reporter {
    view: Arc<View>,
    routing: Arc<RouteAnalyst>,
    counters: Arc<dyn CountersQueries>,
    gpus: Arc<dyn Gpus>,
    sa: Arc<dyn SaQueries>,
    host: Arc<dyn HostFacts>,
}

impl Reporter {
    /// Creates a reporter on the subnet in `view`, and on the host of its manager.
    pub fn new(
        view: Arc<View>,
        routing: Arc<RouteAnalyst>,
        counters: Arc<dyn CountersQueries>,
        gpus: Arc<dyn Gpus>,
        sa: Arc<dyn SaQueries>,
        host: Arc<dyn HostFacts>,
    ) -> Reporter {
        Reporter {
            view,
            routing,
            counters,
            gpus,
            sa,
            host,
        }
    }

    /// Number of multicast LIDs in use; `None` if the SA does not answer.
    async fn multicast_lids(&self) -> Option<usize> {
        let all = MulticastGroupFilter::default();
        let groups = self.sa.multicast_groups(None, usize::MAX, all).await.ok()?;
        let lids = groups.items.iter().map(|group| group.message.mlid);
        Some(lids.collect::<BTreeSet<u32>>().len())
    }
}

impl Reports for Reporter {
    fn report(&self) -> BoxFuture<'_, v1::Report> {
        Box::pin(async move {
            let spread = self.routing.spread().await;
            let multicast_lids = self.multicast_lids().await;
            let published = self.view.published();
            let generation = published.generation;
            let (counters, gpus) = (self.counters.clone(), self.gpus.clone());
            let host = self.host.clone();
            let checks = move || {
                let sources = Sources {
                    published,
                    spread: spread.map_err(|error| error.to_string()),
                    counters: counters.state(),
                    errors: errors(counters.as_ref()),
                    day: errors_of_day(counters.as_ref()),
                    waits: waits(counters.as_ref()),
                    firmware: all_firmware(counters.as_ref()),
                    gpus: rsm_api::gpu_status(gpus.as_ref()),
                    multicast_lids,
                    host,
                };
                make_checks(&sources)
            };
            let made = match self.routing.turn().await {
                Ok(turn) => compute(turn, checks).await.map(|(_, checks)| checks),
                Err(busy) => Err(busy),
            };
            let stopping = |error: rsm_api::RoutingError| {
                let all = Topic::ALL.iter();
                all.map(|topic| topic.not_known(error.to_string()))
                    .collect()
            };
            let checks: Vec<v1::Check> = made.unwrap_or_else(stopping);
            v1::Report {
                verdict: worst(&checks).into(),
                checks,
                fabric: self.view.fabric.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                at_unix_ms: self.view.unix_ms(),
                generation,
            }
        })
    }
}

/// The worst verdict of the checks that were made.
fn worst(checks: &[v1::Check]) -> v1::Verdict {
    let made = checks.iter().map(v1::Check::verdict);
    let made = made.filter(|&verdict| verdict != v1::Verdict::NotKnown);
    made.max().unwrap_or(v1::Verdict::NotKnown)
}
