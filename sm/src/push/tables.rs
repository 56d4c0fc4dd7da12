//! The Sets of one switch, and their progress.

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{ArInfo, SwitchInfo};

use super::Task;
use super::phases::Phase;
use crate::diff::{SlToVlRow, SwitchChange};
use crate::sweep::inventory::LFT_BLOCK;

/// The Sets of one switch's tables.
///
/// SwitchInfo goes first, and nothing else until it is acknowledged: LinearFDBTop then shows a
/// reset of the switch after later Sets. A SwitchInfo that raises LinearFDBTop goes last instead,
/// so that no entry above the old top takes effect before it is written; then the LID of port 0
/// goes first and shows a reset. For a switch that refuses blocks above LinearFDBTop, SwitchInfo
/// always goes first.
#[derive(Debug)]
pub(super) struct SwitchPush {
    change: SwitchChange,
    info_last: bool,
    info_sent: bool,
    info_held: bool,
    ar_info_sent: bool,
    /// It takes part in the last phase only.
    comes_last: bool,
    /// Port 0 must get its LID first.
    waits_for_lid: bool,
    /// Whether the switch is queued for its turn.
    pub(super) in_turn: bool,
    /// Blocks sent, by interim table.
    interim_sent: Vec<usize>,
    sl2vl_sent: usize,
    blocks_sent: usize,
    unsettled: usize,
    failed: bool,
    /// Refused blocks, which are sent again once LinearFDBTop was raised.
    again: Vec<Task>,
}

impl SwitchPush {
    /// The Sets of `change`, with `held` as the switch's last SwitchInfo. `sets_lid`: port 0 is
    /// written, too; `top_first`: the switch takes no block above LinearFDBTop.
    pub(super) fn new(
        change: SwitchChange,
        held: Option<&SwitchInfo>,
        sets_lid: bool,
        top_first: bool,
    ) -> SwitchPush {
        let top = held.map_or(Lid::NONE, SwitchInfo::linear_fdb_top);
        let raised = change
            .info
            .as_ref()
            .is_some_and(|info| info.linear_fdb_top() > top)
            && !top_first;
        SwitchPush {
            info_last: raised,
            comes_last: false,
            waits_for_lid: raised && sets_lid,
            info_held: change.info.is_none(),
            ar_info_sent: change.ar_info.is_none(),
            in_turn: false,
            interim_sent: vec![0; change.interim.len()],
            change,
            info_sent: false,
            sl2vl_sent: 0,
            blocks_sent: 0,
            unsettled: 0,
            failed: false,
            again: Vec::new(),
        }
    }

    /// The same for a switch that no other one waits for.
    pub(super) fn coming_last(self) -> SwitchPush {
        SwitchPush {
            comes_last: true,
            ..self
        }
    }

    /// Handles a refused block. If it is above `top`, the LinearFDBTop in force, it is sent again
    /// after a raise; the result then says whether SwitchInfo moves from last to first.
    pub(super) fn raise_top_first(&mut self, task: Task, top: Lid) -> Option<bool> {
        let Task::Block { block, .. } = task else {
            return None;
        };
        let block = usize::from(block);
        let info = self.change.info.as_ref()?;
        let is_raised = block <= info.linear_fdb_top().index() / LFT_BLOCK;
        let is_above = block * LFT_BLOCK > top.index();
        if self.info_held || !is_raised || !is_above {
            return None;
        }
        self.unsettled = self.unsettled.saturating_sub(1);
        self.again.push(task);
        Some(std::mem::take(&mut self.info_last))
    }

    /// The SwitchInfo to write.
    pub(super) fn info(&self) -> Option<&SwitchInfo> {
        self.change.info.as_ref()
    }

    /// The ARInfo to write.
    pub(super) fn ar_info(&self) -> Option<&ArInfo> {
        self.change.ar_info.as_ref()
    }

    /// Whether there are blocks to write for interim tables.
    pub(super) fn has_interim(&self) -> bool {
        self.change.has_interim()
    }

    /// How many SLtoVLMappingTables there are to write.
    pub(super) fn sl2vl(&self) -> usize {
        self.change.sl2vl.len()
    }

    /// The planned lane of each service level from one port to another.
    pub(super) fn sl2vl_row(&self, input: PortNum, output: PortNum) -> Option<&SlToVlRow> {
        let mut rows = self.change.sl2vl.iter();
        rows.find(|row| (row.input, row.output) == (input, output))
    }

    /// How many Sets must be settled before the phase after `phase` begins: blocks or
    /// SLtoVLMappingTables; in the first phase also a SwitchInfo that does not go last, which may
    /// take entries above a lowered LinearFDBTop out of use, and ARInfo, which takes the tables of
    /// another manager out of use.
    pub(super) fn counted(&self, phase: Phase) -> usize {
        match phase {
            _ if self.comes_last => 0,
            Phase::Interim(stage) => {
                let is_first = stage == 0;
                let info = is_first && self.change.info.is_some() && !self.info_last;
                let ar_info = is_first && self.change.ar_info.is_some();
                let blocks = self.change.interim.get(stage).map_or(0, Vec::len);
                blocks + usize::from(info) + usize::from(ar_info)
            }
            Phase::SlToVl => self.sl2vl(),
            Phase::Links | Phase::Last => 0,
        }
    }

