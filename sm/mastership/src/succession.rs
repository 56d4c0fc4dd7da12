//! The succession: the first pass after a takeover by a standby that had read the subnet as the
//! master left it.
//!
//! ```text
//! SwitchInfo of each switch, and its blocks with the two managers' LIDs,
//! unless they were read ahead while the master was silent
//!     │ nothing differs from the last reading
//!     ▼
//!   plan ──▶ read the blocks to write that this pass has not read ──▶ push ──▶ full sweep
//! ```
//!
//! The pass writes only blocks that it has read, so that it overwrites no change of the master that
//! the store did not show. The pass ends if more than reported ports differs from the last reading,
//! or if more than routes and PortInfo must change. In that case, this manager reads the whole
//! subnet before it writes, as after a master that shares no store.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_hardware::diff::{Changes, PortChange};
use rsm_hardware::sweep::Query;
use rsm_ids::{Guid, PortKey};
use rsm_plan::Plan;

/// Cause of the pass, for its record.
pub(crate) const CAUSE: &str = "the master is gone, whose subnet was read before";

/// State of the pass.
#[derive(Default, Debug)]
pub(crate) struct Succession {
    /// Port of the former manager.
    pub(crate) before: Option<PortKey>,
    /// The plan made ahead.
    pub(crate) prepared: Option<Arc<Plan>>,
    /// Blocks of forwarding tables that this pass has read.
    blocks: BTreeSet<(Guid, u16)>,
    /// Ports whose PortInfo need not be read before it is written: the two managers' ports, and
    /// ports that this pass has read.
    ports: BTreeSet<PortKey>,
    /// Whether this pass has made its plan.
    is_planned: bool,
}

/// Whether a succession may write its plan, must read more first, or must end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The changes may be written.
    Push,
    /// These parts must be read first.
    Read(Vec<Query>),
    /// The subnet differs from the last reading: the pass ends.
    Outdated,
}

impl Succession {
    /// The succession after the manager at the port `before`; `prepared` is the plan made ahead.
    pub(crate) fn after(before: PortKey, prepared: Option<Arc<Plan>>) -> Succession {
        Succession {
            before: Some(before),
            prepared,
            ..Succession::default()
        }
    }

    /// Records that the pass reads these blocks and the two managers' ports.
    pub(crate) fn begin(&mut self, blocks: BTreeSet<(Guid, u16)>, local: Option<PortKey>) {
        self.blocks = blocks;
        self.ports = [local, self.before].into_iter().flatten().collect();
    }

    /// Records that the plan of this pass is made. Returns whether that was already recorded.
    pub(crate) fn record_planned(&mut self) -> bool {
        std::mem::replace(&mut self.is_planned, true)
    }

    /// Decides whether the pass may write these changes now. Parts that must be read first count as
    /// read from now on.
    pub(crate) fn decide(&mut self, changes: &Changes) -> Verdict {
        let verdict = self.verdict_on(changes);
        if let Verdict::Read(queries) = &verdict {
            for &query in queries {
                match query {
                    Query::Table(switch, block) => {
                        self.blocks.insert((switch, block));
                    }
                    Query::Port(key) => {
                        self.ports.insert(key);
                    }
                    _ => {}
                }
            }
        }
        verdict
    }

    /// The verdict about `changes`, without recording anything.
    fn verdict_on(&self, changes: &Changes) -> Verdict {
        let has_links = changes.bounce.is_some() || !changes.links.is_empty();
        if !changes.managed.is_empty() || has_links {
            return Verdict::Outdated;
        }
        let mut queries = Vec::new();
        for (&switch, change) in &changes.switches {
            if change.ar_info.is_some() || !change.sl2vl.is_empty() {
                return Verdict::Outdated;
            }
            let blocks = change.interim.iter().flatten().chain(&change.blocks);
            let unread = blocks.filter(|&&block| !self.blocks.contains(&(switch, block)));
            queries.extend(unread.map(|&block| Query::Table(switch, block)));
        }
        for (&key, change) in &changes.ports {
            if is_more_than_info(change) {
                return Verdict::Outdated;
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

/// Whether the change of a port includes more than PortInfo, the only port attribute that this pass
/// reads.
fn is_more_than_info(change: &PortChange) -> bool {
    !change.p_keys.is_empty() || change.reregister
}
