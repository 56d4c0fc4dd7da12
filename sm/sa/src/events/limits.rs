//! Bounds of the tables of events, and waiting times.

use std::time::Duration;

/// Maximum number of subscriptions of all ports, about 300 bytes each: enough for five on each of
/// 45,056 hosts. Further requests are answered with ERR_NO_RESOURCES.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 1 << 18;

/// Maximum number of subscriptions of one port. A host needs one or two for each program that
/// listens.
pub(crate) const MAX_PER_PORT: usize = 64;

/// Maximum number of notices kept for slow subscribers, enough for the loss of every port of a
/// large subnet at once, at about 300 bytes each.
pub(crate) const MAX_NOTICES: usize = 1 << 16;

/// Maximum number of subjects in their quiet time. Above this number, notices are added without
/// delay.
pub(crate) const MAX_QUIET: usize = 1 << 16;

/// Maximum number of reports in flight, at most one to each subscriber. This number permits
/// thousands of reports per second if subscribers answer, and does not delay answers to queries.
pub(crate) const MAX_REPORTS: usize = 256;

/// Maximum number of reports in flight to one physical port with its virtual ports, so that a few
/// hosts that do not answer leave room for reports to others.
pub(crate) const MAX_REPORTS_PER_PORT: usize = 4;

/// Number of comparisons of subscriptions with notices before other work has its turn. That many
/// comparisons take well below a millisecond.
pub(crate) const WORK_PER_POLL: usize = 4096;

/// Number of times that a report is sent without an answer before the subscriptions of its
/// subscriber end.
pub const ATTEMPTS: u32 = 4;

/// Minimum wait for the answer to a report, even if the subscriber states a shorter response time:
/// a busy host may not schedule the program sooner.
pub(crate) const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Maximum wait for the answer to a report; RespTimeValue permits more than two hours.
pub const LONGEST_WAIT: Duration = Duration::from_secs(4);

/// Time for which further notices about a subject are held back after a notice; then the last held
/// notice is reported.
pub const QUIET: Duration = Duration::from_secs(1);

/// Time for which the subscriptions of an absent port are kept, equal to the time for which its
/// memberships in multicast groups are kept.
pub(crate) const KEEP: Duration = Duration::from_secs(10);
