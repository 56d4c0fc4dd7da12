//! Parts of the hardware: the units that Sets write, and that are read again.

use std::collections::BTreeSet;

use rsm_ids::{Guid, PortKey};

use super::mft_image::MftBlock;

/// The part of the hardware that one Set writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrittenPart {
    /// A port; port 0 stands for the node.
    Port(PortKey),
    /// A block of a switch's forwarding table.
    Block(Guid, u16),
    /// A block of a switch's multicast forwarding table.
    Masks(Guid, MftBlock),
    /// Tables or settings of adaptive routing.
    AdaptiveRouting,
}

/// Parts of the hardware that are to be read one by one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Parts {
    /// Ports. Port 0 stands for the node: its description, and everything of a switch except its
    /// external ports and forwarding tables.
    pub ports: BTreeSet<PortKey>,
    /// Blocks of forwarding tables.
    pub blocks: BTreeSet<(Guid, u16)>,
    /// Blocks of multicast forwarding tables.
    pub masks: BTreeSet<(Guid, MftBlock)>,
}

impl Parts {
    /// Number of parts.
    pub fn len(&self) -> usize {
        self.ports.len() + self.blocks.len() + self.masks.len()
    }

    /// Whether there are no parts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the parts of `other`.
    pub fn extend(&mut self, other: &Parts) {
        self.ports.extend(&other.ports);
        self.blocks.extend(&other.blocks);
        self.masks.extend(&other.masks);
    }
}
