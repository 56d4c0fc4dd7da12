use rsm_ids::{Gid, Lid};

use super::{Hop, PortKey, Selector};

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdministrationRequests {
    /// The attribute (IBA 15.2.5); 0, together with method 0, for what subnet administration does not know.
    pub attribute_id: u16,
    /// The attribute's name; `other` for what it does not know.
    pub attribute: String,
    /// The method (IBA 15.2.2).
    pub method_id: u8,
    /// The method's name; `other` for what it does not know.
    pub method: String,
    /// How many were let in since the start.
    pub count: u64,
}

/// Answers of one status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdministrationAnswers {
    /// The status as it is in the header of the answer (IBA 15.2.3); 0xffff for any without a name.
    pub status_id: u16,
    /// Its name; `other` where it has none.
    pub status: String,
    /// How many were given since the start.
    pub count: u64,
}

/// Answers that took about as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyBucket {
    /// They took less than this many nanoseconds, and no less than the bucket before; none for the last one, which has no
    /// bound.
    pub below_ns: Option<u64>,
    /// How many there are.
    pub count: u64,
}

/// How long answers took.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Latencies {
    /// Answers that were measured.
    pub count: u64,
    /// All their times together, in nanoseconds.
    pub sum_ns: u64,
    /// By time, ascending, without those that are empty.
    pub buckets: Vec<LatencyBucket>,
}

/// What subnet administration did since the start. Each number is right by itself; together they are not of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdministrationCounters {
    /// Requests by attribute and method, ascending, without those that never came.
    pub requests: Vec<AdministrationRequests>,
    /// Answers by status, ascending, without those that were never given.
    pub answers: Vec<AdministrationAnswers>,
    /// How long answers took.
    pub latencies: Latencies,
    /// Requests that were told BUSY for want of room.
    pub busy: u64,
    /// What arrived and was dropped without an answer for want of room, and refusals that could not be sent.
    pub dropped: u64,
    /// Answers that could not be sent.
    pub failed: u64,
    /// What needed no answer, or could have none.
    pub ignored: u64,
    /// Requests with an SM_Key that is not the right one, which get no answer.
    pub wrong_keys: u64,
    /// Traps of ports that are not in the snapshot, which no subscriber is told of.
    pub unknown_issuers: u64,
    /// Requests that got no answer because this subnet manager is not master, has no plan yet, or does not have the
    /// requester's LID in its directory yet.
    pub unserved: u64,
}

/// Which paths are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathQuestion {
    /// The port that asks. A LID is taken as given, otherwise any LID of the port will do.
    pub source: Selector,
    /// The port that it wants to get to, named in the same ways.
    pub destination: Selector,
    /// Only paths with this P_Key, whichever its membership bit.
    pub p_key: Option<u16>,
    /// Only paths with this service level, 0 to 15.
    pub service_level: Option<u8>,
    /// At most this many paths, 1 to [`MAX_PATHS`](crate::limits::MAX_PATHS).
    pub max_paths: u8,
}

/// A path between two ports: what a host is told that asks for a PathRecord (IBA 15.2.5.16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The GID of the port that packets start at.
    pub source_gid: Gid,
    /// The GID of the port that packets are meant for.
    pub destination_gid: Gid,
    /// The LID of the source.
    pub source_lid: Lid,
    /// The LID of the destination.
    pub destination_lid: Lid,
    /// The P_Key, with the bit of full membership as the source holds it.
    pub p_key: u16,
    /// The service level, 0 to 15.
    pub service_level: u8,
    /// The largest payload in bytes, 256 to 4096.
    pub mtu_bytes: u16,
    /// The rate in units of 100 Mb/s, 25 to 12000.
    pub rate_tenth_gbps: u16,
    /// How long a packet may be on its way, 0 to 63: 4.096 µs × 2^n.
    pub packet_life_time: u8,
    /// Whether packets get back from the destination's LID to the source's.
    pub reversible: bool,
    /// Which path is to be preferred, 0 before any other.
    pub preference: u8,
    /// Every node on the way, the source first, as a TraceRecord has them (IBA 15.2.5.18).
    pub hops: Vec<Hop>,
}

/// Paths between two ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The generation of the snapshot that the names were looked up in.
    pub generation: u64,
    /// The port that packets start at.
    pub source: PortKey,
    /// The port that packets are meant for.
    pub destination: PortKey,
    /// The paths, the preferred ones first; or why there is none, in a few words.
    pub paths: Result<Vec<Path>, String>,
}
