//! One Set, how it may end, and how many have.

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::header::{AttrId, Status};

use crate::plan::ports::FieldMask;
use crate::sweep::inventory::PortKey;
use crate::sweep::managed::BlockKey;
use crate::sweep::mft_image::MftBlock;

/// One Set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Task {
    /// SwitchInfo of a switch.
    Switch(Guid),
    /// ARInfo of a switch, with adaptive routing off.
    AdaptiveRouting(Guid),
    /// A block of a forwarding table.
    Block {
        /// The switch.
        switch: Guid,
        /// Which block.
        block: u16,
        /// The interim table that it is written for; `None` for the planned one.
        interim: Option<usize>,
    },
    /// The SLtoVLMappingTable of a switch from one port to another.
    SlToVl {
        /// The switch.
        switch: Guid,
        /// The port that packets come in by; 0 for its own.
        input: PortNum,
        /// The port that they leave by.
        output: PortNum,
    },
    /// A block of a multicast forwarding table.
    Multicast {
        /// The switch.
        switch: Guid,
        /// Which block.
        at: MftBlock,
        /// Write what is kept of what it holds, rather than what is held in the end.
        first: bool,
    },
    /// SwitchInfo of a switch, with another MulticastFDBTop.
    MulticastTop(Guid),
    /// PortInfo of a port.
    Port(PortKey, Step),
    /// PortInfo of a port, with PortState Down, so that its link trains again.
    Bounce(PortKey),
    /// A block of a port's P_KeyTable.
    PKeys(PortKey, u16),
    /// A block of a managed attribute.
    Managed(BlockKey),
}

impl Task {
    /// The node whose agent works on it.
    pub fn node(&self) -> Guid {
        match *self {
            Task::Switch(guid)
            | Task::AdaptiveRouting(guid)
            | Task::Block { switch: guid, .. }
            | Task::SlToVl { switch: guid, .. }
            | Task::Multicast { switch: guid, .. }
            | Task::MulticastTop(guid) => guid,
            Task::Port(key, _)
            | Task::Bounce(key)
            | Task::PKeys(key, _)
            | Task::Managed(BlockKey { port: key, .. }) => key.node,
        }
    }
}

/// How far a Set of PortInfo takes a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// Its settings; the state stays.
    Configure,
    /// Its settings, and Armed.
    Arm,
    /// Active.
    Activate,
}

/// A Set with its content and the way it goes.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// What it is for.
    pub task: Task,
    /// The attribute.
    pub attribute: AttrId,
    /// Its modifier.
    pub modifier: u32,
    /// Its content.
    pub data: [u8; 64],
    /// The node whose agent works on it.
    pub target: Guid,
    /// The LID by which it is reached first, where that is known to get through.
    pub lid: Option<Lid>,
    /// The way there.
    pub path: DirectedPath,
    /// Another way, where one is known.
    pub alternate: Option<DirectedPath>,
}

/// Why a Set had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// It was never answered.
    Silence,
    /// It was not sent: the node left another Set unanswered.
    NotSent,
    /// It was refused.
    Refused(Status),
    /// It was accepted, and the answer holds something else.
    NotHeld,
    /// It was accepted, and these fields of PortInfo keep their values, in the answer and in a Get.
    NotKept(FieldMask),
}

/// A Set that had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What it was for.
    pub task: Task,
    /// Why.
    pub cause: Cause,
}

impl Failure {
    /// The node that it was for.
    pub fn node(&self) -> Guid {
        self.task.node()
    }
}

/// What a push has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// Sets acknowledged.
    pub done: usize,
    /// Blocks of forwarding tables acknowledged, those on the way included.
    pub blocks: usize,
    /// Blocks of multicast forwarding tables acknowledged, both steps counted.
    pub multicast_blocks: usize,
    /// Switches on which at least one block was written.
    pub switches: usize,
    /// Ports that became Active.
    pub activated: usize,
}