    /// Whether [`SwitchPush::counted`] counts the Set of `task` in some phase.
    pub(super) fn is_counted(&self, task: Task) -> bool {
        match task {
            Task::Switch(_) => !self.info_last,
            Task::Block { interim, .. } => interim.is_some(),
            _ => true,
        }
    }

    fn all_sent(&self) -> bool {
        let mut interim = self.change.interim.iter().zip(&self.interim_sent);
        interim.all(|(blocks, &sent)| sent == blocks.len())
            && self.ar_info_sent
            && self.again.is_empty()
            && self.sl2vl_sent == self.change.sl2vl.len()
            && self.blocks_sent == self.change.blocks.len()
    }

    fn is_info_due(&self) -> bool {
        let all_written = !self.failed && self.unsettled == 0 && self.all_sent();
        self.change.info.is_some() && !self.info_sent && (!self.info_last || all_written)
    }

    /// The next block or SLtoVLMappingTable of a phase.
    fn next_part(&self, switch: Guid, phase: Phase) -> Option<Task> {
        match phase {
            Phase::Interim(stage) => {
                let blocks = self.change.interim.get(stage)?;
                let &block = blocks.get(*self.interim_sent.get(stage)?)?;
                Some(Task::Block {
                    switch,
                    block,
                    interim: Some(stage),
                })
            }
            Phase::SlToVl => {
                let sl2vl = self.change.sl2vl.get(self.sl2vl_sent)?;
                Some(Task::SlToVl {
                    switch,
                    input: sl2vl.input,
                    output: sl2vl.output,
                })
            }
            Phase::Links => None,
            Phase::Last => {
                let &block = self.change.blocks.get(self.blocks_sent)?;
                Some(Task::Block {
                    switch,
                    block,
                    interim: None,
                })
            }
        }
    }

    fn peek(&self, switch: Guid, phase: Phase) -> Option<Task> {
        if self.comes_last && phase != Phase::Last {
            None
        } else if !self.ar_info_sent {
            Some(Task::AdaptiveRouting(switch))
        } else if self.waits_for_lid {
            None
        } else if self.is_info_due() {
            Some(Task::Switch(switch))
        } else if self.info_last || self.info_held {
            let again = self.again.last().copied();
            again.or_else(|| self.next_part(switch, phase))
        } else {
            None
        }
    }

    /// Whether there is a Set to send now, in this phase.
    pub(super) fn has_next(&self, phase: Phase) -> bool {
        self.peek(Guid::ZERO, phase).is_some()
    }

    /// The next Set.
    pub(super) fn next(&mut self, switch: Guid, phase: Phase) -> Option<Task> {
        let task = self.peek(switch, phase)?;
        self.unsettled += 1;
        if self.again.last() == Some(&task) {
            self.again.pop();
            return Some(task);
        }
        match task {
            Task::AdaptiveRouting(_) => self.ar_info_sent = true,
            Task::Switch(_) => self.info_sent = true,
            Task::SlToVl { .. } => self.sl2vl_sent += 1,
            Task::Block {
                interim: Some(stage),
                ..
            } => self.interim_sent[stage] += 1,
            _ => self.blocks_sent += 1,
        }
        Some(task)
    }

    /// Gives up the remaining Sets. Returns how many Sets that [`SwitchPush::counted`] counts in
    /// `phase` will not be sent.
    pub(super) fn forgo(&mut self, phase: Phase) -> usize {
        let left = match phase {
            Phase::Interim(stage) => {
                let blocks = self.change.interim.get(stage).map_or(0, Vec::len);
                let sent = self.interim_sent.get(stage).copied().unwrap_or(blocks);
                blocks - sent + self.again.len()
            }
            Phase::SlToVl => self.change.sl2vl.len() - self.sl2vl_sent,
            Phase::Links | Phase::Last => 0,
        };
        self.again.clear();
        let sent = self.interim_sent.iter_mut();
        sent.zip(&self.change.interim)
            .for_each(|(sent, blocks)| *sent = blocks.len());
        self.sl2vl_sent = self.change.sl2vl.len();
        self.blocks_sent = self.change.blocks.len();
        left
    }

    /// Port 0 has its LID, or will not get it in this push.
    pub(super) fn lid_settled(&mut self) {
        self.waits_for_lid = false;
    }

    /// Settles the Set of `task`, which was answered or given up.
    pub(super) fn settle(&mut self, task: Task, failed: bool) {
        self.unsettled = self.unsettled.saturating_sub(1);
        self.failed |= failed;
        self.info_held |= !failed && matches!(task, Task::Switch(_));
    }

    /// Whether SwitchInfo is as planned.
    pub(super) fn is_info_held(&self) -> bool {
        self.info_held
    }

    /// Whether the switch holds its planned tables.
    pub(super) fn is_programmed(&self) -> bool {
        !self.failed && self.unsettled == 0 && self.info_held && self.all_sent()
    }
}
