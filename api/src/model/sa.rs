use super::Selector;

/// A query for paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathQuestion {
    /// The source port. A LID selects the source LID; any other selector permits every LID of the
    /// port.
    pub source: Selector,
    /// The destination port, in the same form as `source`.
    pub destination: Selector,
    /// The query asks only for paths with this P_Key; the membership bit is ignored.
    pub p_key: Option<u16>,
    /// The query asks only for paths with this service level, 0 to 15.
    pub service_level: Option<u8>,
    /// The ServiceID in the host's query.
    pub service_id: Option<u64>,
    /// The QoSClass in the host's query, 0 to 4095.
    pub qos_class: Option<u16>,
    /// The maximum number of paths, 1 to [`MAX_PATHS`](crate::limits::MAX_PATHS).
    pub max_paths: u8,
}
