//! What events hold at most, and how long they wait.

use std::time::Duration;

/// Subscriptions of all ports. Beyond it requests are answered with ERR_NO_RESOURCES. 45,056 hosts
/// with five each, about 300 bytes each.
pub const MAX_SUBSCRIPTIONS: usize = 1 << 18;

/// Subscriptions of one port. A host asks for a notice or two for each program that cares; a
/// subscriber whose number grows without end has this many.
pub const MAX_PER_PORT: usize = 64;

/// Notices that are kept for subscribers who are behind: enough for every port of a large subnet to
/// go at once. About 300 bytes each.
pub const MAX_NOTICES: usize = 1 << 16;

/// How many things are remembered that something was said of a moment ago. Of more than these
/// everything is said at once.
pub const MAX_QUIET: usize = 1 << 16;

/// Reports that are under way at the same time, to all subscribers; one to each of them. Thousands
/// a second where they are answered, and few enough that answers to questions are not held up.
pub const MAX_REPORTS: usize = 256;

/// How many subscriptions are held against notices before others have their turn: well below a
/// millisecond.
pub const WORK_PER_POLL: usize = 4096;

/// How often a report is sent before its subscriber counts as gone.
pub const ATTEMPTS: u32 = 4;

/// The shortest wait for the answer to a report, whatever the subscriber says of itself: a busy
/// host does not schedule the program for as long as that.
pub const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// The longest, whatever it says: RespTimeValue goes up to more than two hours.
pub const LONGEST_WAIT: Duration = Duration::from_secs(4);

/// How long nothing more is said of a thing of which something was just said: what happens to it
/// meanwhile is told in the end as it is then.
pub const QUIET: Duration = Duration::from_secs(1);

/// How long the subscriptions of a port that is gone are kept: as long as its memberships in
/// multicast groups.
pub const KEEP: Duration = Duration::from_secs(10);
