use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::partition_service_server::PartitionService;
use tonic::{Request, Response, Status};

use super::paging::Listing;
use super::request::p_key;
use crate::access::Caller;
use crate::traits::Subnet;

/// Partitions and their members.
#[derive(Clone)]
pub(super) struct Partitions {
    pub(super) subnet: Arc<dyn Subnet>,
}

#[tonic::async_trait]
impl PartitionService for Partitions {
    async fn list_partitions(
        &self,
        request: Request<v1::ListPartitionsRequest>,
    ) -> Result<Response<v1::ListPartitionsResponse>, Status> {
        let (_, listing) = Listing::of(request)?;
        let page = self.subnet.partitions(listing.after(), listing.limit());
        listing.answer_keyed(page)
    }

    async fn list_partition_members(
        &self,
        request: Request<v1::ListPartitionMembersRequest>,
    ) -> Result<Response<v1::ListPartitionMembersResponse>, Status> {
        let caller = request.extensions().get::<Arc<Caller>>().cloned();
        let (request, listing) = Listing::of(request)?;
        let p_key = p_key("p_key", request.p_key)?;
        if !caller.is_some_and(|caller| caller.grant.sees(p_key)) {
            return Err(Status::permission_denied(format!(
                "p_key: the partition {p_key:#x} is none of this tenant's"
            )));
        }
        let page = self
            .subnet
            .partition_members(p_key, listing.after(), listing.limit())?;
        listing.answer_keyed(page)
    }
}
