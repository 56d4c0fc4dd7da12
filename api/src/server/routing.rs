use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::foresee_loss_request::Loss;
use rsm_proto::v1::routing_service_server::RoutingService;
use tonic::{Request, Response, Status};

use super::acts::Acts;
use super::paging::Cursor;
use super::request::selector;
use crate::limits::MAX_PARTS_PER_REQUEST;
use crate::model::LossSelector;
use crate::traits::{Control, RoutingQueries};

/// Engines, quality, and the consequences of losses.
#[derive(Clone)]
pub(super) struct Routes {
    pub(super) routing: Arc<dyn RoutingQueries>,
    pub(super) control: Arc<dyn Control>,
    pub(super) acts: Acts,
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
        } = request.into_inner();
        if further_unlinks.len() + further_removes.len() > MAX_PARTS_PER_REQUEST {
            return Err(Status::invalid_argument(format!(
                "loss: expected at most {MAX_PARTS_PER_REQUEST} further losses"
            )));
        }
        let first = match loss {
            Some(Loss::Unlink(port)) => LossSelector::Cable(selector("unlink", &port)?),
            Some(Loss::Remove(node)) => LossSelector::Node(selector("remove", &node)?),
            None => {
                return Err(Status::invalid_argument(
                    "loss: nothing is to go, expected unlink or remove",
                ));
            }
        };
        let mut losses = vec![first];
        for port in &further_unlinks {
            losses.push(LossSelector::Cable(selector("further_unlinks", port)?));
        }
        for node in &further_removes {
            losses.push(LossSelector::Node(selector("further_removes", node)?));
        }
        let consequence = self.routing.foresee(losses).await?;
        Ok(Response::new(consequence))
    }

    async fn set_engine(
        &self,
        request: Request<v1::SetEngineRequest>,
    ) -> Result<Response<v1::SetEngineResponse>, Status> {
        let engine = request.get_ref().engine.clone();
        let act = self
            .acts
            .begin(request.extensions(), "set-engine", engine.clone());
        let done = self.control.set_engine(engine).await.map_err(Status::from);
        let convergence = act.end(done)?;
        Ok(Response::new(v1::SetEngineResponse {
            convergence: Some(convergence),
        }))
    }
}
