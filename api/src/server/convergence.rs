use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::EventKind;
use rsm_proto::v1::convergence_service_server::ConvergenceService;
use rsm_proto::v1::event::Change;
use tonic::{Request, Response, Status};

use super::acts::ActionRecorder;
use super::paging::Listing;
use super::request::{known_place, past_span, selector, text_filter};
use crate::limits::MAX_CONVERGENCES;
use crate::model::{EventFilter, GivenUp, HistoryOrder, HistoryQuery, Keyed, Page};
use crate::refusal::{Reason, refusal};
use crate::traits::{Control, History, Subnet};

/// Serves past convergences, and new sweeps.
#[derive(Clone)]
pub(super) struct Convergences {
    pub(super) subnet: Arc<dyn Subnet>,
    pub(super) control: Arc<dyn Control>,
    pub(super) history: Option<Arc<dyn History>>,
    pub(super) acts: ActionRecorder,
}

/// A convergence, keyed by the number of its record in the history, or by its sequence number if no
/// history is kept.
type Numbered = Keyed<u64, v1::Convergence>;

impl Convergences {
    /// The matching convergences of this run, which the subnet manager keeps in memory.
    fn in_memory(&self, query: &HistoryQuery) -> Vec<Numbered> {
        let kept = self.subnet.convergences(MAX_CONVERGENCES).items.into_iter();
        let mut wanted: Vec<Numbered> = kept
            .filter(|kept| {
                let at = kept.finished_unix_ms;
                kept.sequence > query.after
                    && at >= query.since_unix_ms
                    && (query.until_unix_ms == 0 || at < query.until_unix_ms)
                    && query.filter.matches(&event(kept.clone()))
            })
            .map(|message| Keyed {
                key: message.sequence,
                message,
            })
            .collect();
        match query.order {
            HistoryOrder::First(limit) => wanted.truncate(limit),
            HistoryOrder::Newest(limit) => {
                wanted.drain(..wanted.len().saturating_sub(limit));
            }
        }
        wanted
    }

    /// The matching convergences, from the history if one is kept, otherwise from memory.
    async fn matching(&self, query: HistoryQuery) -> Result<Vec<Numbered>, Status> {
        let Some(history) = &self.history else {
            return Ok(self.in_memory(&query));
        };
        let events = history.events(query).await?.into_iter();
        Ok(events
            .filter_map(|(key, event)| match event.change {
                Some(Change::ConvergenceFinished(message)) => Some(Keyed { key, message }),
                _ => None,
            })
            .collect())
    }
}

fn event(convergence: v1::Convergence) -> v1::Event {
    v1::Event {
        change: Some(Change::ConvergenceFinished(convergence)),
        ..v1::Event::default()
    }
}

#[tonic::async_trait]
impl ConvergenceService for Convergences {
    async fn list_convergences(
        &self,
        request: Request<v1::ListConvergencesRequest>,
    ) -> Result<Response<v1::ListConvergencesResponse>, Status> {
        let (request, listing) = Listing::<_, u64>::of(request)?;
        let (since_unix_ms, until_unix_ms) =
            past_span(request.since_unix_ms, request.until_unix_ms)?;
        let has_time = since_unix_ms > 0 || until_unix_ms > 0;
        let newest = match usize::try_from(request.newest) {
            Ok(0) if has_time => None,
            Ok(0) => Some(MAX_CONVERGENCES),
            Ok(newest @ ..=MAX_CONVERGENCES) => Some(newest),
            Ok(_) | Err(_) => {
                return Err(refusal(
                    Reason::InvalidField,
                    format!(
                        "newest: {} is out of range, expected 0 to {MAX_CONVERGENCES}",
                        request.newest
                    ),
                ));
            }
        };
        let cause = text_filter("cause", request.cause)?;
        let node = text_filter("node", request.node)?;
        let after = listing.after().unwrap_or(0);
        let query = HistoryQuery {
            // The newest convergences are selected before pages are cut.
            after: if newest.is_some() { 0 } else { after },
            before: 0,
            since_unix_ms,
            until_unix_ms,
            filter: EventFilter::new(
                Some(EventKind::Convergence),
                node.as_deref(),
                cause.as_deref(),
            ),
            order: match newest {
                Some(newest) => HistoryOrder::Newest(newest),
                None => HistoryOrder::First(listing.limit()),
            },
        };
        let generation = self.subnet.status().generation;
        let mut items = self.matching(query).await?;
        if let (true, Some(node)) = (items.is_empty(), &node) {
            known_place(self.subnet.as_ref(), node)?;
        }
        items.retain(|item| item.key > after);
        items.truncate(listing.limit());
        listing.answer_keyed(Page { generation, items })
    }

    async fn get_activity(
        &self,
        _: Request<v1::GetActivityRequest>,
    ) -> Result<Response<v1::GetActivityResponse>, Status> {
        Ok(Response::new(v1::GetActivityResponse {
            activity: Some(self.control.activity()),
        }))
    }

    async fn resweep(
        &self,
        request: Request<v1::ResweepRequest>,
    ) -> Result<Response<v1::ResweepResponse>, Status> {
        let asked = *request.get_ref();
        let (action, detail) = match (asked.rewrite, asked.full) {
            (true, _) => ("rewrite", ""),
            (false, true) => ("resweep", "full"),
            (false, false) => ("resweep", ""),
        };
        let act = self
            .acts
            .begin(request.extensions(), action, detail.to_owned());
        let done = if asked.rewrite {
            self.control.rewrite().await
        } else {
            self.control.resweep(asked.full).await
        };
        let convergence = act.end(done.map_err(Status::from))?;
        Ok(Response::new(v1::ResweepResponse {
            convergence: Some(convergence),
        }))
    }

    async fn accept_missing(
        &self,
        request: Request<v1::AcceptMissingRequest>,
    ) -> Result<Response<v1::AcceptMissingResponse>, Status> {
        let asked = request.get_ref().clone();
        let name = asked.name.as_str();
        let (given_up, detail) = match (name.is_empty(), asked.all, asked.exchanged) {
            (true, true, false) => (GivenUp::Missing, "all missing parts"),
            (true, false, true) => (GivenUp::Exchanged, "all exchanged cables"),
            (false, false, false) => (GivenUp::Named(selector("name", name)?), name),
            _ => {
                return Err(refusal(
                    Reason::InvalidField,
                    "expected one of a name, `all` and `exchanged`",
                ));
            }
        };
        let mut act = self
            .acts
            .begin(request.extensions(), "accept-missing", detail.to_owned());
        let accepted = self.control.accept_missing(given_up);
        if let Ok(parts) = &accepted {
            act.add(&parts.summary);
        }
        let parts = act.end(accepted.map_err(Status::from))?;
        Ok(Response::new(v1::AcceptMissingResponse {
            accepted: parts.total(),
            parts: Some(parts),
        }))
    }
}
