//! What is to be written to one switch, and how far that is.

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::SwitchInfo;

use super::Task;
use crate::diff::{LaneRow, SwitchChange};

/// The writing of one switch's tables.
///
/// SwitchInfo goes first, and nothing else until it is acknowledged: LinearFDBTop then tells whether the switch was reset
/// after what follows was written. Only where LinearFDBTop is raised it goes last, so that no entry above it takes effect
/// before it was written; then it is the LID of port 0 that goes first and tells.
#[derive(Debug)]
pub(super) struct SwitchPush {
    change: SwitchChange,
    info_last: bool,
    info_sent: bool,
    info_held: bool,
    /// Port 0 is to get its LID first.
    waits_for_lid: bool,
    /// Whether the switch has its place among those whose turn comes.
    pub(super) in_turn: bool,
    first_sent: usize,
    /// All switches hold what they are to hold on the way: lanes come next.
    lanes_open: bool,
    lanes_sent: usize,
    blocks_sent: usize,
    unsettled: usize,
    failed: bool,
}

impl SwitchPush {
    /// What `change` says, on top of what the switch last said of itself; `sets_lid`: port 0 is written as well.
    pub(super) fn new(
        change: SwitchChange,
        held: Option<&SwitchInfo>,
        sets_lid: bool,
    ) -> SwitchPush {
        let top = held.map_or(Lid::NONE, SwitchInfo::linear_fdb_top);
        let raised = change
            .info
            .as_ref()
            .is_some_and(|info| info.linear_fdb_top() > top);
        SwitchPush {
            info_last: raised,
            waits_for_lid: raised && sets_lid,
            info_held: change.info.is_none(),
            in_turn: false,
            change,
            info_sent: false,
            first_sent: 0,
            lanes_open: false,
            lanes_sent: 0,
            blocks_sent: 0,
            unsettled: 0,
            failed: false,
        }
    }

    /// The SwitchInfo to write.
    pub(super) fn info(&self) -> Option<&SwitchInfo> {
        self.change.info.as_ref()
    }

    /// Whether blocks are to be written on the way to the last tables.
    pub(super) fn has_waypoint(&self) -> bool {
        !self.change.first.is_empty()
    }

    /// How many SLtoVLMappingTables are to be written.
    pub(super) fn lanes(&self) -> usize {
        self.change.lanes.len()
    }

    /// Lets SLtoVLMappingTables be written.
    pub(super) fn open_lanes(&mut self) {
        self.lanes_open = true;
    }

    /// The lane of each service level from one port to another, as it is to be written.
    pub(super) fn lane_row(&self, input: PortNum, output: PortNum) -> Option<&LaneRow> {
        let mut rows = self.change.lanes.iter();
        rows.find(|row| (row.input, row.output) == (input, output))
    }

    fn has_lanes(&self) -> bool {
        self.lanes_open && self.lanes_sent < self.change.lanes.len()
    }

    /// How many Sets come before the last tables of any switch: those blocks, and SwitchInfo, which takes entries above a
    /// lowered LinearFDBTop out of use.
    pub(super) fn on_the_way(&self) -> usize {
        let info = self.change.info.is_some() && !self.info_last;
        self.change.first.len() + usize::from(info)
    }

    fn is_info_due(&self, on_the_way: bool) -> bool {
        let all_written = !on_the_way
            && !self.failed
            && self.unsettled == 0
            && self.blocks_sent == self.change.blocks.len();
        self.change.info.is_some() && !self.info_sent && (!self.info_last || all_written)
    }

    /// Whether there is something to send now, while tables on the way are written (`on_the_way`) or after.
    pub(super) fn has_next(&self, on_the_way: bool) -> bool {
        let block = if on_the_way {
            self.first_sent < self.change.first.len() || self.has_lanes()
        } else {
            self.blocks_sent < self.change.blocks.len()
        };
        !self.waits_for_lid
            && (self.is_info_due(on_the_way) || block && (self.info_last || self.info_held))
    }

    /// The next Set.
    pub(super) fn next(&mut self, switch: Guid, on_the_way: bool) -> Option<Task> {
        if !self.has_next(on_the_way) {
            return None;
        }
        let task = if self.is_info_due(on_the_way) {
            self.info_sent = true;
            Task::Switch(switch)
        } else if on_the_way && self.first_sent == self.change.first.len() {
            let lanes = self.change.lanes.get(self.lanes_sent)?;
            self.lanes_sent += 1;
            Task::Lanes {
                switch,
                input: lanes.input,
                output: lanes.output,
            }
        } else if on_the_way {
            let &block = self.change.first.get(self.first_sent)?;
            self.first_sent += 1;
            Task::Block {
                switch,
                block,
                first: true,
            }
        } else {
            let &block = self.change.blocks.get(self.blocks_sent)?;
            self.blocks_sent += 1;
            Task::Block {
                switch,
                block,
                first: false,
            }
        };
        self.unsettled += 1;
        Some(task)
    }

    /// Port 0 has its LID, or will not get it now.
    pub(super) fn lid_settled(&mut self) {
        self.waits_for_lid = false;
    }

    /// The Set of `task` was answered, or given up.
    pub(super) fn settle(&mut self, task: Task, failed: bool) {
        self.unsettled = self.unsettled.saturating_sub(1);
        self.failed |= failed;
        self.info_held |= !failed && matches!(task, Task::Switch(_));
    }

    /// Whether SwitchInfo is as planned.
    pub(super) fn is_info_held(&self) -> bool {
        self.info_held
    }

    /// Whether the switch forwards as planned.
    pub(super) fn is_programmed(&self) -> bool {
        let all_sent = self.first_sent == self.change.first.len()
            && self.lanes_sent == self.change.lanes.len()
            && self.blocks_sent == self.change.blocks.len();
        !self.failed && self.unsettled == 0 && self.info_held && all_sent
    }
}
