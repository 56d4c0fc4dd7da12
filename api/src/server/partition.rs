use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::partition_service_server::PartitionService;
use tonic::{Request, Response, Status};

use super::paging::Cursor;
use super::request::p_key;
use crate::convert::messages;
use crate::traits::Subnet;

/// Who may talk to whom.
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
        let mut request = request.into_inner();
        let cursor = Cursor::take("ListPartitions", &mut request)?;
        let mut page = self.subnet.partitions(cursor.after, cursor.limit());
        let next_page_token = cursor.cut(&mut page.items, |partition| partition.p_key);
        Ok(Response::new(v1::ListPartitionsResponse {
            partitions: messages(page.items),
            next_page_token,
            generation: page.generation,
        }))
    }

    async fn list_partition_members(
        &self,
        request: Request<v1::ListPartitionMembersRequest>,
    ) -> Result<Response<v1::ListPartitionMembersResponse>, Status> {
        let mut request = request.into_inner();
        let cursor = Cursor::take("ListPartitionMembers", &mut request)?;
        let p_key = p_key("p_key", request.p_key)?;
        let mut page = self
            .subnet
            .partition_members(p_key, cursor.after, cursor.limit())?;
        let next_page_token = cursor.cut(&mut page.items, |member| member.key);
        Ok(Response::new(v1::ListPartitionMembersResponse {
            members: messages(page.items),
            next_page_token,
            generation: page.generation,
        }))
    }
}
