//! The Sets that a push sends for the tables of one switch, and their progress.

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{ArInfo, SwitchInfo};
use rsm_model::lft_image::LFT_BLOCK;

use super::Task;
use super::phases::Phase;
use crate::diff::{SlToVlRow, SwitchChange};

/// The Sets of one switch's tables.
///
/// SwitchInfo is sent first, and all other Sets wait until it is acknowledged: from then on,
/// LinearFDBTop shows a reset of the switch. A SwitchInfo that raises LinearFDBTop is sent last
/// instead, so that no entry above the old top takes effect before it is written. The LID of port 0
/// is then sent first, and shows a reset. To a switch that refuses blocks above LinearFDBTop,
/// SwitchInfo is sent first all the same. A SwitchInfo that lowers LinearFDBTop is sent last if
/// entries above the new top must be removed: they would come into force again once a later plan
/// raises LinearFDBTop. The old top shows a reset meanwhile.
#[derive(Debug)]
pub(super) struct SwitchPush {
    change: SwitchChange,
    /// Whether SwitchInfo is sent last, because of its LinearFDBTop.
    sends_info_last: bool,
    /// Whether SwitchInfo was sent.
    is_info_sent: bool,
    /// Whether the switch holds the planned SwitchInfo.
    holds_info: bool,
    /// Whether ARInfo was sent, or the push writes no ARInfo.
    ar_info_done: bool,
    /// Whether the LID of port 0 must be sent first.
    waits_for_lid: bool,
    /// Whether the switch is in the queue of switches with a Set to send.
    pub(super) in_turn: bool,
    /// Number of blocks sent of the interim table of each stage.
    interim_sent: Vec<usize>,
    /// Number of SLtoVLMappingTables sent.
    sl2vl_sent: usize,
    /// Number of blocks sent of the planned table.
    blocks_sent: usize,
    /// Number of Sets that were sent, and neither answered nor given up yet.
    unsettled: usize,
    /// Whether a Set has failed.
    failed: bool,
    /// Refused blocks, which are sent again once LinearFDBTop is raised.
    refused_blocks: Vec<Task>,
}

impl SwitchPush {
    /// Prepares the Sets of `change`. `held` is the SwitchInfo that the switch is known to hold;
    /// `None` if it is not known. `sets_lid` says whether the push also writes the LID of port 0,
    /// and `top_first` whether the switch refuses blocks above LinearFDBTop.
    pub(super) fn new(
        change: SwitchChange,
        held: Option<&SwitchInfo>,
        sets_lid: bool,
        top_first: bool,
    ) -> SwitchPush {
        let top = held.map_or(Lid::NONE, SwitchInfo::linear_fdb_top);
        let planned = change.info.as_ref().map_or(top, SwitchInfo::linear_fdb_top);
        let raises_top = planned > top && !top_first;
        let last_block = (planned.index() / LFT_BLOCK) as u16;
        let is_above = |blocks: &Vec<u16>| blocks.iter().any(|&block| block >= last_block);
        let removes_entries =
            planned < top && (is_above(&change.blocks) || change.interim.iter().any(is_above));
        SwitchPush {
            sends_info_last: raises_top || removes_entries,
            waits_for_lid: raises_top && sets_lid,
            holds_info: change.info.is_none(),
            ar_info_done: change.ar_info.is_none(),
            in_turn: false,
            interim_sent: vec![0; change.interim.len()],
            change,
            is_info_sent: false,
            sl2vl_sent: 0,
            blocks_sent: 0,
            unsettled: 0,
            failed: false,
            refused_blocks: Vec::new(),
        }
    }

