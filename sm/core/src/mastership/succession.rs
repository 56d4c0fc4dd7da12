//! The first pass of a standby that had read the subnet as the master left it.
//!
//! ```text
//! SwitchInfo of each switch, and its blocks with the two managers' LIDs, unless that was
//! read ahead while the master was silent
//!     │ nothing differs from what was read
//!     ▼
//!   plan ──▶ blocks to write that were not read now ──▶ read them ──▶ push ──▶ the whole subnet is read
//! ```
//!
//! No block is written over entries that this pass has not read, so that no change of the master
//! that the store did not show is undone. The pass ends if anything differs from the last reading
//! and is no report of a port, or if anything but routes and PortInfo must change. Then the whole
//! subnet is read before anything is written, as after a master that shares no store.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_hardware::diff::{Changes, PortChange};
use rsm_hardware::sweep::{Query, Sweep};
use rsm_ids::{Guid, Lid, PortKey};
use rsm_mad::Time;
use rsm_model::lft_image::LFT_BLOCK;
use rsm_plan::Plan;
use rsm_state::Role;

use crate::stage::Stage;
use crate::{Core, Pass};

/// Cause of the pass.
const CAUSE: &str = "the master is gone, whose subnet was read before";

/// State of the pass.
#[derive(Default, Debug)]
pub(crate) struct Succession {
    /// Port of the former manager.
    before: Option<PortKey>,
    /// The plan made ahead.
    pub(crate) prepared: Option<Arc<Plan>>,
    /// Blocks of forwarding tables that this pass has read.
    blocks: BTreeSet<(Guid, u16)>,
    /// Ports whose PortInfo this pass has read, or is known from the last reading.
    ports: BTreeSet<PortKey>,
    /// Whether the plan of this pass waits for blocks to be read.
    is_planned: bool,
}

/// Decision of a pass before its push.
enum Verdict {
    Push,
    Read(Vec<Query>),
    Misfit,
}

impl Core {
    /// Begins to manage the subnet after the manager in the role `before`.
    pub(crate) fn succeed(&mut self, before: &Role, now: Time) {
        let goes_on = self.goes_on_reading_ahead(now);
        let is_current = std::mem::take(&mut self.standby.follower.is_current);
        match before {
            Role::Standby { master } if is_current && self.inventory.local.is_some() => {
                self.standby.succession = Succession {
                    before: Some(master.port),
                    prepared: self.take_prepared(),
                    ..Succession::default()
                };
                // The former master's SMInfo is from the time when it answered.
                self.inventory.put_manager(master.port, None);
                if goes_on {
                    self.go_on_as_succession();
                } else {
                    self.work.succeed(CAUSE);
                }
            }
            _ => {
                if goes_on {
                    self.drop_stage();
                }
                self.standby.follower.reading_ahead = None;
                self.drop_prepared();
                self.work.sweep_everything(true, "the master is gone");
                self.fence_switches();
                self.ask_hosts_again();
            }
        }
    }

    /// Starts the sweep of the pass, which reads whether anything has changed, and the entries of
    /// the managers' LIDs.
    pub(crate) fn begin_succession(&mut self, now: Time) -> Sweep {
        let before = self.standby.succession.before;
        let (sweep, blocks) = match (self.take_reading_ahead(now), self.inventory.local) {
            (Some(scouted), Some(local)) => {
                let own = vec![Query::Port(local)];
                let mut sweep = Sweep::start_reading(&mut self.inventory, self.config.sweep(), own);
                for switch in scouted.reported {
                    sweep.add_target(&self.inventory, switch);
                }
                (sweep, scouted.blocks)
            }
            _ => {
                let blocks = self.managers_blocks(before);
                Sweep::start_succession(&mut self.inventory, self.config.sweep(), &blocks)
            }
        };
        self.enter_succession(blocks);
        sweep
    }

    /// Makes the reading ahead under way the sweep of the pass.
    fn go_on_as_succession(&mut self) {
        if let (Some(reading_ahead), Stage::Sweeping(sweep)) =
            (self.standby.follower.reading_ahead.take(), &mut self.stage)
        {
            for switch in sweep.take_reported() {
                sweep.add_target(&self.inventory, switch);
            }
            self.meter.join(CAUSE);
            self.enter_succession(reading_ahead.blocks);
        }
    }

