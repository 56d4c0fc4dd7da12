//! Conversions of OpenSM's values: the schema names them, and `opensm` carries them out.

/// How a value of OpenSM becomes a value of rsm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Convert {
    /// A number in C's syntax.
    Number,
    /// A number in C's syntax, unless it is this one, OpenSM's default: then rsm keeps its own
    /// default. OpenSM writes every key into a configuration, so that its default is no decision of
    /// the operator.
    NumberUnless(u64),
    /// The first time-out in milliseconds, unless it is this number, OpenSM's default. If
    /// necessary, the shortest or the longest time-out changes as well, to include it.
    TimeoutUnless(u64),
    /// Bound of the requests in flight, unless it is this number, OpenSM's default. 0 means no
    /// limit, and rsm has limits of its own.
    WindowUnless(u64),
    /// Seconds, which become milliseconds.
    Seconds,
    /// TRUE or FALSE.
    Flag,
    /// TRUE or FALSE, for a key of rsm with the opposite meaning.
    NotFlag,
    /// TRUE or FALSE, unless it is this value, OpenSM's default: then rsm keeps its own default.
    FlagUnless(bool),
    /// A number; -1 means not set.
    Limit,
    /// A GUID; zero means none.
    Guid,
    /// Name of a file or directory.
    Path,
    /// Name of a file or directory, unless it is this one, OpenSM's default: then rsm keeps its own
    /// default.
    PathUnless(&'static str),
    /// Name of a file. A path that ends with this one, OpenSM's default, counts only if the file
    /// exists: OpenSM writes it into every configuration.
    PathIfThere(&'static str),
    /// A list of engines. The first one counts for which rsm has an engine.
    Engines,
    /// A number that only managers of the subnet know. 1, OpenSM's default, means that none is set.
    SaKey,
    /// A word with the same meaning in rsm.
    Text,
    /// The VLs of service levels; missing ones are VL 0.
    SlToVl,
    /// 0 leaves virtual ports as they are, 1 turns them off, 2 turns them on.
    Virtualization,
    /// TRUE refuses requests in the name of another port; with FALSE, the default of NVIDIA's
    /// manager, rsm keeps its own default.
    TrustMode,
    /// 0 and 255 (NVIDIA's default) leave the devices alone, 1 enables FDR10, 2 disables it.
    Fdr10,
    /// 0 leaves aggregation nodes as they are, 1 turns them off. With 2, the default of NVIDIA's
    /// manager, rsm keeps its own default.
    AggregationNodes,
    /// A service level and its number; other service levels keep theirs.
    PerLevel,
    /// A mask. 0 leaves the hardware as it is; this value enables everything supported, which is
    /// the hardware's default.
    Mask(u64),
}
