use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::convergence_service_server::ConvergenceService;
use tonic::{Request, Response, Status};

use super::access::Access;
use super::paging::Cursor;
use crate::convert::messages;
use crate::limits::MAX_CONVERGENCES;
use crate::traits::{Control, Subnet};

/// What the subnet manager did, and having it do it again.
#[derive(Clone)]
pub(super) struct Convergences {
    pub(super) subnet: Arc<dyn Subnet>,
    pub(super) control: Arc<dyn Control>,
    pub(super) access: Access,
}

#[tonic::async_trait]
impl ConvergenceService for Convergences {
    async fn list_convergences(
        &self,
        request: Request<v1::ListConvergencesRequest>,
    ) -> Result<Response<v1::ListConvergencesResponse>, Status> {
        let mut request = request.into_inner();
        let cursor = Cursor::<u64>::take("ListConvergences", &mut request)?;
        let newest = match usize::try_from(request.newest) {
            Ok(0) | Err(_) => MAX_CONVERGENCES,
            Ok(newest) => newest.min(MAX_CONVERGENCES),
        };
        let mut page = self.subnet.convergences(newest);
        if let Some(after) = cursor.after {
            page.items
                .retain(|convergence| convergence.sequence > after);
        }
        let next_page_token = cursor.cut(&mut page.items, |convergence| convergence.sequence);
        Ok(Response::new(v1::ListConvergencesResponse {
            convergences: messages(page.items),
            next_page_token,
            generation: page.generation,
        }))
    }

    async fn resweep(
        &self,
        request: Request<v1::ResweepRequest>,
    ) -> Result<Response<v1::ResweepResponse>, Status> {
        self.access.require_everything("Resweep")?;
        let convergence = self.control.resweep(request.get_ref().full).await?;
        Ok(Response::new(v1::ResweepResponse {
            convergence: Some(convergence.into()),
        }))
    }
}
