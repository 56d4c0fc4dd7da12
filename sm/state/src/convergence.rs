//! The result and the cost of one pass through the stages.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_model::whole::Whole;

/// One pass, from its cause to hardware that holds the plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Convergence {
    /// The event that caused the pass, in a few words.
    pub cause: String,
    /// End of the pass.
    pub finished: Time,
    /// Time spent sweeping.
    pub discover: Duration,
    /// Time spent planning.
    pub plan: Duration,
    /// Time spent writing.
    pub push: Duration,
    /// Time from the cause to the end.
    pub total: Duration,
    /// Gets sent, including retries.
    pub gets: u64,
    /// Sets sent, including retries.
    pub sets: u64,
    /// Datagrams sent as retries.
    pub retries: u64,
    /// Attempts that were not answered in time.
    pub timeouts: u64,
    /// Blocks of forwarding tables written.
    pub lft_blocks: u64,
    /// Blocks of multicast forwarding tables written.
    pub mft_blocks: u64,
    /// Switches on which a table was written.
    pub switches_written: u64,
    /// Ports that became Active.
    pub ports_activated: u64,
    /// Whether the pass was completed, and no Set was refused or lost.
    pub complete: bool,
    /// The switches that hold their planned tables.
    pub tables: TablesWritten,
    /// The parts that may not hold their planned content.
    pub unwritten: Unwritten,
    /// The steps that were computed for the whole subnet, each with the reason, in order.
    pub whole: Vec<Whole>,
}

/// The parts of the hardware that may not hold their planned content at the end of a pass.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Unwritten {
    /// Reason why the pass ended before it had sent all Sets; `None` if it sent all Sets.
    pub ended: Option<String>,
    /// Ports with a Set that was refused or lost; port 0 stands for the tables of a switch.
    pub ports: BTreeSet<PortKey>,
    /// Ports with an unanswered query. Port 0 stands for its node, another port for the unknown
    /// node behind it.
    pub unread: BTreeSet<PortKey>,
}

/// The switches that hold their planned tables at the end of a pass.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub enum TablesWritten {
    /// Some switches, not known which: the pass ended before it had sent all Sets.
    #[default]
    Unknown,
    /// All switches except these, which refused a Set of a table or left one unanswered.
    AllBut(BTreeSet<Guid>),
}

impl TablesWritten {
    /// Whether a switch holds its planned tables.
    pub fn are_on(&self, switch: Guid) -> bool {
        match self {
            TablesWritten::Unknown => false,
            TablesWritten::AllBut(without) => !without.contains(&switch),
        }
    }
}
