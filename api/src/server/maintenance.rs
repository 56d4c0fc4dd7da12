use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::maintenance_service_server::MaintenanceService;
use tonic::{Request, Response, Status};

use super::paging::Listing;
use super::request::{selector, text_filter};
use crate::limits::MAX_PARTS_PER_REQUEST;
use crate::model::{DrainQuestion, Selector};
use crate::traits::{Control, Subnet};

/// Parts that routes go around.
#[derive(Clone)]
pub(super) struct Maintenance {
    pub(super) subnet: Arc<dyn Subnet>,
    pub(super) control: Arc<dyn Control>,
}

/// The names in a request, at least one.
fn parts(names: &[String]) -> Result<Vec<Selector>, Status> {
    if names.is_empty() || names.len() > MAX_PARTS_PER_REQUEST {
        return Err(Status::invalid_argument(format!(
            "parts: expected 1 to {MAX_PARTS_PER_REQUEST} names, found {}",
            names.len()
        )));
    }
    names.iter().map(|name| selector("parts", name)).collect()
}

#[tonic::async_trait]
impl MaintenanceService for Maintenance {
    async fn drain(
        &self,
        request: Request<v1::DrainRequest>,
    ) -> Result<Response<v1::DrainResponse>, Status> {
        let request = request.into_inner();
        let question = DrainQuestion {
            parts: parts(&request.parts)?,
            force: request.force,
            by: text_filter("by", request.by)?.unwrap_or_default(),
            note: text_filter("note", request.note)?.unwrap_or_default(),
        };
        let drained = self.control.drain(question).await?;
        Ok(Response::new(v1::DrainResponse { drained }))
    }

    async fn undrain(
        &self,
        request: Request<v1::UndrainRequest>,
    ) -> Result<Response<v1::UndrainResponse>, Status> {
        let parts = parts(&request.get_ref().parts)?;
        let (undrained, convergence) = self.control.undrain(parts).await?;
        Ok(Response::new(v1::UndrainResponse {
            undrained,
            convergence: Some(convergence),
        }))
    }

    async fn list_drained(
        &self,
        request: Request<v1::ListDrainedRequest>,
    ) -> Result<Response<v1::ListDrainedResponse>, Status> {
        let (_, listing) = Listing::of(request)?;
        let page = self.subnet.drained(listing.after(), listing.limit());
        listing.answer_keyed(page)
    }
}
