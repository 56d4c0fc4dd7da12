//! Limits of events: numbers and waiting times.

use std::time::Duration;

/// Subscriptions of all ports. Beyond it requests are answered with ERR_NO_RESOURCES. 45,056 hosts
/// with five each, about 300 bytes each.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 1 << 18;

/// Subscriptions of one port. A host needs one or two for each interested program; a subscriber
/// whose number grows without end stops here.
pub(crate) const MAX_PER_PORT: usize = 64;

/// Notices kept for slow subscribers: enough for every port of a large subnet to go at once. About
/// 300 bytes each.
pub(crate) const MAX_NOTICES: usize = 1 << 16;

/// Subjects in their quiet time. Beyond this number, notices are added at once.
pub(crate) const MAX_QUIET: usize = 1 << 16;

/// Reports in flight to all subscribers, one to each. Thousands a second if subscribers answer, and
/// few enough not to delay answers to queries.
pub(crate) const MAX_REPORTS: usize = 256;

/// Number of subscriptions compared with notices before other work has its turn: well below a
/// millisecond.
pub(crate) const WORK_PER_POLL: usize = 4096;

/// How often a report is sent before its subscriber counts as gone.
pub const ATTEMPTS: u32 = 4;

/// The shortest wait for the answer to a report, even if the subscriber states a shorter response
/// time: a busy host may not schedule the program for so long.
pub(crate) const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// The longest such wait: RespTimeValue goes up to more than two hours.
pub const LONGEST_WAIT: Duration = Duration::from_secs(4);

/// How long further notices about a subject are held back after one; then the last of them is
/// reported.
pub const QUIET: Duration = Duration::from_secs(1);

/// How long the subscriptions of a port that is gone are kept: as long as its memberships in
/// multicast groups.
pub(crate) const KEEP: Duration = Duration::from_secs(10);
