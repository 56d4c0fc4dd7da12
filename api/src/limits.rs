//! The limits of the API, with their units and reasons.

use std::time::Duration;

/// The default number of items in a page, a screenful or two.
pub const DEFAULT_PAGE_SIZE: usize = 100;

/// The maximum number of items in a page. A link, the largest item, takes less than 400 bytes with
/// two descriptions of 64 bytes, each at most three times as long in UTF-8, so that a page stays
/// well below [`MAX_RESPONSE_BYTES`].
pub const MAX_PAGE_SIZE: usize = 1_000;

/// The maximum number of ports in an answer that ranks ports; with all error counters, a port takes
/// less than 2 KB.
pub const MAX_TOP_PORTS: usize = MAX_PAGE_SIZE;

/// The default number of ports in an answer that ranks ports.
pub const DEFAULT_TOP_PORTS: usize = DEFAULT_PAGE_SIZE;

/// The permitted range of the interval between two messages in a stream of ranked ports: each
/// message examines every port.
pub const TOP_EVERY: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(3600);

/// The default interval between two messages in a stream of ranked ports.
pub const DEFAULT_TOP_EVERY: Duration = Duration::from_secs(5);

/// The maximum number of names in one request to drain or undrain parts; at [`MAX_SELECTOR_BYTES`]
/// each, they take half of [`MAX_REQUEST_BYTES`].
pub const MAX_PARTS_PER_REQUEST: usize = 32;

/// The maximum size of a request in bytes. Requests contain names and numbers, but no long lists.
pub const MAX_REQUEST_BYTES: usize = 16 * 1024;

/// The maximum size of a request to the GPU service in bytes: a file about a host, and names.
pub const MAX_GPU_REQUEST_BYTES: usize = rsm_gdr::import::MAX_BYTES + MAX_REQUEST_BYTES;

/// The maximum number of members in one request to change a partition: with GUIDs of 20 bytes, a
/// third of [`MAX_PARTITION_REQUEST_BYTES`]. Larger partitions are filled by several requests.
pub const MAX_MEMBERS_PER_REQUEST: usize = 4096;

/// The maximum number of hosts in one question about a job.
pub const MAX_JOB_HOSTS: usize = 16_384;

/// The maximum size of a question about a job, in bytes: [`MAX_JOB_HOSTS`] names of 60 bytes.
pub const MAX_JOB_REQUEST_BYTES: usize = 1024 * 1024;

/// The maximum size of a request to the partition service, in bytes.
pub const MAX_PARTITION_REQUEST_BYTES: usize = 256 * 1024;

/// The maximum size of all files in one bulk import, in bytes: 5,632 hosts with 8 GPUs and 8
/// adapters each take some 60 MB.
pub const MAX_BULK_IMPORT_BYTES: usize = 1 << 30;

/// The maximum time until the next file of a bulk import: the files received so far occupy memory
/// meanwhile.
pub const BULK_IMPORT_PAUSE: Duration = Duration::from_secs(30);

/// The maximum number of names that the status of GPU hosts lists.
pub const MAX_STATUS_NAMES: usize = 16;

/// The maximum size of a response in bytes: the default limit of gRPC clients.
pub const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// The maximum size of a GPU host file that fits in one answer, in bytes, leaving room for the rest
/// of the answer.
pub const MAX_WHOLE_FILE_BYTES: usize = MAX_RESPONSE_BYTES - 1024;

/// The maximum size of a piece of a file, in bytes.
pub const FILE_PIECE_BYTES: usize = 256 * 1024;

/// The maximum number of GPU host files that are read in pieces at the same time over all
/// listeners: each occupies its whole size in memory, some 45 MB for 5,632 hosts.
pub const MAX_FILE_READERS: usize = 8;

/// The maximum time for the reader of a file to take a piece: the file occupies memory meanwhile.
pub const FILE_PIECE_PAUSE: Duration = Duration::from_secs(30);

/// The maximum length of a node's name in bytes: a description of 64 bytes, three times as long if
/// every byte was replaced in UTF-8, with prefix and port.
pub const MAX_SELECTOR_BYTES: usize = 256;

/// The maximum length of a filter text in bytes, for the reason given for [`MAX_SELECTOR_BYTES`].
pub const MAX_FILTER_BYTES: usize = 256;

/// The maximum number of candidates listed in an answer to an ambiguous name; further ones are
/// counted.
pub const MAX_CANDIDATES: usize = 8;

/// The maximum number of paths in an answer: the largest NumbPath of a PathRecord (IBA 15.2.5.16).
/// With 64 hops each, more than any path has, at 300 bytes a hop they take 2.4 MB, below
/// [`MAX_RESPONSE_BYTES`].
pub const MAX_PATHS: u8 = 127;

