use super::Selector;

/// A part whose loss is to be foreseen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossSelector {
    /// The cable at a port.
    Cable(Selector),
    /// A node with all its cables.
    Node(Selector),
    /// A node, or the cable at a port if the name is that of a port.
    Part(Selector),
}
