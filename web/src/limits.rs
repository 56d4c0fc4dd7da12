//! Every bound of the HTTP listener, with its unit and reason.

use std::time::Duration;

/// Open connections. A browser opens up to six, a scraper one.
pub const MAX_CONNECTIONS: usize = 256;

/// Open connections of one client, by its address: ten browsers behind one proxy, and a client that
/// opens connections and sends nothing leaves three quarters to the others.
pub const MAX_CONNECTIONS_PER_CLIENT: usize = MAX_CONNECTIONS / 4;

/// The head of a request in bytes, its buffer included: a browser sends below 2 KiB.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Header fields of a request: a browser sends about 15.
pub const MAX_HEADERS: usize = 64;

/// How long the head of a request may take to arrive, also on a kept connection: an idle one ends.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the client may read nothing while bytes for it wait. Then the connection ends, and its
/// place is free.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an answer may take before it begins. Foreseeing a loss at the largest fabrics takes some
/// ten seconds.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Clients that follow changes at the same time, more than one client's share; each costs a task.
pub const MAX_FOLLOWERS: usize = 2 * MAX_CONNECTIONS_PER_CLIENT;

/// The least time between two messages to a client that follows changes: the page reads anew after
/// each.
pub const CHANGES_EVERY: Duration = Duration::from_millis(250);

/// The time between two messages about the progress of a pass.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The time between two signs of life on a quiet stream of changes: proxies keep it open, dead clients
/// are found, and the page tells that it shows the past when none came twice (`QUIET` in `data.js`).
pub const KEEPALIVE: Duration = Duration::from_secs(5);

/// How long a drawn fabric is used again while the fabric changes: a boot of the fabric makes many
/// generations, and drawing 45,056 hosts takes some tenths of a second.
pub const GRAPH_AGE: Duration = Duration::from_millis(500);

/// How often a graph is read again when the generation changes between its parts.
pub const GRAPH_ATTEMPTS: usize = 3;

/// Shards of one scrape at most.
pub const MAX_SHARDS: u64 = 1024;

/// Ports with error counters that are not zero in a scrape without `detail`; with a few counters each
/// they take some megabytes. Ports that count errors at the time come on top.
pub const MAX_ERROR_PORTS: u64 = 10_000;

/// Convergences that metrics count at a time: as many as the API gives.
pub const MAX_CONVERGENCES: usize = rsm_api::limits::MAX_CONVERGENCES;

/// The body of a request to the REST interface of UFM: 45,056 GUIDs with their quotes.
pub const MAX_UFM_BODY_BYTES: usize = 1 << 20;

/// Answers about all ports or all members at the same time: at the largest fabrics one takes some
/// 150 MB while it is made.
pub const MAX_UFM_LISTS: usize = 2;

/// Answers to `/metrics?detail=ports` at the same time: at the largest fabrics one takes some hundred
/// megabytes while it is made. More wait.
pub const MAX_PORT_SCRAPES: usize = 2;

/// The time between two readings of the counters that are shown; an answer about all ports is given
/// again for as long.
pub const PASS: Duration = Duration::from_secs(1);

/// Answers to `/metrics?detail=ports` up to this size are kept for a [`PASS`]. A fabric of some
/// thousand hosts fits; with more, scrapes that come at the same time share one.
pub const MAX_KEPT_BYTES: usize = 16 << 20;

/// How long a client may take for the handshake of TLS.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long open requests may take to end after a shutdown request.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
