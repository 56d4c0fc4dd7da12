//! Conversions of OpenSM's values, which the schema names and `opensm` performs.

/// Conversion of a value of OpenSM into a value of rsm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Convert {
    /// A number in C's syntax.
    Number,
    /// A number in C's syntax. In place of this number, OpenSM's default, rsm uses its own default:
    /// OpenSM writes every key into a configuration, so OpenSM's default is no decision of the
    /// operator.
    NumberUnless(u64),
    /// The first time-out in milliseconds, unless it is this number, OpenSM's default. If
    /// necessary, the shortest or longest time-out changes as well, to include it.
    TimeoutUnless(u64),
    /// A maximum number of requests in flight. For this number, OpenSM's default, rsm keeps its own
    /// default. Other numbers are limited to the range of rsm's key, and 0, which means no limit,
    /// becomes the maximum of that range.
    WindowUnless(u64),
    /// Seconds, converted to milliseconds.
    Seconds,
    /// TRUE or FALSE.
    Flag,
    /// TRUE or FALSE, for a key of rsm with the opposite meaning.
    NotFlag,
    /// TRUE or FALSE. For this value, OpenSM's default, rsm keeps its own default.
    FlagUnless(bool),
    /// A number; -1 means not set.
    Limit,
    /// A GUID; zero means none.
    Guid,
    /// Name of a file or directory.
    Path,
    /// Name of a file or directory. For this name, OpenSM's default, rsm keeps its own default.
    PathUnless(&'static str),
    /// Name of a file. A path that ends with this name, OpenSM's default, counts only if the file
    /// exists, because OpenSM writes it into every configuration.
    PathIfThere(&'static str),
    /// A list of engines; the first engine that has a counterpart in rsm applies.
    Engines,
    /// The SA's key, a secret number of the subnet's managers. 1, OpenSM's default, means that no
    /// key is set.
    SaKey,
    /// A word with the same meaning in rsm.
    Text,
    /// The VLs of service levels; omitted levels get VL 0.
    SlToVl,
    /// 0 keeps virtual ports as they are, 1 turns them off, 2 turns them on.
    Virtualization,
    /// TRUE refuses requests in the name of another port. For FALSE, the default of NVIDIA's
    /// manager, rsm keeps its own default.
    TrustMode,
    /// 0 and 255 (NVIDIA's default) keep the devices' setting, 1 enables FDR10, 2 disables it.
    Fdr10,
    /// 0 keeps aggregation nodes as they are, 1 turns them off. For 2, the default of NVIDIA's
    /// manager, rsm keeps its own default.
    AggregationNodes,
    /// A service level and its number; other service levels keep their numbers.
    PerLevel,
    /// A mask. 0 keeps the hardware's setting; this value enables everything that the hardware
    /// supports, which is its default.
    Mask(u64),
}
