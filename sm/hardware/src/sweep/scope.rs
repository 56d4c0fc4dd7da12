//! The scope of a sweep.

/// The scope of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SweepScope {
    /// The whole subnet, from the local port outwards.
    Full {
        /// Whether tables that are already known are read again.
        audit: bool,
    },
    /// SwitchInfo of each switch, parts to read back, unanswered queries, and the local port while
    /// it has no cable.
    Light,
    /// Only the nodes, ports and managers that the caller adds, for example by
    /// [`Sweep::add_target`](super::Sweep::add_target), and new nodes behind them.
    Targets,
}
