//! Gets of a sweep, and how they end.

use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::client::MKeys;
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::header::{AttrId, Status};

use super::Query;

/// A Get with its paths.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Query of the Get.
    pub query: Query,
    /// AttributeID.
    pub attribute: AttrId,
    /// AttributeModifier.
    pub modifier: u32,
    /// Identifies the agent, to bound its load.
    pub target: u64,
    /// The response time of the agent; zero where it is not known yet.
    pub response_time: Duration,
    /// M_Keys to try; the agent accepts one of them.
    pub m_keys: MKeys,
    /// LID to try first; `None` if no LID is known to get through.
    pub lid: Option<Lid>,
    /// Directed path.
    pub path: DirectedPath,
    /// Another directed path; `None` if none is known.
    pub alternate: Option<DirectedPath>,
}

/// How a query ended.
#[derive(Clone, Copy, Debug)]
pub enum AgentAnswer<'a> {
    /// The agent answered with the attribute.
    Data(&'a [u8; 64]),
    /// The agent answered with a status other than zero.
    Refused(Status),
    /// The agent answered a repetition with a status other than zero. An earlier attempt, whose
    /// answer was lost, may have been executed, and may be the reason of the refusal.
    RefusedRepetition(Status),
    /// The agent did not answer, in spite of retries.
    Silence,
}
