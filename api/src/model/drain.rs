use super::Selector;

/// A request to route around parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainQuestion {
    /// Nodes, and ports whose cables are meant.
    pub parts: Vec<Selector>,
    /// Whether they are drained even if ports would be cut off without them.
    pub force: bool,
    /// The operator, as he calls himself; empty where he does not.
    pub by: String,
    /// A note, often empty.
    pub note: String,
}