/// The number of events that the subnet manager keeps for `ListEvents`, and by which a watcher may
/// lag before it loses events. A restart of a large switch causes some hundreds; at about 500 bytes
/// each, the journal takes 4 MB.
pub const EVENT_JOURNAL: usize = 8_192;

/// The number of operators' acts that stay in the journal beyond the latest [`EVENT_JOURNAL`]
/// events: more than a team performs in weeks.
pub const ACT_JOURNAL: usize = 1_024;

/// The maximum number of answers from the past of the counters that are computed at the same time:
/// each may read some hundred megabytes.
pub const MAX_PAST_READERS: usize = 2;

/// The maximum number of rankings of ports that are computed at the same time: each examines every
/// port, for milliseconds.
pub const MAX_TOP_READERS: usize = 2;

/// The maximum number of answers about GPU hosts that are computed at the same time. After a
/// change, all of them wait for the same analysis, each on its own thread; further requests wait
/// without a thread.
pub const MAX_ANALYSIS_READERS: usize = 8;

/// The maximum number of steps of a series; each takes some 100 bytes.
pub const MAX_SERIES_STEPS: u64 = 10_000;

/// The maximum number of watchers served at the same time over all listeners; each costs a task and
/// up to one HTTP/2 window.
pub const MAX_WATCHERS: usize = 256;

/// The maximum number of requests served at the same time on one connection.
pub const MAX_REQUESTS_PER_CONNECTION: usize = 64;

/// The number of descriptors reserved for everything except clients: files of the store and its
/// exports, devices, dumps, listeners, pipes. rsm holds about thirty; its store doubles some of
/// them while it is opened after a crash.
pub const RESERVED_DESCRIPTORS: u64 = 128;

/// The maximum numbers of open connections to the Unix socket and over TCP. Each listener has its
/// own limit, so that unknown clients over TCP never shut out the operator at the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The limit of the Unix socket.
    pub unix: usize,
    /// The limit of TCP.
    pub tcp: usize,
}

impl ConnectionLimits {
    /// The upper bound of the limits: an idle connection takes some 30 KB, so these take 150 MB.
    pub const MOST: ConnectionLimits = ConnectionLimits {
        unix: 1024,
        tcp: 4096,
    };

    /// The lower bound of the limits, for any number of descriptors.
    pub const LEAST: ConnectionLimits = ConnectionLimits { unix: 8, tcp: 8 };

    /// The limits for this many descriptors (RLIMIT_NOFILE), less [`RESERVED_DESCRIPTORS`]: a
    /// quarter for the socket, the rest for TCP.
    pub fn of_descriptors(descriptors: u64) -> ConnectionLimits {
        let rest = descriptors.saturating_sub(RESERVED_DESCRIPTORS);
        let rest = usize::try_from(rest).unwrap_or(usize::MAX);
        let (least, most) = (Self::LEAST, Self::MOST);
        let unix = (rest / 4).clamp(least.unix, most.unix);
        let tcp = rest.saturating_sub(unix).clamp(least.tcp, most.tcp);
        ConnectionLimits { unix, tcp }
    }
}

/// The maximum number of convergences in an answer; older ones are in the logs.
pub const MAX_CONVERGENCES: usize = 1_000;

/// The maximum time for open requests to end after a shutdown request.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// The domain of ErrorInfo in the refusals of rsm.
pub const ERROR_DOMAIN: &str = "rsm";

/// The key in the ErrorInfo metadata of a refusal for the reason `CUT_OFF`: the request would be
/// carried out if it accepted that ports are cut off. The value is the number of these ports.
pub const CUT_OFF_PORTS: &str = "ports";

/// The key in the metadata of a refusal with the fields of requests that accept the consequence:
/// with one of them set, the request would be carried out.
pub const ACCEPTED_BY: &str = "accepted_by";

/// The fields of requests that accept that ports are cut off.
pub const ACCEPT_FIELDS: &str = "accept_cut_off, in Drain force";

/// The field of OperatePort that accepts that the order of another operator ends.
pub const ACCEPT_OTHER_OPERATOR: &str = "accept_other_operator";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_limits_leave_the_reserved_descriptors_free() {
        for descriptors in [256, 1024, 4096, 65_536, 1 << 20] {
            let ConnectionLimits { unix, tcp } = ConnectionLimits::of_descriptors(descriptors);
            assert!((unix + tcp) as u64 + RESERVED_DESCRIPTORS <= descriptors);
        }
        let usual = ConnectionLimits::of_descriptors(1024);
        assert_eq!((usual.unix, usual.tcp), (224, 672));
        assert_eq!(ConnectionLimits::of_descriptors(0), ConnectionLimits::LEAST);
        assert_eq!(
            ConnectionLimits::of_descriptors(u64::MAX),
            ConnectionLimits::MOST
        );
    }
}
