use std::sync::Arc;

use rsm_proto::Label as _;
use rsm_proto::v1;
use rsm_proto::v1::maintenance_service_server::MaintenanceService;
use tonic::{Request, Response, Status};

use super::acts::{ActionRecorder, operator};
use super::paging::Listing;
use super::request::{port_action, selector, text_filter};
use crate::limits::MAX_PARTS_PER_REQUEST;
use crate::model::{DrainQuestion, PortAction, PortCommand, Selector};
use crate::refusal::{Reason, refusal};
use crate::traits::{Control, Subnet};

/// Serves drains of parts, actions on ports, and the rotation of M_Keys.
#[derive(Clone)]
pub(super) struct Maintenance {
    pub(super) subnet: Arc<dyn Subnet>,
    pub(super) control: Arc<dyn Control>,
    pub(super) acts: ActionRecorder,
}

/// Parses the names in a request, 1 to [`MAX_PARTS_PER_REQUEST`].
fn parts(names: &[String]) -> Result<Vec<Selector>, Status> {
    if names.is_empty() || names.len() > MAX_PARTS_PER_REQUEST {
        return Err(refusal(
            Reason::InvalidField,
            format!(
                "parts: expected 1 to {MAX_PARTS_PER_REQUEST} names, found {}",
                names.len()
            ),
        ));
    }
    names.iter().map(|name| selector("parts", name)).collect()
}

#[tonic::async_trait]
impl MaintenanceService for Maintenance {
    async fn drain(
        &self,
        request: Request<v1::DrainRequest>,
    ) -> Result<Response<v1::DrainResponse>, Status> {
        let asked = request.get_ref();
        let question = DrainQuestion {
            parts: parts(&asked.parts)?,
            force: asked.force,
            by: operator(
                request.extensions(),
                text_filter("by", asked.by.clone())?.as_deref(),
            ),
            note: text_filter("note", asked.note.clone())?.unwrap_or_default(),
        };
        let mut detail = asked.parts.join(" ");
        if question.force {
            detail.push_str(" --force");
        }
        if !question.note.is_empty() {
            detail.push_str(&format!(" ({})", question.note));
        }
        let act = self.acts.begin(request.extensions(), "drain", detail);
        let act = act.stated(&asked.by);
        let drained = act.end(self.control.drain(question).await.map_err(Status::from))?;
        Ok(Response::new(v1::DrainResponse { drained }))
    }

    async fn undrain(
        &self,
        request: Request<v1::UndrainRequest>,
    ) -> Result<Response<v1::UndrainResponse>, Status> {
        let parts = parts(&request.get_ref().parts)?;
        let detail = request.get_ref().parts.join(" ");
        let mut act = self.acts.begin(request.extensions(), "undrain", detail);
        let done = self.control.undrain(parts).await.map_err(Status::from);
        if let Ok((names, _)) = &done {
            act.add(&names.join(", "));
        }
        let (names, convergence) = act.end(done)?;
        Ok(Response::new(v1::UndrainResponse {
            undrained: names.len() as u64,
            convergence: Some(convergence),
        }))
    }

    async fn operate_port(
        &self,
        request: Request<v1::OperatePortRequest>,
    ) -> Result<Response<v1::OperatePortResponse>, Status> {
        let asked = request.get_ref();
        let action = port_action("action", asked.action)?;
        let command = PortCommand {
            port: selector("port", &asked.port)?,
            action,
            accept_cut_off: asked.accept_cut_off,
            accept_own_cut_off: asked.accept_own_cut_off,
            accept_other_operator: asked.accept_other_operator,
            by: operator(
                request.extensions(),
                text_filter("by", asked.by.clone())?.as_deref(),
            ),
            reason: text_filter("reason", asked.reason.clone())?.unwrap_or_default(),
        };
        let mut detail = asked.port.clone();
        for (accepts, option) in [
            (
                command.accept_cut_off || command.accept_other_operator,
                " --yes",
            ),
            (command.accept_own_cut_off, " --cut-off-this-manager"),
        ] {
            detail.push_str(if accepts { option } else { "" });
        }
        if !command.reason.is_empty() {
            detail.push_str(&format!(" ({})", command.reason));
        }
        let name = format!("port {}", PortAction::label(action.into()).unwrap_or("?"));
        let act = self.acts.begin(request.extensions(), &name, detail);
        let mut act = act.stated(&asked.by);
        let done = self.control.operate_port(command).await;
        if let Ok(answer) = &done {
            let number = answer.port.as_ref().map_or(0, |port| port.number);
            act.add(&format!("{} port {number}", answer.description));
        }
        Ok(Response::new(act.end(done.map_err(Status::from))?))
    }

    async fn rotate_management_keys(
        &self,
        request: Request<v1::RotateManagementKeysRequest>,
    ) -> Result<Response<v1::RotateManagementKeysResponse>, Status> {
        let force = request.get_ref().force;
        let detail = if force { "--force" } else { "" };
        let act = self
            .acts
            .begin(request.extensions(), "rotate-m-keys", detail.to_owned());
        let done = self
            .control
            .rotate_m_keys(force)
            .await
            .map_err(Status::from);
        let (keys, convergence) = act.end(done)?;
        Ok(Response::new(v1::RotateManagementKeysResponse {
            key_status: Some(keys),
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
