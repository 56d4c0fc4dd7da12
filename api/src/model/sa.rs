use rsm_ids::{Gid, Lid};

use super::{Hop, PortKey, Selector};

/// A query for paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathQuestion {
    /// The source port. A LID fixes the source LID, otherwise any LID of the port will do.
    pub source: Selector,
    /// The destination port, named in the same ways.
    pub destination: Selector,
    /// Only paths with this P_Key, with either membership bit.
    pub p_key: Option<u16>,
    /// Only paths with this service level, 0 to 15.
    pub service_level: Option<u8>,
    /// At most this many paths, 1 to [`MAX_PATHS`](crate::limits::MAX_PATHS).
    pub max_paths: u8,
}

/// A path between two ports, as the SA answers it in a PathRecord (IBA 15.2.5.16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// The GID of the port that packets start at.
    pub source_gid: Gid,
    /// The GID of the destination port.
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
    /// The preference among paths, 0 before any other.
    pub preference: u8,
    /// Every node on the way, the source first, as in TraceRecords (IBA 15.2.5.19).
    pub hops: Vec<Hop>,
}

/// Paths between two ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The generation of the snapshot that resolved the names.
    pub generation: u64,
    /// The port that packets start at.
    pub source: PortKey,
    /// The destination port.
    pub destination: PortKey,
    /// The paths, the preferred ones first; or why there is none, in a few words.
    pub paths: Result<Vec<Path>, String>,
}
