//! Agents of congestion control, in the form of the API.

use rsm_api::model::{Keyed, Page, PortId};
use rsm_api::v1;
use rsm_ids::Guid;
use rsm_model::congestion::{AgentReport, AgentStatus};
use rsm_model::fabric::PortRef;

use super::api_view::api_key;
use super::published::Published;
use super::subnet::{page, ports_from};

/// Page of agents after the key `after`; only the agents of the node `of`, if given.
pub(super) fn agents(
    published: &Published,
    after: Option<PortId>,
    limit: usize,
    of: Option<Guid>,
) -> Page<Keyed<PortId, v1::CongestionAgent>> {
    let ports = ports_from(published.fabric(), after, of, |_| true);
    let shown = ports.filter_map(|at| {
        let key = published.fabric().key(at);
        let agent = published.snapshot.congestion.agent(key)?;
        Some(shown(published, at, agent))
    });
    page(published, shown, limit)
}

fn shown(
    published: &Published,
    at: PortRef,
    agent: &AgentReport,
) -> Keyed<PortId, v1::CongestionAgent> {
    let fabric = published.fabric();
    let key = api_key(fabric.key(at));
    let message = v1::CongestionAgent {
        port: Some(key.into()),
        node_description: fabric.node(at.node).description.clone(),
        lid: fabric.port(at).lid().0.into(),
        state: state(agent.status).into(),
        note: agent.status.to_string(),
        sets: agent.sets,
        key_violations: agent.key_violations.map(u32::from),
    };
    Keyed { key, message }
}

fn state(status: AgentStatus) -> v1::CongestionState {
    match status {
        AgentStatus::Pending => v1::CongestionState::Pending,
        AgentStatus::Set => v1::CongestionState::Set,
        AgentStatus::Absent(_) => v1::CongestionState::Absent,
        AgentStatus::Silent => v1::CongestionState::Silent,
        AgentStatus::Redirects
        | AgentStatus::Unanswered(_)
        | AgentStatus::Refuses(..)
        | AgentStatus::NotKept(_)
        | AgentStatus::TableTooSmall(_) => v1::CongestionState::Failed,
    }
}
