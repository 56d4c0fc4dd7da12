use std::sync::Arc;

use rsm_ids::PortNum;
use rsm_proto::v1;
use rsm_proto::v1::simulation_service_server::SimulationService;
use tonic::{Request, Response, Status};

use super::request::{port_number, selector};
use crate::model::{Selector, SimulationAction};
use crate::refusal::{Reason, refusal};
use crate::traits::Simulation;

/// Serves actions on a simulated fabric.
#[derive(Clone)]
pub(super) struct Simulated {
    pub(super) simulation: Option<Arc<dyn Simulation>>,
}

impl Simulated {
    async fn act(&self, method: &str, action: SimulationAction) -> Result<(), Status> {
        let simulation = self.simulation.as_ref().ok_or_else(|| {
            let text = format!(
                "{method} works on a simulated fabric only: start the server with --fabric sim:SPEC"
            );
            refusal(Reason::NotSimulated, text)
        })?;
        Ok(simulation.act(action).await?)
    }
}

fn node(text: &str) -> Result<Selector, Status> {
    selector("node", text)
}

/// The port number of a request; `None` if the number is 0, because the selector of the node then
/// names the port.
fn port(number: u32) -> Result<Option<PortNum>, Status> {
    (number != 0).then(|| port_number(number)).transpose()
}

#[tonic::async_trait]
impl SimulationService for Simulated {
    async fn unlink(
        &self,
        request: Request<v1::UnlinkRequest>,
    ) -> Result<Response<v1::UnlinkResponse>, Status> {
        let request = request.into_inner();
        let action = SimulationAction::Unlink {
            node: node(&request.node)?,
            port: port(request.port)?,
        };
        self.act("Unlink", action).await?;
        Ok(Response::new(v1::UnlinkResponse {}))
    }

    async fn relink(
        &self,
        request: Request<v1::RelinkRequest>,
    ) -> Result<Response<v1::RelinkResponse>, Status> {
        let request = request.into_inner();
        let action = SimulationAction::Relink {
            node: node(&request.node)?,
            port: port(request.port)?,
        };
        self.act("Relink", action).await?;
        Ok(Response::new(v1::RelinkResponse {}))
    }

    async fn swap_cables(
        &self,
        request: Request<v1::SwapCablesRequest>,
    ) -> Result<Response<v1::SwapCablesResponse>, Status> {
        let request = request.into_inner();
        let action = SimulationAction::SwapCables {
            node: node(&request.node)?,
            port: port(request.port)?,
            other_node: node(&request.other_node)?,
            other_port: port(request.other_port)?,
        };
        self.act("SwapCables", action).await?;
        Ok(Response::new(v1::SwapCablesResponse {}))
    }

    async fn reboot(
        &self,
        request: Request<v1::RebootRequest>,
    ) -> Result<Response<v1::RebootResponse>, Status> {
        let node = node(&request.get_ref().node)?;
        self.act("Reboot", SimulationAction::Reboot { node })
            .await?;
        Ok(Response::new(v1::RebootResponse {}))
    }

    async fn power_off(
        &self,
        request: Request<v1::PowerOffRequest>,
    ) -> Result<Response<v1::PowerOffResponse>, Status> {
        let node = node(&request.get_ref().node)?;
        self.act("PowerOff", SimulationAction::PowerOff { node })
            .await?;
        Ok(Response::new(v1::PowerOffResponse {}))
    }

    async fn power_on(
        &self,
        request: Request<v1::PowerOnRequest>,
    ) -> Result<Response<v1::PowerOnResponse>, Status> {
        let node = node(&request.get_ref().node)?;
        self.act("PowerOn", SimulationAction::PowerOn { node })
            .await?;
        Ok(Response::new(v1::PowerOnResponse {}))
    }

    async fn set_loss(
        &self,
        request: Request<v1::SetLossRequest>,
    ) -> Result<Response<v1::SetLossResponse>, Status> {
        let request = request.into_inner();
        // This form refuses NaN as well.
        if !(0.0..=1.0).contains(&request.rate) {
            return Err(refusal(
                Reason::InvalidField,
                format!(
                    "rate: {} is out of range, expected 0 (no packet is lost) to 1 (every packet is lost)",
                    request.rate
                ),
            ));
        }
        let attribute = match request.attribute_id {
            Some(id) => Some(u16::try_from(id).map_err(|_| {
                refusal(
                    Reason::InvalidField,
                    format!("attribute_id: {id} is out of range, expected 0 to 65535"),
                )
            })?),
            None => None,
        };
        let action = SimulationAction::SetLoss {
            rate: request.rate,
            attribute,
        };
        self.act("SetLoss", action).await?;
        Ok(Response::new(v1::SetLossResponse {}))
    }

    async fn set_errors(
        &self,
        request: Request<v1::SetErrorsRequest>,
    ) -> Result<Response<v1::SetErrorsResponse>, Status> {
        let request = request.into_inner();
        // This form refuses NaN as well.
        if !(0.0..=f64::MAX).contains(&request.per_second) {
            return Err(refusal(
                Reason::InvalidField,
                format!(
                    "per_second: {} is out of range, expected a number of at least 0",
                    request.per_second
                ),
            ));
        }
        let action = SimulationAction::SetErrors {
            node: node(&request.node)?,
            port: port(request.port)?,
            counter: request.counter,
            per_second: request.per_second,
        };
        self.act("SetErrors", action).await?;
        Ok(Response::new(v1::SetErrorsResponse {}))
    }
}
