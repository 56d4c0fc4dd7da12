//! "Is it the fabric?": a verdict on the paths of a job, with evidence.
//!
//! The assessment covers the ports of the job's hosts; the directions of cables that packets
//! between these ports take by the tables in force, or took since the start of the questioned time;
//! and the counters that moved at these cables. Each piece of evidence has a kind, and each kind
//! has a weight. The heaviest piece decides: from 60 on the fabric is *likely* at fault, from 20 on
//! *unlikely*, below 20 it is *not*. Weights are not added up, because every large fabric shows
//! many small pieces.
//!
//! | kind | weight | what it says |
//! |---|---|---|
//! | `switch-missing` | 100 | a switch is gone, and hosts of the job with it |
//! | `no-route` | 100 | packets to a port of the job end at a switch |
//! | `link-down` | 100 | routes lead over a port that has no link, or is not Active |
//! | `host-missing` | 90 | an adapter of a host is gone |
//! | `link-errors` | 85 | errors of a link above the limits of section `[health]` |
//! | `link-flapped` | 80 | a link went down in the questioned time, or several with their node |
//! | `link-slow` | 75 | a link runs below the rate of its ends, or of its siblings |
//! | `discards` | 70 | a port discards 60 packets an hour or more, without being congested |
//! | `congestion` | 65 | data waits a tenth of the time for a full link, or for a foreign host |
//! | `host-rate` | 65 | a host's port is slower than most of the job's |
//! | `finding-error` | 60 | another finding of severity error is, or was, at a used part |
//! | `finding-warning` | 40 | another finding of severity warning is, or was, at a used part |
//! | `fewer-ports` | 40 | a host has fewer ports than most of the job's |
//! | `waits` | 40 | data waits for a link that is not full, with no cause downstream |
//! | `few-errors` | 30 | errors below the limits, or perhaps from before the time |
//! | `link-came` | 30 | a link came up that did not exist before |
//! | `routes-changed` | 10 | context: routes changed |
//! | `no-partition` | 0 | configuration: hosts share no partition |
//! | `slow-receiver`, `incast` | 0 | a host of the job takes too little, or is sent too much |
//! | `idle` | 0 | a host of the job has no traffic |
//! | `manager-changed`, `operator-acted` | 0 | context: a manager started, or an operator acted |
//!
//! The following is no evidence: errors in a direction of a cable that no packet of the job takes,
//! counters that moved before the questioned time, symbol errors below the limit, errors that came
//! with a packet from another link (PortRcvRemotePhysicalErrors), an idle host, findings about link
//! errors from before the questioned time.
//!
//! Without evidence of weight 60 or more, the verdict is *cannot say* if an essential input is
//! unknown: a host, the counters, or the events of the time. Hosts of a job that receive too
//! slowly, and partitions, explain a slow job without the fabric. If at least half of the job's hosts
//! share no partition with the others, the verdict is about configuration even beside such evidence:
//! their packets are dropped whatever the links do.

mod evidence;
mod happened;
mod job;
mod node_losses;
mod partitions;
mod past;
mod paths;
mod used;
mod verdict;
mod waits;

use std::sync::Arc;

use rsm_api::model::{EventFilter, HistoryOrder, HistoryQuery};
use rsm_api::{BoxFuture, History, Judge, RoutingError, v1};
use rsm_config::SymptomLimits;
use tokio::sync::Semaphore;

use self::job::Job;
pub(super) use self::past::Past;
#[cfg(test)]
pub(super) use self::past::{Moved, PortMoves};
use self::past::{Readings, StoredErrors};
use self::used::UsedLinks;
pub(super) use self::used::{FormerRoutes, former_routes};
use super::analysis::compute;
use super::counters::CountersSource;
use super::past::PastSource;
use super::published::Published;
use super::view::View;

/// Maximum number of questions answered at a time; further questions are refused.
const MAX_QUESTIONS: usize = 4;

/// Default length of the time that a question covers, up to now, in milliseconds.
const USUAL_SPAN_MS: u64 = 3_600_000;

/// Maximum number of events read for a question.
const MAX_EVENTS: usize = 50_000;

/// A question about a job, with all inputs of its answer.
pub(super) struct Question<'a> {
    pub(super) published: &'a Published,
    /// Names of hosts.
    pub(super) names: &'a [String],
    /// Start of the time that the question covers, in milliseconds since the Unix epoch.
    pub(super) since_unix_ms: u64,
    pub(super) now_unix_ms: u64,
    pub(super) past: &'a dyn Past,
    /// Whether counters are read.
    pub(super) is_collecting: bool,
    /// Time since which counters are known, in milliseconds since the Unix epoch.
    pub(super) counters_from_unix_ms: u64,
    /// Events, oldest first.
    pub(super) events: &'a [v1::Event],
    /// Time since which events are known, in milliseconds since the Unix epoch.
    pub(super) events_from_unix_ms: u64,
    /// Limits of errors above which a link is unhealthy.
    pub(super) limits: SymptomLimits,
}

/// A question with the job's ports and paths.
struct Case<'a> {
    published: &'a Published,
    job: &'a Job,
    used: &'a UsedLinks,
    past: &'a dyn Past,
    events: &'a [v1::Event],
    since_unix_ms: u64,
    limits: SymptomLimits,
}

