//! Reasons why planning failed.

use rsm_routing::engine::EngineError;
use rsm_routing::topology::TopologyError;

use crate::avoid::CutOff;
use crate::interrupted::Interrupted;
use crate::levels::Stopped;
use crate::lint::Refusal;

/// Reason why a job has no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The fabric has no valid switch graph.
    #[error("the fabric cannot be routed")]
    Topology(#[from] TopologyError),
    /// The engine found no routes.
    #[error("the engine found no routes")]
    Engine(#[from] EngineError),
    /// The links have too few VLs for the engine.
    #[error("the engine found no routes, because {limit}")]
    FewLanes {
        /// The link, or the configuration key that limits all links.
        limit: String,
        /// The engine's error, with the number of VLs that it needs.
        source: EngineError,
    },
    /// The operator's QoS tables stop packets of the routes.
    #[error("the tables of section `qos` do not fit the routes")]
    Stopped(#[from] Stopped),
    /// The proof refuted the routes.
    #[error("the routes were refused")]
    Refused(#[from] Refusal),
    /// The subnet manager's own port has no LID.
    #[error("the subnet manager's own port has no LID")]
    NoLocalLid,
    /// Ports would be cut off without the parts on trial.
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// Packets would be dropped while the tables of an engine on trial are written.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl PlanError {
    /// Whether another engine may succeed.
    pub(crate) fn is_engine_specific(&self) -> bool {
        match self {
            PlanError::Engine(_)
            | PlanError::FewLanes { .. }
            | PlanError::Stopped(_)
            | PlanError::Refused(_) => true,
            PlanError::Topology(_)
            | PlanError::NoLocalLid
            | PlanError::CutOff(_)
            | PlanError::Interrupted(_) => false,
        }
    }

    /// The error as text, with all of its causes.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        text
    }
}
