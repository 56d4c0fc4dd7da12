use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::foresee_loss_request::Loss;
use rsm_proto::v1::routing_service_server::RoutingService;
use tonic::{Request, Response, Status};

use super::acts::ActionRecorder;
use super::paging::{Cursor, Listing};
use super::request::selector;
use crate::limits::MAX_PARTS_PER_REQUEST;
use crate::model::{LossSelector, WhenCutOff};
use crate::refusal::{Reason, refusal};
use crate::traits::{Control, RoutingQueries};

/// Serves routing engines, the quality of routes, the use of cables, and predictions for losses.
#[derive(Clone)]
pub(super) struct Routes {
    pub(super) routing: Arc<dyn RoutingQueries>,
    pub(super) control: Arc<dyn Control>,
    pub(super) acts: ActionRecorder,
}

#[tonic::async_trait]
impl RoutingService for Routes {
    async fn list_engines(
        &self,
        request: Request<v1::ListEnginesRequest>,
    ) -> Result<Response<v1::ListEnginesResponse>, Status> {
        let mut request = request.into_inner();
        let cursor = Cursor::<u64>::take(&mut request)?;
        let page = self.routing.engines();
        let mut engines: Vec<_> = (1u64..).zip(page.items).collect();
        if let Some(after) = cursor.after {
            engines.retain(|&(number, _)| number > after);
        }
        let next_page_token = cursor.cut(&mut engines, |&(number, _)| number);
        Ok(Response::new(v1::ListEnginesResponse {
            engines: engines.into_iter().map(|(_, engine)| engine).collect(),
            next_page_token,
            generation: page.generation,
        }))
    }

    async fn get_routing_quality(
        &self,
        request: Request<v1::GetRoutingQualityRequest>,
    ) -> Result<Response<v1::GetRoutingQualityResponse>, Status> {
        let quality = self.routing.quality(request.get_ref().seed).await?;
        Ok(Response::new(quality))
    }

    async fn foresee_loss(
        &self,
        request: Request<v1::ForeseeLossRequest>,
    ) -> Result<Response<v1::ForeseeLossResponse>, Status> {
        let v1::ForeseeLossRequest {
            loss,
            further_unlinks,
            further_removes,
            parts,
        } = request.into_inner();
        let further = further_unlinks.len() + further_removes.len();
        if further > MAX_PARTS_PER_REQUEST || parts.len() > MAX_PARTS_PER_REQUEST {
            return Err(refusal(
                Reason::InvalidField,
                format!("loss: expected at most {MAX_PARTS_PER_REQUEST} further losses"),
            ));
        }
        let mut losses = match loss {
            Some(Loss::Unlink(port)) => vec![LossSelector::Cable(selector("unlink", &port)?)],
            Some(Loss::Remove(node)) => vec![LossSelector::Node(selector("remove", &node)?)],
            None if !parts.is_empty() => Vec::new(),
            None => {
                return Err(refusal(
                    Reason::InvalidField,
                    "loss: nothing is to go, expected unlink, remove or parts",
                ));
            }
        };
        for part in &parts {
            losses.push(LossSelector::Part(selector("parts", part)?));
        }
        for port in &further_unlinks {
            losses.push(LossSelector::Cable(selector("further_unlinks", port)?));
        }
        for node in &further_removes {
            losses.push(LossSelector::Node(selector("further_removes", node)?));
        }
        let consequence = self.routing.foresee(losses).await?;
        Ok(Response::new(consequence))
    }

    async fn get_cable_use(
        &self,
        request: Request<v1::GetCableUseRequest>,
    ) -> Result<Response<v1::GetCableUseResponse>, Status> {
        let port = selector("port", &request.get_ref().port)?;
        Ok(Response::new(self.routing.cable_use(port).await?))
    }

    async fn list_cable_hosts(
        &self,
        request: Request<v1::ListCableHostsRequest>,
    ) -> Result<Response<v1::ListCableHostsResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let port = selector("port", &request.port)?;
        let hosts = self
            .routing
            .cable_hosts(port, listing.after(), listing.limit());
        listing.answer_keyed(hosts.await?)
    }

    async fn set_engine(
        &self,
        request: Request<v1::SetEngineRequest>,
    ) -> Result<Response<v1::SetEngineResponse>, Status> {
        let asked = request.get_ref();
        let engine = asked.engine.clone();
        let act = self
            .acts
            .begin(request.extensions(), "set-engine", engine.clone());
        let cut_off = WhenCutOff::accepted(asked.accept_cut_off);
        let done = self.control.set_engine(engine, cut_off).await;
        let done = done.map_err(Status::from);
        let convergence = act.end(done)?;
        Ok(Response::new(v1::SetEngineResponse {
            convergence: Some(convergence),
        }))
    }
}
