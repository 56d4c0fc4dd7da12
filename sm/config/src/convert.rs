//! Conversions of OpenSM's values, which the schema names and `opensm` carries out.

/// The conversion of OpenSM's value to rsm's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Convert {
    /// A number, as C writes numbers.
    Number,
    /// The same. With this value, OpenSM's default, rsm keeps its own default: OpenSM writes every
    /// key into a configuration, so that its default is no decision of the operator.
    NumberUnless(u64),
    /// The same, as the first time-out in milliseconds; the shortest and the longest time-out give
    /// way to it.
    TimeoutUnless(u64),
    /// The same, as the most requests in flight: 0 is no limit, and rsm has limits of its own.
    WindowUnless(u64),
    /// A number of seconds, kept here in milliseconds.
    Seconds,
    /// TRUE or FALSE.
    Flag,
    /// The same, where the key here has the opposite meaning.
    NotFlag,
    /// The same. With this value, OpenSM's default, rsm keeps its own default.
    FlagUnless(bool),
    /// A number; -1 is not set.
    Limit,
    /// A GUID, zero for none.
    Guid,
    /// A file or directory name.
    Path,
    /// The same. With this value, OpenSM's default, rsm keeps its own default.
    PathUnless(&'static str),
    /// The same. A path that ends with this one, OpenSM's default, counts only if there is such a
    /// file: OpenSM writes it into every configuration.
    PathIfThere(&'static str),
    /// A list of engines, of which the first that rsm has an engine for is taken.
    Engines,
    /// A number that only managers of the subnet know; with 1, OpenSM's default, none is set.
    SaKey,
    /// A word that means the same here.
    Text,
    /// The VLs of service levels; where there are fewer, VL 0 follows.
    SlToVl,
    /// 0 leaves virtual ports alone, 1 turns them off, 2 turns them on.
    Virtualization,
    /// TRUE refuses requests in the name of another port; with FALSE, the default of NVIDIA's
    /// manager, rsm keeps its own default.
    TrustMode,
    /// 0 and 255 (NVIDIA's default) leave the devices alone, 1 enables FDR10, 2 disables it.
    Fdr10,
    /// 0 leaves aggregation nodes alone, 1 turns them off; with 2, the default of NVIDIA's manager,
    /// rsm keeps its own default.
    AggregationNodes,
    /// A service level and its number; the lines of other service levels stay.
    PerLevel,
    /// A mask: 0 leaves the hardware alone; this value enables everything supported, which is the
    /// hardware's default.
    Mask(u64),
}
