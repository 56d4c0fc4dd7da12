//! One Set, its possible failures, and the progress of a push.

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

/// One Set.
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
        /// The interim table of the block; `None` for the last one.
        interim: Option<usize>,
    },
    /// The SLtoVLMappingTable of a switch from one port to another.
    SlToVl {
        /// The switch.
        switch: Guid,
        /// The input port; 0 for the switch's own port.
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
        /// Whether it writes the kept masks, which removes ports, rather than the final ones.
        first: bool,
    },
    /// SwitchInfo of a switch, with another MulticastFDBTop.
    MulticastTop(Guid),
    /// PortInfo of a port.
    Port(PortKey, PortStep),
    /// PortInfo of a port, which takes its link down or up.
    Link(PortKey, LinkStep),
    /// A block of a port's P_KeyTable.
    PKeys(PortKey, u16),
    /// A block of a managed attribute.
    Managed(BlockKey),
    /// VirtualizationInfo of a port.
    Virtualization(PortKey),
    /// VPortInfo of an index of a port.
    VPort(PortKey, u16),
    /// A block of the P_KeyTable of an index of a port.
    VPortPKeys(PortKey, u16, u16),
}

impl Task {
    /// The node whose agent executes it.
    pub fn node(&self) -> Guid {
        self.port().node
    }

    /// Whether it writes a part of the tables by which a switch forwards unicast packets.
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

    /// Whether it concerns virtual ports: an agent that leaves it unanswered may take other Sets.
    pub fn is_of_vports(&self) -> bool {
        matches!(
            self,
            Task::Virtualization(_) | Task::VPort(..) | Task::VPortPKeys(..)
        )
    }

    /// The part of the hardware that it writes.
    pub fn written_part(&self) -> WrittenPart {
        match *self {
            Task::Block { switch, block, .. } => WrittenPart::Block(switch, block),
            Task::Multicast { switch, at, .. } => WrittenPart::Masks(switch, at),
            Task::Adaptive(..) | Task::AdaptiveRouting(_) => WrittenPart::AdaptiveRouting,
            _ => WrittenPart::Port(self.port()),
        }
    }

    /// The port that it concerns; port 0 for Sets to the tables of a switch.
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

/// How far a Set of PortInfo takes a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PortStep {
    /// The port's settings; the state stays.
    Configure,
    /// The port's settings, and Armed.
    Arm,
    /// Active.
    Activate,
}

/// A Set with its content and its path.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Its task.
    pub task: Task,
    /// The attribute.
    pub attribute: AttrId,
    /// Its modifier.
    pub modifier: u32,
    /// Its content.
    pub data: [u8; 64],
    /// The node whose agent executes it.
    pub target: Guid,
    /// The M_Keys, of which the agent accepts one.
    pub m_keys: MKeys,
    /// The LID by which it goes first, if that is known to get through.
    pub lid: Option<Lid>,
    /// The directed path.
    pub path: DirectedPath,
    /// Another path, if one is known.
    pub alternate: Option<DirectedPath>,
}

/// Why a Set had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// No answer came.
    Silence,
    /// The push did not send it: the node left another Set unanswered.
    NotSent,
    /// The device refused it.
    Refused(Status),
    /// The device accepted it and answered with other content.
    NotHeld,
    /// The device accepted it, and these fields of PortInfo keep their values, in the answer and in
    /// a Get.
    NotKept(FieldMask),
}

/// A Set that had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailedSet {
    /// The Set.
    pub task: Task,
    /// Why.
    pub cause: Cause,
}

impl FailedSet {
    /// The node of the Set.
    pub fn node(&self) -> Guid {
        self.task.node()
    }
}

/// The progress of a push.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PushProgress {
    /// Sets acknowledged.
    pub done: usize,
    /// About how many Sets there are in all, see [`Changes::sets`](crate::diff::Changes::sets).
    pub expected: usize,
    /// Blocks of forwarding tables acknowledged, those of interim tables included.
    pub blocks: usize,
    /// Blocks of multicast forwarding tables acknowledged, both steps counted.
    pub multicast_blocks: usize,
    /// Switches on which at least one block was written.
    pub switches: usize,
    /// Ports that became Active.
    pub activated: usize,
}
