//! All bounds of the HTTP listener, with their units and reasons.

use std::time::Duration;

/// The maximum number of open connections. A browser opens up to six, a scraper one.
pub const MAX_CONNECTIONS: usize = 256;

/// The maximum number of open connections from one client address: enough for ten browsers behind
/// one proxy, while a client that opens connections and sends nothing leaves three quarters to
/// other clients.
pub const MAX_CONNECTIONS_PER_CLIENT: usize = MAX_CONNECTIONS / 4;

/// The maximum size of a request's head in bytes, its buffer included: a browser sends less than 2
/// KiB.
pub const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The maximum number of header fields in a request: a browser sends about 15.
pub const MAX_HEADERS: usize = 64;

/// The maximum time for the head of a request to arrive. An idle connection ends after this time.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum time that a client may read nothing while bytes are waiting for it. The connection
/// then ends, and its place is free.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum time until an answer begins. Foreseeing a loss on the largest fabrics takes about
/// ten seconds.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of clients that follow changes at the same time, each with a task: twice the
/// connections of one client, so that no client uses up all of them.
pub const MAX_FOLLOWERS: usize = 2 * MAX_CONNECTIONS_PER_CLIENT;

/// The minimum interval between two messages to a client that follows changes: the page reads
/// everything again after each message.
pub const CHANGES_EVERY: Duration = Duration::from_millis(250);

/// The interval between two messages about the progress of a pass.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The interval between two signs of life on a quiet stream of changes. They make proxies keep the
/// stream open, and show the server which clients are dead; after two missing signs, the page says
/// that it shows an earlier state (`QUIET` in `data.js`).
pub const KEEPALIVE: Duration = Duration::from_secs(5);

/// The time for which a drawn fabric is reused while the fabric changes: a boot of the fabric
/// produces many generations, and drawing 45,056 hosts takes a few tenths of a second.
pub const GRAPH_AGE: Duration = Duration::from_millis(500);

/// The number of attempts to read a graph whose generation changes between its parts.
pub const GRAPH_ATTEMPTS: usize = 3;

/// The maximum number of shards of one scrape.
pub const MAX_SHARDS: u64 = 1024;

/// The maximum number of ports with nonzero error counters in a scrape without `detail`; with a few
/// counters each they take a few megabytes. Ports whose errors are increasing are shown even beyond
/// this number.
pub const MAX_ERROR_PORTS: u64 = 10_000;

/// The maximum number of convergences that metrics count at a time, which is the API's limit.
pub const MAX_CONVERGENCES: usize = rsm_api::limits::MAX_CONVERGENCES;

/// The maximum size of a request body to the REST interface of UFM, in bytes: 45,056 GUIDs with
/// their quotes.
pub const MAX_UFM_BODY_BYTES: usize = 1 << 20;

/// The number of jobs of UFM's REST interface that are kept.
pub const MAX_UFM_JOBS: usize = 1000;

/// The maximum number of simultaneous answers about all ports or all members: on the largest
/// fabrics, an answer takes about 150 MB.
pub const MAX_UFM_LISTS: usize = 2;

/// The maximum number of simultaneous answers to `/metrics?detail=ports`: on the largest fabrics,
/// an answer takes some hundred megabytes. Further requests wait.
pub const MAX_PORT_SCRAPES: usize = 2;

/// The interval at which the collector publishes its readings of the counters. An answer about all
/// ports is reused for at most this time.
pub const PASS: Duration = Duration::from_secs(1);

/// The maximum size of an answer to `/metrics?detail=ports` that is kept for a [`PASS`], in bytes.
/// The answer for a few thousand hosts fits. For larger fabrics, only simultaneous scrapes share an
/// answer.
pub const MAX_KEPT_BYTES: usize = 16 << 20;

/// The maximum time for a client's TLS handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time for open requests to end after a shutdown request.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
