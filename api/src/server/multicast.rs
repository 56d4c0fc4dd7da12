use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::multicast_service_server::MulticastService;
use tonic::{Request, Response, Status};

use super::paging::Listing;
use super::request::{p_key_filter, port_filter};
use super::sa::sa;
use crate::model::{GroupSelector, MulticastGroupFilter};
use crate::traits::{SaQueries, Subnet};

/// Serves multicast groups and their trees.
#[derive(Clone)]
pub(super) struct Multicast {
    pub(super) subnet: Arc<dyn Subnet>,
    pub(super) sa: Option<Arc<dyn SaQueries>>,
}

impl Multicast {
    fn sa(&self) -> Result<&dyn SaQueries, Status> {
        sa(self.sa.as_ref())
    }
}

#[tonic::async_trait]
impl MulticastService for Multicast {
    async fn list_multicast_groups(
        &self,
        request: Request<v1::ListMulticastGroupsRequest>,
    ) -> Result<Response<v1::ListMulticastGroupsResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let sa = self.sa()?;
        let filter = MulticastGroupFilter {
            p_key: p_key_filter("p_key", request.p_key)?,
            port: port_filter(self.subnet.as_ref(), &request.port)?,
        };
        let page = sa
            .multicast_groups(listing.after(), listing.limit(), filter)
            .await?;
        // A group can outlast its partition, so the P_Key is checked only if no group has it.
        if let (Some(p_key), true) = (filter.p_key, page.items.is_empty()) {
            self.subnet.partition_members(p_key, None, 0)?;
        }
        listing.answer_keyed(page)
    }

    async fn get_multicast_group(
        &self,
        request: Request<v1::GetMulticastGroupRequest>,
    ) -> Result<Response<v1::GetMulticastGroupResponse>, Status> {
        let group: GroupSelector = request.get_ref().group.parse()?;
        let group = self.sa()?.multicast_group(group).await?;
        Ok(Response::new(v1::GetMulticastGroupResponse {
            group: Some(group),
        }))
    }

    async fn list_multicast_members(
        &self,
        request: Request<v1::ListMulticastMembersRequest>,
    ) -> Result<Response<v1::ListMulticastMembersResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let group: GroupSelector = request.group.parse()?;
        let page = self
            .sa()?
            .multicast_members(group, listing.after(), listing.limit())
            .await?;
        listing.answer_keyed(page)
    }

    async fn list_multicast_switches(
        &self,
        request: Request<v1::ListMulticastSwitchesRequest>,
    ) -> Result<Response<v1::ListMulticastSwitchesResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let group: GroupSelector = request.group.parse()?;
        let page = self
            .sa()?
            .multicast_switches(group, listing.after(), listing.limit())
            .await?;
        listing.answer_keyed(page)
    }
}
