use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::difference_service_server::DifferenceService;
use tonic::{Request, Response, Status};

use super::paging::Listing;
use super::request::past;
use crate::model::Page;
use crate::refusal::{Reason, refusal};
use crate::traits::{History, Subnet};

/// Serves differences from an earlier time.
#[derive(Clone)]
pub(super) struct Differences {
    pub(super) subnet: Arc<dyn Subnet>,
    pub(super) history: Option<Arc<dyn History>>,
}

#[tonic::async_trait]
impl DifferenceService for Differences {
    async fn list_differences(
        &self,
        request: Request<v1::ListDifferencesRequest>,
    ) -> Result<Response<v1::ListDifferencesResponse>, Status> {
        let (request, listing) = Listing::<_, u64>::of(request)?;
        let history = self.history.as_ref().ok_or_else(|| {
            refusal(
                Reason::HistoryNotKept,
                "no history is kept: start rsm with a state folder that can be written",
            )
        })?;
        let at = past("at_unix_ms", request.at_unix_ms)?;
        let found = history.differences(at).await?;
        // The key of a difference is its position in the list, counted from 1.
        let after = listing.after().unwrap_or(0);
        let skipped = usize::try_from(after).unwrap_or(usize::MAX);
        let items: Vec<_> = found
            .list
            .into_iter()
            .skip(skipped)
            .take(listing.limit())
            .zip(after.saturating_add(1)..)
            .map(|(message, key)| crate::model::Keyed { key, message })
            .collect();
        let generation = self.subnet.status().generation;
        let mut answer = listing.answer_keyed(Page { generation, items })?;
        answer.get_mut().from_unix_ms = found.from_unix_ms;
        Ok(answer)
    }
}
