use super::Selector;

/// A loss to foresee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossSelector {
    /// The cable at a port.
    Cable(Selector),
    /// A node with all its cables.
    Node(Selector),
    /// A node, or the cable at a port where the name is that of a port.
    Part(Selector),
}
