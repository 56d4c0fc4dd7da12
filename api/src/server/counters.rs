use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::counters_service_server::CountersService;
use tonic::{Request, Response, Status};

use super::paging::Listing;
use super::request::selector;
use crate::traits::CountersQueries;

/// The performance counters of ports.
#[derive(Clone)]
pub(super) struct Counters {
    pub(super) counters: Option<Arc<dyn CountersQueries>>,
}

#[tonic::async_trait]
impl CountersService for Counters {
    async fn list_port_counters(
        &self,
        request: Request<v1::ListPortCountersRequest>,
    ) -> Result<Response<v1::ListPortCountersResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let counters = self.counters.as_deref().ok_or_else(|| {
            Status::failed_precondition("this server manages no subnet: ask an rsm that does")
        })?;
        let part = match request.part.as_str() {
            "" => None,
            text => Some(selector("part", text)?),
        };
        let page = counters.ports(listing.after(), listing.limit(), part.as_ref())?;
        listing.answer_keyed(page)
    }
}
