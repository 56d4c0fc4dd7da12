use super::Selector;

/// A part whose loss is to be predicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossSelector {
    /// The cable at a port.
    Cable(Selector),
    /// A node with all its cables.
    Node(Selector),
    /// A node, or the cable at a port if the name identifies a port.
    Part(Selector),
}