    fn enter_succession(&mut self, blocks: BTreeSet<(Guid, u16)>) {
        self.pass = Pass::Succession;
        self.standby.succession.blocks = blocks;
        let ports = [self.inventory.local, self.standby.succession.before];
        self.standby.succession.ports = ports.into_iter().flatten().collect();
    }

    /// The blocks of forwarding tables with the LIDs of this manager and of the one `before`.
    pub(crate) fn managers_blocks(&self, before: Option<PortKey>) -> BTreeSet<u16> {
        let lid = |key: PortKey| Some(self.inventory.port(key)?.info.as_ref()?.lid());
        let lids = [self.inventory.local, before].into_iter().flatten();
        let lids = lids.filter_map(lid).filter(|&lid| lid != Lid::NONE);
        lids.map(|lid| (lid.index() / LFT_BLOCK) as u16).collect()
    }

    /// Continues after a sweep of the pass.
    pub(crate) fn end_succession_sweep(&mut self, sweep: &Sweep, rewires: bool, now: Time) {
        if sweep.found_stale() || sweep.owes_more(&self.inventory) {
            return self.give_up_succession();
        }
        match self.plans.in_force().cloned() {
            Some(plan)
                if self.standby.succession.is_planned && !rewires && !self.work.wants_plan() =>
            {
                self.start_push(plan, now);
            }
            _ => {
                self.standby.succession.is_planned = true;
                self.start_plan(now);
            }
        }
    }

    /// Whether the pass may write these changes now. Otherwise it reads what is missing, or gives
    /// up.
    pub(crate) fn may_succeed(&mut self, changes: &Changes) -> bool {
        if self.pass != Pass::Succession {
            return true;
        }
        match self.standby.succession.weigh(changes) {
            Verdict::Push => true,
            Verdict::Read(queries) => {
                for &query in &queries {
                    match query {
                        Query::Table(switch, block) => {
                            self.standby.succession.blocks.insert((switch, block));
                        }
                        Query::Port(key) => {
                            self.standby.succession.ports.insert(key);
                        }
                        _ => {}
                    }
                }
                let sweep = Sweep::start_reading(&mut self.inventory, self.config.sweep(), queries);
                self.stage = Stage::Sweeping(Box::new(sweep));
                false
            }
            Verdict::Misfit => {
                self.give_up_succession();
                false
            }
        }
    }

    /// Reads the whole subnet before anything is written.
    fn give_up_succession(&mut self) {
        self.standby.succession = Succession::default();
        self.pass = Pass::Full;
        self.stage = Stage::Idle;
        // The plan may have been made for tables that switches do not hold.
        self.plans.drop_in_force();
        self.writing.forget_comparison();
        self.meter.discard();
        self.work.sweep_everything(
            true,
            "the subnet is not as this manager had read it before the master was gone",
        );
        self.fence_switches();
        self.ask_hosts_again();
    }

    /// Ends the pass: the whole subnet is read, for changes of the master that the store did not
    /// show.
    pub(crate) fn end_succession(&mut self) {
        if self.pass == Pass::Succession {
            self.standby.succession = Succession::default();
            self.pass = Pass::Full;
            self.work
                .sweep_everything(true, "the whole subnet is read after the takeover");
            // Hosts must get answers first.
            self.fence_switches();
            self.ask_hosts_again();
        }
    }
}

impl Succession {
    fn weigh(&self, changes: &Changes) -> Verdict {
        let has_links = changes.bounce.is_some() || !changes.links.is_empty();
        if !changes.managed.is_empty() || has_links {
            return Verdict::Misfit;
        }
        let mut queries = Vec::new();
        for (&switch, change) in &changes.switches {
            if change.ar_info.is_some() || !change.sl2vl.is_empty() {
                return Verdict::Misfit;
            }
            let blocks = change.interim.iter().flatten().chain(&change.blocks);
            let unread = blocks.filter(|&&block| !self.blocks.contains(&(switch, block)));
            queries.extend(unread.map(|&block| Query::Table(switch, block)));
        }
        for (&key, change) in &changes.ports {
            if is_more_than_info(change) {
                return Verdict::Misfit;
            }
            if !self.ports.contains(&key) {
                queries.push(Query::Port(key));
            }
        }
        queries.sort_unstable();
        queries.dedup();
        match queries.is_empty() {
            true => Verdict::Push,
            false => Verdict::Read(queries),
        }
    }
}

/// Whether a port gets more than PortInfo, which this pass has not read.
fn is_more_than_info(change: &PortChange) -> bool {
    !change.p_keys.is_empty() || change.reregister.is_some()
}
