//! The Gets of a sweep, and their results.

use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::client::MKeys;
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::header::{AttrId, Status};

use super::Query;

/// A Get with its paths.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The query that the Get answers.
    pub query: Query,
    /// AttributeID.
    pub attribute: AttrId,
    /// AttributeModifier.
    pub modifier: u32,
    /// Identifies the agent: the client limits the number of open requests to each agent.
    pub target: u64,
    /// The response time of the agent; zero if it is not known yet.
    pub response_time: Duration,
    /// M_Keys to try, the most likely first.
    pub m_keys: MKeys,
    /// LID to try first; `None` if no LID is known to reach the target.
    pub lid: Option<Lid>,
    /// Directed path.
    pub path: DirectedPath,
    /// Another directed path; `None` if none is known.
    pub alternate: Option<DirectedPath>,
}

/// Result of a query.
#[derive(Clone, Copy, Debug)]
pub enum AgentAnswer<'a> {
    /// The agent answered with the attribute.
    Data(&'a [u8; 64]),
    /// The agent answered with a status other than zero.
    Refused(Status),
    /// The agent answered a repetition with a status other than zero, perhaps because it had
    /// executed an earlier attempt whose answer was lost.
    RefusedRepetition(Status),
    /// The agent did not answer any attempt.
    Silence,
}
