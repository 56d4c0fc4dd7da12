//! The scope of a sweep.

/// The scope of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SweepScope {
    /// The whole subnet. With `audit`, tables that are already known are read again.
    Full {
        /// Whether known forwarding tables are read back as well.
        audit: bool,
    },
    /// SwitchInfo of each switch, parts to read back, unanswered queries, and the local port while
    /// it has no cable.
    Light,
    /// The switches given to [`Sweep::add_target`](super::Sweep::add_target).
    Targets,
}
