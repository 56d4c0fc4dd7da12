use std::time::Duration;

/// How long each stage took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Reading the state of the hardware.
    pub discover: Duration,
    /// Computing and proving the tables.
    pub plan: Duration,
    /// Writing the differences, until the last answer.
    pub push: Duration,
    /// From the cause to the last answer; the stages may overlap, so it need not be their sum.
    pub total: Duration,
}

/// Subnet management packets, as they went out on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SmpCounts {
    /// Gets sent, [`SmpCounts::retries`] of them included.
    pub get: u64,
    /// Sets sent, [`SmpCounts::retries`] of them included.
    pub set: u64,
    /// Packets sent again because no answer came in time.
    pub retries: u64,
    /// Packets that were not answered in time.
    pub timeouts: u64,
}

/// Where the pipeline is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Nothing is under way.
    #[default]
    Idle,
    /// The sweep reads the hardware.
    Sweeping,
    /// The planner computes and proves tables.
    Planning,
    /// The push writes the differences to the hardware.
    Pushing,
}

/// The present activity of the subnet manager.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Activity {
    /// Where the pipeline is.
    pub stage: Stage,
    /// The cause of the present run, in a few words; empty where no run is under way.
    pub cause: String,
    /// Since the start of that run.
    pub running: Duration,
    /// Nodes known so far.
    pub nodes: u64,
    /// Requests to the hardware without an answer so far.
    pub outstanding: u64,
    /// Sets acknowledged so far; 0 unless [`Stage::Pushing`].
    pub sets_acknowledged: u64,
    /// Work that waits for the end of this run, or for its time, in a few words; empty for none.
    pub next: String,
    /// How many callers of [`Control`](crate::Control) wait.
    pub callers: u32,
}

/// One run of the pipeline, from its cause to the last answer of a switch. Its key is
/// [`Convergence::sequence`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Convergence {
    /// Counts up from 1 over the subnet manager's life.
    pub sequence: u64,
    /// The generation of the snapshot that the run ended in.
    pub generation: u64,
    /// The cause, for instance `start`, `trap 128 from 0x…`, `resweep`.
    pub cause: String,
    /// When it ended, in milliseconds since the Unix epoch.
    pub finished_unix_ms: u64,
    /// How long each stage took.
    pub timing: Timing,
    /// The packets that it sent.
    pub smps: SmpCounts,
    /// Blocks of 64 entries of linear forwarding tables that were written.
    pub lft_blocks: u64,
    /// Blocks of 32 entries, for 16 ports each, of multicast forwarding tables that were written.
    pub mft_blocks: u64,
    /// Ports that became Active.
    pub ports_activated: u64,
    /// Whether every Set was confirmed; otherwise a finding names the rest.
    pub complete: bool,
    /// The steps that took in the whole subnet rather than the changes alone, each as `step:
    /// reason`.
    pub whole: Vec<String>,
}