    /// Handles a refused block. If the block is above `top`, the LinearFDBTop in force, and the
    /// planned SwitchInfo raises LinearFDBTop far enough, the block is sent again after SwitchInfo.
    /// Returns whether SwitchInfo moves from the last to the first Set; `None` if the block is not
    /// sent again.
    pub(super) fn raise_top_first(&mut self, task: Task, top: Lid) -> Option<bool> {
        let Task::Block { block, .. } = task else {
            return None;
        };
        let block = usize::from(block);
        let info = self.change.info.as_ref()?;
        let is_below_planned_top = block <= info.linear_fdb_top().index() / LFT_BLOCK;
        let is_above = block * LFT_BLOCK > top.index();
        if self.holds_info || !is_below_planned_top || !is_above {
            return None;
        }
        self.unsettled = self.unsettled.saturating_sub(1);
        self.refused_blocks.push(task);
        Some(std::mem::take(&mut self.sends_info_last))
    }

    /// The SwitchInfo to write; `None` if the push writes no SwitchInfo.
    pub(super) fn info(&self) -> Option<&SwitchInfo> {
        self.change.info.as_ref()
    }

    /// The ARInfo to write; `None` if the push writes no ARInfo.
    pub(super) fn ar_info(&self) -> Option<&ArInfo> {
        self.change.ar_info.as_ref()
    }

    /// Whether the push writes blocks of interim tables.
    pub(super) fn has_interim(&self) -> bool {
        self.change.has_interim()
    }

    /// Number of SLtoVLMappingTables to write.
    pub(super) fn sl2vl(&self) -> usize {
        self.change.sl2vl.len()
    }

    /// The planned VL of each service level from one port to another; `None` if the push does not
    /// write that table.
    pub(super) fn sl2vl_row(&self, input: PortNum, output: PortNum) -> Option<&SlToVlRow> {
        let rows = &self.change.sl2vl;
        let at = rows.binary_search_by_key(&(input, output), |row| (row.input, row.output));
        rows.get(at.ok()?)
    }

    /// Number of Sets of `phase` that must be settled before the next phase begins: blocks or
    /// SLtoVLMappingTables. The first phase also counts ARInfo, because ARInfo takes the tables of
    /// another manager out of use. It also counts a SwitchInfo that is not sent last, because that
    /// may lower LinearFDBTop and thus take entries out of use.
    pub(super) fn counted(&self, phase: Phase) -> usize {
        match phase {
            Phase::Interim(stage) => {
                let is_first = stage == 0;
                let info = is_first && self.change.info.is_some() && !self.sends_info_last;
                let ar_info = is_first && self.change.ar_info.is_some();
                let blocks = self.change.interim.get(stage).map_or(0, Vec::len);
                blocks + usize::from(info) + usize::from(ar_info)
            }
            Phase::SlToVl => self.sl2vl(),
            Phase::Adaptive | Phase::Links | Phase::Last => 0,
        }
    }

    /// Whether [`SwitchPush::counted`] counts the Set of `task` in any phase.
    pub(super) fn is_counted(&self, task: Task) -> bool {
        match task {
            Task::Switch(_) => !self.sends_info_last,
            Task::Block { interim, .. } => interim.is_some(),
            _ => true,
        }
    }

    /// Whether all Sets except SwitchInfo are sent.
    fn all_sent(&self) -> bool {
        let mut interim = self.change.interim.iter().zip(&self.interim_sent);
        interim.all(|(blocks, &sent)| sent == blocks.len())
            && self.ar_info_done
            && self.refused_blocks.is_empty()
            && self.sl2vl_sent == self.change.sl2vl.len()
            && self.blocks_sent == self.change.blocks.len()
    }

    /// The next Set of each kind, in the order of sending. Kinds without a Set left to send are
    /// omitted.
    pub(super) fn left(&self, switch: Guid) -> impl Iterator<Item = Task> {
        let block = |block: u16, interim: Option<usize>| Task::Block {
            switch,
            block,
            interim,
        };
        let ar_info = (!self.ar_info_done).then_some(Task::AdaptiveRouting(switch));
        let has_info = self.change.info.is_some() && !self.is_info_sent;
        let info = has_info.then_some(Task::Switch(switch));
        let refused_block = self.refused_blocks.last().copied();
        let mut stages = self.change.interim.iter().zip(&self.interim_sent).zip(0..);
        let interim = stages
            .find_map(|((blocks, &sent), stage)| Some(block(*blocks.get(sent)?, Some(stage))));
        let sl2vl = self.change.sl2vl.get(self.sl2vl_sent);
        let sl2vl = sl2vl.map(|row| Task::SlToVl {
            switch,
            input: row.input,
            output: row.output,
        });
        let planned_block = self.change.blocks.get(self.blocks_sent);
        let planned_block = planned_block.map(|&number| block(number, None));
        let left = [ar_info, info, refused_block, interim, sl2vl, planned_block];
        left.into_iter().flatten()
    }

