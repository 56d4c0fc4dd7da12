use super::Selector;

/// A loss to foresee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// The cable at a port.
    Cable(Selector),
    /// A node with all its cables.
    Node(Selector),
}