/// Answers a question about the fabric.
pub(super) fn judge(question: &Question<'_>) -> v1::Judgement {
    let job = Job::find(question.published, question.names);
    let used = UsedLinks::find(question.published, &job, question.since_unix_ms);
    let case = Case {
        published: question.published,
        job: &job,
        used: &used,
        past: question.past,
        events: question.events,
        since_unix_ms: question.since_unix_ms,
        limits: question.limits,
    };
    let mut found = Vec::new();
    case.find_port_evidence(&mut found);
    let unread = case.find_counter_evidence(&mut found);
    case.find_waits(&mut found);
    case.find_link_events(&mut found);
    case.find_findings(&mut found);
    case.find_missing_adapters(&mut found);
    let is_cut_by_partitions = case.find_partition_evidence(&mut found);
    case.find_idle_hosts(&mut found);
    case.find_context(&mut found);
    let missing = verdict::missing(question, &case, unread);
    verdict::judgement(question, &case, found, is_cut_by_partitions, missing)
}

/// Answers questions about jobs from the snapshot in force, the last readings and the history.
pub struct FabricJudge {
    view: Arc<View>,
    counters: Arc<dyn CountersSource>,
    past: Option<Arc<dyn PastSource>>,
    history: Option<Arc<dyn History>>,
    limits: SymptomLimits,
    /// One permit for each question that is being answered.
    permits: Arc<Semaphore>,
}

impl FabricJudge {
    /// Creates a judge of the subnet in `view`. `history` has the events of earlier runs; without
    /// it, only events of this run are known. `limits` are the limits of unhealthy links.
    pub fn new(
        view: Arc<View>,
        counters: Arc<dyn CountersSource>,
        history: Option<Arc<dyn History>>,
        limits: SymptomLimits,
    ) -> FabricJudge {
        FabricJudge {
            view,
            counters,
            past: None,
            history,
            limits,
            permits: Arc::new(Semaphore::new(MAX_QUESTIONS)),
        }
    }

    /// Also counts the errors that `past` has kept on the disk.
    #[must_use]
    pub fn keeping(mut self, past: Option<Arc<dyn PastSource>>) -> FabricJudge {
        self.past = past;
        self
    }

    /// Events since a time, oldest first, and the time since which all events are known.
    async fn events(&self, since_unix_ms: u64) -> (Vec<v1::Event>, u64) {
        if let Some(history) = &self.history {
            let query = |since_unix_ms, order| HistoryQuery {
                after: 0,
                before: 0,
                since_unix_ms,
                until_unix_ms: 0,
                filter: EventFilter::default(),
                order,
            };
            let newest = query(since_unix_ms, HistoryOrder::Newest(MAX_EVENTS));
            let first = query(0, HistoryOrder::First(1));
            if let (Ok(events), Ok(first)) =
                (history.events(newest).await, history.events(first).await)
            {
                let began = match events.len() < MAX_EVENTS {
                    true => first.first().map(|(_, event)| event.at_unix_ms),
                    false => events.first().map(|(_, event)| event.at_unix_ms),
                };
                let events = events.into_iter().map(|(_, event)| event).collect();
                return (events, began.unwrap_or_else(|| self.started_unix_ms()));
            }
        }
        // The journal has the newest events of this run.
        let events = self.view.journal.events(0, usize::MAX);
        let began = match events.first() {
            Some(first) if first.sequence > 1 => first.at_unix_ms,
            _ => self.started_unix_ms(),
        };
        let events = events.iter().map(|event| v1::Event::clone(event));
        let events = events.filter(|event| event.at_unix_ms >= since_unix_ms);
        (events.collect(), began)
    }

    fn started_unix_ms(&self) -> u64 {
        self.view.clock.unix_ms(self.view.started)
    }
}

impl Judge for FabricJudge {
    fn judge(
        &self,
        names: Vec<String>,
        since_unix_ms: u64,
    ) -> BoxFuture<'_, Result<v1::Judgement, RoutingError>> {
        Box::pin(async move {
            let place = Arc::clone(&self.permits).try_acquire_owned();
            let place = place.map_err(|_| RoutingError::Busy)?;
            let now_unix_ms = self.view.unix_ms();
            let usual = now_unix_ms.saturating_sub(USUAL_SPAN_MS);
            let since_unix_ms = match since_unix_ms {
                0 => usual.max(self.started_unix_ms()),
                since => since,
            };
            let (events, events_from_unix_ms) = self.events(since_unix_ms).await;
            let published = self.view.published();
            let counters = self.counters.counters();
            let (now, limits) = (self.view.now(), self.limits);
            let started_unix_ms = self.started_unix_ms();
            let past = self.past.as_ref().and_then(|past| past.past());
            let (_, judgement) = compute(place, move || {
                let is_collecting = counters.is_collecting;
                let stored = StoredErrors::read(past, since_unix_ms, now_unix_ms);
                let counters_from_unix_ms = stored.from_unix_ms.unwrap_or(started_unix_ms);
                let past = Readings {
                    stored,
                    counters,
                    now,
                    began_unix_ms: published.began_unix_ms,
                };
                judge(&Question {
                    published: &published,
                    names: &names,
                    since_unix_ms,
                    now_unix_ms,
                    past: &past,
                    is_collecting,
                    counters_from_unix_ms,
                    events: &events,
                    events_from_unix_ms,
                    limits,
                })
            })
            .await?;
            Ok(judgement)
        })
    }
}
