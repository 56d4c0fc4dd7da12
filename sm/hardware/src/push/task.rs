//! A single Set, its possible failures, and the progress of a push.

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::client::MKeys;
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::header::{AttrId, Status};
use rsm_model::WrittenPart;
use rsm_model::managed::BlockKey;
use rsm_model::mft_image::MftBlock;
use rsm_model::port_info::FieldMask;

use super::adaptive::AdaptiveStep;
use crate::link_step::LinkStep;

/// A single Set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Task {
    /// SwitchInfo of a switch.
    Switch(Guid),
    /// ARInfo of a switch, with adaptive routing off.
    AdaptiveRouting(Guid),
    /// A Set of adaptive routing by this manager.
    Adaptive(Guid, AdaptiveStep),
    /// A block of a forwarding table.
    Block {
        /// The switch.
        switch: Guid,
        /// Index of the block.
        block: u16,
        /// Index of the interim table; `None` for the planned table.
        interim: Option<usize>,
    },
    /// The SLtoVLMappingTable of a switch from one port to another.
    SlToVl {
        /// The switch.
        switch: Guid,
        /// Input port; 0 for the switch's own port.
        input: PortNum,
        /// The output port.
        output: PortNum,
    },
    /// A block of a multicast forwarding table.
    Multicast {
        /// The switch.
        switch: Guid,
        /// The block.
        at: MftBlock,
        /// Whether the Set writes the kept masks, which removes ports, rather than the final ones.
        first: bool,
    },
    /// SwitchInfo of a switch, to change MulticastFDBTop.
    MulticastTop(Guid),
    /// PortInfo of a port.
    Port(PortKey, PortStep),
    /// PortInfo of a port, to bounce, disable or enable its link.
    Link(PortKey, LinkStep),
    /// A block of a port's P_KeyTable.
    PKeys(PortKey, u16),
    /// A block of a managed attribute.
    Managed(BlockKey),
    /// VirtualizationInfo of a port.
    Virtualization(PortKey),
    /// VPortInfo of a virtual port, by port and index.
    VPort(PortKey, u16),
    /// A block of the P_KeyTable of a virtual port, by port, index and block.
    VPortPKeys(PortKey, u16, u16),
}

impl Task {
    /// The node whose agent executes the Set.
    pub fn node(&self) -> Guid {
        self.port().node
    }

    /// One Set in place of all Sets of blocks of the same table, to compare them: the Set of the
    /// first block. Sets that write no block of a switch's table are returned unchanged.
    pub fn of_first_block(self) -> Task {
        match self {
            Task::Block { switch, .. } => Task::Block {
                switch,
                block: 0,
                interim: None,
            },
            Task::SlToVl { switch, .. } => Task::SlToVl {
                switch,
                input: PortNum::ZERO,
                output: PortNum::ZERO,
            },
            Task::Multicast { switch, .. } => Task::Multicast {
                switch,
                at: MftBlock::default(),
                first: false,
            },
            _ => self,
        }
    }

    /// Whether the Set writes SwitchInfo or a table on which the unicast forwarding of a switch
    /// depends.
    pub(crate) fn is_of_table(&self) -> bool {
        matches!(
            self,
            Task::Switch(_)
                | Task::AdaptiveRouting(_)
                | Task::Adaptive(..)
                | Task::Block { .. }
                | Task::SlToVl { .. }
        )
    }

    /// Whether the Set concerns virtual ports. An agent that leaves such a Set unanswered may
    /// answer others.
    pub fn is_of_vports(&self) -> bool {
        matches!(
            self,
            Task::Virtualization(_) | Task::VPort(..) | Task::VPortPKeys(..)
        )
    }

    /// The part of the hardware that the Set writes.
    pub fn written_part(&self) -> WrittenPart {
        match *self {
            Task::Block { switch, block, .. } => WrittenPart::Block(switch, block),
            Task::Multicast { switch, at, .. } => WrittenPart::Masks(switch, at),
            Task::Adaptive(..) | Task::AdaptiveRouting(_) => WrittenPart::AdaptiveRouting,
            _ => WrittenPart::Port(self.port()),
        }
    }

    /// The port that the Set concerns; port 0 for the tables of a switch.
    pub fn port(&self) -> PortKey {
        match *self {
            Task::Switch(guid)
            | Task::AdaptiveRouting(guid)
            | Task::Adaptive(guid, _)
            | Task::Block { switch: guid, .. }
            | Task::SlToVl { switch: guid, .. }
            | Task::Multicast { switch: guid, .. }
            | Task::MulticastTop(guid) => PortKey::new(guid, PortNum::ZERO),
            Task::Port(key, _)
            | Task::Link(key, _)
            | Task::PKeys(key, _)
            | Task::Virtualization(key)
            | Task::VPort(key, _)
            | Task::VPortPKeys(key, ..)
            | Task::Managed(BlockKey { port: key, .. }) => key,
        }
    }
}

/// The step of a Set of PortInfo: the settings and the state that it writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PortStep {
    /// Writes the port's settings, and keeps its state.
    Configure,
    /// Writes the port's settings and the state Armed.
    Arm,
    /// Writes the state Active.
    Activate,
}

/// A Set with its content and its paths.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Task of the Set.
    pub task: Task,
    /// AttributeID.
    pub attribute: AttrId,
    /// AttributeModifier.
    pub modifier: u32,
    /// Content of the attribute.
    pub data: [u8; 64],
    /// Node whose agent executes the Set.
    pub target: Guid,
    /// M_Keys to try; the agent accepts one of them.
    pub m_keys: MKeys,
    /// LID to try first; `None` if no LID is known to reach the target.
    pub lid: Option<Lid>,
    /// Directed path.
    pub path: DirectedPath,
    /// Another directed path; `None` if none is known.
    pub alternate: Option<DirectedPath>,
}

/// Why a Set had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// The device sent no answer.
    Silence,
    /// The push did not send the Set, because the node left another Set unanswered.
    NotSent,
    /// The device refused the Set with this status.
    Refused(Status),
    /// The device accepted the Set and answered with other content.
    NotHeld,
    /// The device accepted the Set, but these fields of PortInfo kept their values, in the answer
    /// and in a later Get.
    NotKept(FieldMask),
}

/// A Set that had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailedSet {
    /// The Set.
    pub task: Task,
    /// Cause of the failure.
    pub cause: Cause,
}

impl FailedSet {
    /// The node that the Set was sent to.
    pub fn node(&self) -> Guid {
        self.task.node()
    }
}

/// The progress of a push.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PushProgress {
    /// Sets acknowledged.
    pub done: usize,
    /// Approximate number of all Sets; see [`Changes::sets`](crate::diff::Changes::sets).
    pub expected: usize,
    /// Acknowledged blocks of forwarding tables, including interim tables.
    pub blocks: usize,
    /// Acknowledged blocks of multicast forwarding tables; a block that first loses and then gains
    /// ports counts twice.
    pub multicast_blocks: usize,
    /// Switches on which at least one block was written.
    pub switches: usize,
    /// Ports that became Active.
    pub activated: usize,
}
