//! Every bound of the API, with its unit and reason.

use std::time::Duration;

/// Items of a page by default, a screenful or two.
pub const DEFAULT_PAGE_SIZE: usize = 100;

/// Most items of a page. A link, the largest item, takes below 400 bytes with two descriptions of
/// 64 bytes, each at most three times as long in UTF-8, so a page stays well under
/// [`MAX_RESPONSE_BYTES`].
pub const MAX_PAGE_SIZE: usize = 1_000;

/// Ports of one answer about those that come first in an order, as many as a page has: with all
/// error counters one takes below 2 KB.
pub const MAX_TOP_PORTS: usize = MAX_PAGE_SIZE;

/// Ports of such an answer by default.
pub const DEFAULT_TOP_PORTS: usize = DEFAULT_PAGE_SIZE;

/// The least and the greatest time between two messages of a stream of such answers: each looks at
/// every port.
pub const TOP_EVERY: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(3600);

/// That time by default.
pub const DEFAULT_TOP_EVERY: Duration = Duration::from_secs(5);

/// Names of one request to drain or undrain parts: with [`MAX_SELECTOR_BYTES`] each, half of
/// [`MAX_REQUEST_BYTES`].
pub const MAX_PARTS_PER_REQUEST: usize = 32;

/// Largest request in bytes. Requests carry names and numbers, and no long lists.
pub const MAX_REQUEST_BYTES: usize = 16 * 1024;

/// Largest request to the GPU service, in bytes: a file of a host, and the names around it.
pub const MAX_GPU_REQUEST_BYTES: usize = rsm_gdr::import::MAX_BYTES + MAX_REQUEST_BYTES;

/// Members of one request to change a partition: with GUIDs of 20 bytes a third of
/// [`MAX_PARTITION_REQUEST_BYTES`]. Larger partitions are filled by several requests.
pub const MAX_MEMBERS_PER_REQUEST: usize = 4096;

/// Largest request to the partition service, in bytes.
pub const MAX_PARTITION_REQUEST_BYTES: usize = 256 * 1024;

/// All files of one bulk import in bytes: 5,632 hosts with 8 GPUs and as many adapters take some
/// 60 MB.
pub const MAX_BULK_IMPORT_BYTES: usize = 1 << 30;

/// How long the next file of a bulk import may take to come: what has come takes memory meanwhile.
pub const BULK_IMPORT_PAUSE: Duration = Duration::from_secs(30);

/// Names that the status of GPU hosts lists.
pub const MAX_STATUS_NAMES: usize = 16;

/// Largest response in bytes: the default limit of gRPC clients.
pub const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// Largest file of GPU hosts that is one answer, in bytes: the rest of the answer has room beside it.
pub const MAX_WHOLE_FILE_BYTES: usize = MAX_RESPONSE_BYTES - 1024;

/// Largest piece of a file in bytes.
pub const FILE_PIECE_BYTES: usize = 256 * 1024;

/// Files of GPU hosts read in pieces at the same time over all listeners: each takes its whole size
/// in memory, some 45 MB of 5,632 hosts.
pub const MAX_FILE_READERS: usize = 8;

/// How long the reader of a file may take for a piece: the file takes memory meanwhile.
pub const FILE_PIECE_PAUSE: Duration = Duration::from_secs(30);

/// Longest name of a node in bytes: a description of 64 bytes, three times as long where every byte
/// was replaced in UTF-8, with prefix and port.
pub const MAX_SELECTOR_BYTES: usize = 256;

/// Longest filter text in bytes, by the same reasoning.
pub const MAX_FILTER_BYTES: usize = 256;

/// Candidates that an answer to an ambiguous name lists; the rest are counted.
pub const MAX_CANDIDATES: usize = 8;

/// Paths of one answer: the largest NumbPath of a PathRecord (IBA 15.2.5.16). With 64 hops each,
/// more than any path has, at 300 bytes a hop they take 2.4 MB, below [`MAX_RESPONSE_BYTES`].
pub const MAX_PATHS: u8 = 127;

/// Events that the subnet manager keeps for `ListEvents`, and that a watcher may lag behind before
/// it loses some. A restart of a large switch makes some hundreds; at about 500 bytes each this is
/// 4 MB.
pub const EVENT_JOURNAL: usize = 8_192;

/// Acts of operators that are kept beside them: more than a team makes in weeks.
pub const ACT_JOURNAL: usize = 1_024;

/// Watchers served at the same time over all listeners; each costs a task and up to one HTTP/2
/// window.
pub const MAX_WATCHERS: usize = 256;

/// Requests served at the same time on one connection.
pub const MAX_REQUESTS_PER_CONNECTION: usize = 64;

/// Descriptors reserved for everything but clients: files of the store and its exports, devices,
/// dumps, listeners, pipes. rsm holds about thirty; its store doubles some of them while it is
/// opened after a crash.
pub const RESERVED_DESCRIPTORS: u64 = 128;

/// Connections at once to the Unix socket and over TCP. Each listener has its own limit, so that
/// unknown clients over TCP never shut out the operator at the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// To the Unix socket.
    pub unix: usize,
    /// Over TCP.
    pub tcp: usize,
}

impl ConnectionLimits {
    /// The upper bound: an idle connection takes some 30 KB, so these take 150 MB.
    pub const MOST: ConnectionLimits = ConnectionLimits {
        unix: 1024,
        tcp: 4096,
    };

    /// The lower bound, with any limit on descriptors.
    pub const LEAST: ConnectionLimits = ConnectionLimits { unix: 8, tcp: 8 };

    /// The limits for so many descriptors (RLIMIT_NOFILE) beside [`RESERVED_DESCRIPTORS`]: a
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

/// Convergences that one answer holds; older ones are in the logs.
pub const MAX_CONVERGENCES: usize = 1_000;

/// How long open requests may take to end after a shutdown request.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// The domain of ErrorInfo in the refusals of rsm.
pub const ERROR_DOMAIN: &str = "rsm";

/// The key in the ErrorInfo metadata of a refusal whose request would be carried out if it accepted
/// that ports are cut off (reason `CUT_OFF`); its value is their number.
pub const CUT_OFF_PORTS: &str = "ports";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_the_reserved_descriptors_alone() {
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
