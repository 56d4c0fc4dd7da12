use super::Selector;

/// A request to route around parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainQuestion {
    /// The parts: nodes, and ports that stand for their cables.
    pub parts: Vec<Selector>,
    /// Whether the parts are drained even if ports would be cut off without them.
    pub force: bool,
    /// The operator's name as stated in the request; empty if not stated.
    pub by: String,
    /// A note, often empty.
    pub note: String,
}
