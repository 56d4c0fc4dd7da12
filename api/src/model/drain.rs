use super::Selector;

/// A request to route around parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainQuestion {
    /// The parts to drain: nodes, and ports that stand for their cables.
    pub parts: Vec<Selector>,
    /// Whether to drain the parts even if ports are then cut off.
    pub force: bool,
    /// The identity of the operator, and the name that the client states; empty if none is known.
    pub by: String,
    /// The operator's note; empty if none is given.
    pub note: String,
}
