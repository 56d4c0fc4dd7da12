use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::blame_service_server::BlameService;
use tonic::{Request, Response, Status};

use super::request::past;
use crate::limits::{MAX_JOB_HOSTS, MAX_SELECTOR_BYTES};
use crate::refusal::{Reason, no_subnet, refusal};
use crate::traits::Judge;

/// Serves judgements on the fabric.
#[derive(Clone)]
pub(super) struct Blame {
    pub(super) judge: Option<Arc<dyn Judge>>,
}

/// Refuses a list of hosts that is empty or too long, and names that no host can have.
fn check(hosts: &[String]) -> Result<(), Status> {
    if hosts.is_empty() || hosts.len() > MAX_JOB_HOSTS {
        return Err(refusal(
            Reason::InvalidField,
            format!(
                "hosts: expected 1 to {MAX_JOB_HOSTS} names, found {}",
                hosts.len()
            ),
        ));
    }
    let is_wrong = |host: &&String| host.trim().is_empty() || host.len() > MAX_SELECTOR_BYTES;
    match hosts.iter().position(|host| is_wrong(&host)) {
        None => Ok(()),
        Some(at) => Err(refusal(
            Reason::InvalidField,
            format!(
                "hosts: name {} of {} has {} bytes, expected a name of 1 to {MAX_SELECTOR_BYTES} bytes",
                at + 1,
                hosts.len(),
                hosts[at].len()
            ),
        )),
    }
}

#[tonic::async_trait]
impl BlameService for Blame {
    async fn judge_job(
        &self,
        request: Request<v1::JudgeJobRequest>,
    ) -> Result<Response<v1::JudgeJobResponse>, Status> {
        let request = request.into_inner();
        check(&request.hosts)?;
        let since = past("since_unix_ms", request.since_unix_ms)?;
        let judge = self.judge.as_ref().ok_or_else(no_subnet)?;
        let judgement = judge.judge(request.hosts, since).await?;
        Ok(Response::new(v1::JudgeJobResponse {
            judgement: Some(judgement),
        }))
    }
}
