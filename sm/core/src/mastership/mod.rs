//! The choice of the master, and what a standby needs to become it.
//!
//! ```text
//!  SMInfo ─▶ election ─▶ role ◀── inquiry (is this one still the master?)
//!                          │
//!  shared store ─▶ epoch ──┴─▶ takeover: from what was read as the standby (following, plan
//!                              ahead, reading ahead), or from a sweep of everything
//! ```

pub(crate) mod election;
pub(crate) mod epoch;
pub(crate) mod following;
pub(crate) mod inquiry;
mod lost_registrations;
pub(crate) mod news;
mod orders;
mod partitioned;
mod peer_polls;
mod plan_ahead;
mod reading_ahead;
pub(crate) mod role;
mod silent_managers;
mod succession;
pub(crate) mod taken_over_tables;

use self::following::Follower;
use self::plan_ahead::Preparation;
use self::succession::Succession;

/// Readings and plans of a standby, for a takeover.
#[derive(Default, Debug)]
pub(crate) struct Standby {
    /// How the standby follows the master.
    pub(crate) follower: Follower,
    /// The plan made ahead.
    pub(crate) preparation: Preparation,
    /// The first pass after a master whose subnet the standby had read.
    pub(crate) succession: Succession,
}
