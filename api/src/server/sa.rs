use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::sa_service_server::SaService;
use tonic::{Request, Response, Status};

use super::paging::Listing;
use super::request::{
    max_paths, p_key_filter, port_filter, qos_class, selector, service_level, text_filter,
};
use crate::model::{PathQuestion, ServiceFilter};
use crate::refusal::no_subnet;
use crate::traits::{SaQueries, Subnet};

/// Serves the counters, paths and registrations of the SA.
#[derive(Clone)]
pub(super) struct SaServer {
    pub(super) subnet: Arc<dyn Subnet>,
    pub(super) sa: Option<Arc<dyn SaQueries>>,
}

/// The SA; refused if there is none.
pub(super) fn sa(sa: Option<&Arc<dyn SaQueries>>) -> Result<&dyn SaQueries, Status> {
    sa.map(Arc::as_ref).ok_or_else(no_subnet)
}

#[tonic::async_trait]
impl SaService for SaServer {
    async fn get_sa_counters(
        &self,
        _request: Request<v1::GetSaCountersRequest>,
    ) -> Result<Response<v1::GetSaCountersResponse>, Status> {
        let counters = sa(self.sa.as_ref())?.counters();
        Ok(Response::new(v1::GetSaCountersResponse {
            counters: Some(counters),
        }))
    }

    async fn resolve_path(
        &self,
        request: Request<v1::ResolvePathRequest>,
    ) -> Result<Response<v1::ResolvePathResponse>, Status> {
        let request = request.into_inner();
        let question = PathQuestion {
            source: selector("source", &request.source)?,
            destination: selector("destination", &request.destination)?,
            p_key: p_key_filter("p_key", request.p_key)?,
            service_level: request.service_level.map(service_level).transpose()?,
            service_id: request.service_id,
            qos_class: request.qos_class.map(qos_class).transpose()?,
            max_paths: max_paths(request.max_paths)?,
        };
        let paths = sa(self.sa.as_ref())?.paths(&question)?;
        Ok(Response::new(paths))
    }

    async fn get_qos(
        &self,
        _request: Request<v1::GetQosRequest>,
    ) -> Result<Response<v1::GetQosResponse>, Status> {
        Ok(Response::new(sa(self.sa.as_ref())?.qos()?))
    }

    async fn list_services(
        &self,
        request: Request<v1::ListServicesRequest>,
    ) -> Result<Response<v1::ListServicesResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let sa = sa(self.sa.as_ref())?;
        let filter = ServiceFilter {
            name: text_filter("name", request.name)?,
            port: port_filter(self.subnet.as_ref(), &request.port)?,
        };
        let page = sa
            .services(listing.after(), listing.limit(), filter)
            .await?;
        listing.answer_keyed(page)
    }

    async fn list_subscriptions(
        &self,
        request: Request<v1::ListSubscriptionsRequest>,
    ) -> Result<Response<v1::ListSubscriptionsResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let sa = sa(self.sa.as_ref())?;
        let port = port_filter(self.subnet.as_ref(), &request.port)?;
        let page = sa
            .subscriptions(listing.after(), listing.limit(), port)
            .await?;
        listing.answer_keyed(page)
    }

    async fn list_alias_guids(
        &self,
        request: Request<v1::ListAliasGuidsRequest>,
    ) -> Result<Response<v1::ListAliasGuidsResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let sa = sa(self.sa.as_ref())?;
        let port = port_filter(self.subnet.as_ref(), &request.port)?;
        let page = sa
            .alias_guids(listing.after(), listing.limit(), port)
            .await?;
        listing.answer_keyed(page)
    }
}