    /// Records that the Set of `task` was sent.
    pub(super) fn sent(&mut self, task: Task) {
        self.unsettled += 1;
        if self.refused_blocks.last() == Some(&task) {
            self.refused_blocks.pop();
            return;
        }
        match task {
            Task::AdaptiveRouting(_) => self.ar_info_done = true,
            Task::Switch(_) => self.is_info_sent = true,
            Task::SlToVl { .. } => self.sl2vl_sent += 1,
            Task::Block {
                interim: Some(stage),
                ..
            } => self.interim_sent[stage] += 1,
            _ => self.blocks_sent += 1,
        }
    }

    /// Gives up the Sets of blocks and SLtoVLMappingTables that were not sent yet. Returns the
    /// number of them that [`SwitchPush::counted`] counts in `phase`.
    pub(super) fn forgo(&mut self, phase: Phase) -> usize {
        let unsent = match phase {
            Phase::Interim(stage) => {
                let blocks = self.change.interim.get(stage).map_or(0, Vec::len);
                let sent = self.interim_sent.get(stage).copied().unwrap_or(blocks);
                blocks - sent + self.refused_blocks.len()
            }
            Phase::SlToVl => self.change.sl2vl.len() - self.sl2vl_sent,
            Phase::Adaptive | Phase::Links | Phase::Last => 0,
        };
        self.refused_blocks.clear();
        // Later phases must not count them either.
        let sent = self.interim_sent.iter();
        for (blocks, &sent) in self.change.interim.iter_mut().zip(sent) {
            blocks.truncate(sent);
        }
        self.change.sl2vl.truncate(self.sl2vl_sent);
        self.change.blocks.truncate(self.blocks_sent);
        unsent
    }

    /// Records that port 0 has its LID, or will not get it in this push.
    pub(super) fn lid_settled(&mut self) {
        self.waits_for_lid = false;
    }

    /// Records that the Set of `task` was answered or given up; `failed` says that it had no
    /// effect.
    pub(super) fn settle(&mut self, task: Task, failed: bool) {
        self.unsettled = self.unsettled.saturating_sub(1);
        self.failed |= failed;
        self.holds_info |= !failed && matches!(task, Task::Switch(_));
    }

    /// Whether ARInfo was sent, or the push writes no ARInfo.
    pub(super) fn is_ar_info_sent(&self) -> bool {
        self.ar_info_done
    }

    /// Whether LinearFDBTop or the LID of port 0 would show a later reset of the switch.
    pub(super) fn shows_reset(&self) -> bool {
        !self.waits_for_lid && (self.sends_info_last || self.holds_info)
    }

    /// Whether SwitchInfo is as planned.
    pub(super) fn is_info_held(&self) -> bool {
        self.holds_info
    }

    /// Whether SwitchInfo may be sent last: the switch holds all tables. Always true if SwitchInfo
    /// is not sent last.
    pub(super) fn holds_tables_below_top(&self) -> bool {
        !self.sends_info_last || (!self.waits_for_lid && self.holds_tables())
    }

    /// Whether all Sets except SwitchInfo are sent and settled, and no Set failed.
    fn holds_tables(&self) -> bool {
        !self.failed && self.unsettled == 0 && self.all_sent()
    }

    /// Whether the switch holds its planned tables.
    pub(super) fn is_programmed(&self) -> bool {
        self.holds_info && self.holds_tables()
    }
}
