use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::convergence_service_server::ConvergenceService;
use tonic::{Request, Response, Status};

use super::paging::Listing;
use super::request::selector;
use crate::limits::MAX_CONVERGENCES;
use crate::traits::{Control, Subnet};

/// Past convergences, and new sweeps.
#[derive(Clone)]
pub(super) struct Convergences {
    pub(super) subnet: Arc<dyn Subnet>,
    pub(super) control: Arc<dyn Control>,
}

#[tonic::async_trait]
impl ConvergenceService for Convergences {
    async fn list_convergences(
        &self,
        request: Request<v1::ListConvergencesRequest>,
    ) -> Result<Response<v1::ListConvergencesResponse>, Status> {
        let (request, listing) = Listing::<_, u64>::of(request)?;
        let newest = match usize::try_from(request.newest) {
            Ok(0) | Err(_) => MAX_CONVERGENCES,
            Ok(newest) => newest.min(MAX_CONVERGENCES),
        };
        let mut page = self.subnet.convergences(newest);
        if let Some(after) = listing.after() {
            page.items
                .retain(|convergence| convergence.sequence > after);
        }
        listing.answer(page, |convergence| convergence.sequence)
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
        let request = request.get_ref();
        let convergence = if request.rewrite {
            self.control.rewrite().await?
        } else {
            self.control.resweep(request.full).await?
        };
        Ok(Response::new(v1::ResweepResponse {
            convergence: Some(convergence),
        }))
    }

    async fn accept_missing(
        &self,
        request: Request<v1::AcceptMissingRequest>,
    ) -> Result<Response<v1::AcceptMissingResponse>, Status> {
        let v1::AcceptMissingRequest { name, all } = request.into_inner();
        let name = match (all, name.is_empty()) {
            (true, true) => None,
            (false, false) => Some(selector("name", &name)?),
            _ => return Err(Status::invalid_argument("expected either a name or all")),
        };
        let accepted = self.control.accept_missing(name)?;
        Ok(Response::new(v1::AcceptMissingResponse { accepted }))
    }
}
