//! Bounds of the tables of events, and waiting times.

use std::time::Duration;

/// Bound of the subscriptions of all ports: 45,056 hosts with five each, of about 300 bytes each.
/// Requests beyond it are answered with ERR_NO_RESOURCES.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 1 << 18;

/// Bound of the subscriptions of one port. A host needs one or two for each interested program.
pub(crate) const MAX_PER_PORT: usize = 64;

/// Bound of the notices kept for slow subscribers: enough if every port of a large subnet vanishes
/// at once, of about 300 bytes each.
pub(crate) const MAX_NOTICES: usize = 1 << 16;

/// Bound of the subjects in their quiet time. Beyond it, notices are added at once.
pub(crate) const MAX_QUIET: usize = 1 << 16;

/// Bound of the reports in flight, at most one to each subscriber: thousands per second if
/// subscribers answer, and few enough not to delay answers to queries.
pub(crate) const MAX_REPORTS: usize = 256;

/// Subscriptions compared with notices before other work has its turn; takes well below a
/// millisecond.
pub(crate) const WORK_PER_POLL: usize = 4096;

/// Attempts of a report before its subscriber counts as gone.
pub const ATTEMPTS: u32 = 4;

/// Minimum wait for the answer to a report, even if the subscriber states a shorter response time:
/// a busy host may not schedule the program for so long.
pub(crate) const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Maximum wait for the answer to a report: RespTimeValue goes up to more than two hours.
pub const LONGEST_WAIT: Duration = Duration::from_secs(4);

/// Time for which further notices about a subject are held back after one; then the last of them is
/// reported.
pub const QUIET: Duration = Duration::from_secs(1);

/// Time for which the subscriptions of an absent port are kept: the same as for its memberships in
/// multicast groups.
pub(crate) const KEEP: Duration = Duration::from_secs(10);
