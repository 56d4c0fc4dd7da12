use super::Selector;

/// A query for paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathQuestion {
    /// The source port. A LID fixes the source LID; otherwise any LID of the port may be used.
    pub source: Selector,
    /// The destination port, in the same form as `source`.
    pub destination: Selector,
    /// Only paths with this P_Key, whatever its membership bit.
    pub p_key: Option<u16>,
    /// Only paths with this service level, 0 to 15.
    pub service_level: Option<u8>,
    /// The ServiceID in the host's query.
    pub service_id: Option<u64>,
    /// The QoSClass in the host's query, 0 to 4095.
    pub qos_class: Option<u16>,
    /// At most this many paths, 1 to [`MAX_PATHS`](crate::limits::MAX_PATHS).
    pub max_paths: u8,
}
