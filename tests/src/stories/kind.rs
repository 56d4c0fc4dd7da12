//! The kinds of stories.

use std::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $guilty:literal;)*) => {
        /// A kind of story. The fabric slows the job in guilty kinds; in the other kinds the job is
        /// slow for another reason, or what happened in the fabric does not concern the job.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(super) enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// All kinds.
            pub(super) const ALL: [Kind; [$($text),*].len()] = [$(Kind::$name),*];

            /// Whether the fabric is at fault.
            pub(super) fn is_guilty(self) -> bool {
                match self {
                    $(Kind::$name => $guilty,)*
                }
            }
        }

        impl fmt::Display for Kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $(Kind::$name => $text,)*
                })
            }
        }
    };
}

kinds! {
    /// A cable on a path of the job counts symbol errors.
    SymbolErrors = "symbol errors on the path", true;
    /// A cable on a path of the job delivers packets with errors.
    ReceiveErrors = "packets received with errors", true;
    /// A link on a path of the job recovers again and again.
    LinkRecoveries = "link recovers again and again", true;
    /// A port on a path of the job counts local link integrity errors.
    IntegrityErrors = "link integrity errors", true;
    /// The receive buffers of a port on a path of the job overrun.
    BufferOverruns = "receive buffers overrun", true;
    /// A port of a switch on a path of the job discards packets.
    Discards = "switch port discards packets", true;
    /// A cable on a path of the job goes down and comes up.
    Flaps = "cable on the path flaps", true;
    /// The cable of a host of the job damages packets in one direction.
    HostPortErrors = "port of a host counts errors", true;
    /// The cable of a host of the job goes down and comes up.
    HostLinkFlaps = "cable of a host flaps", true;
    /// An adapter of a host of the job loses its cable.
    HostUnplugged = "adapter of a host loses its cable", true;
    /// A cable on a path of the job loses lanes while the job runs.
    NarrowCable = "cable loses lanes", true;
    /// A cable on a path of the job falls to a lower speed while the job runs.
    SlowCable = "cable falls to a lower speed", true;
    /// A cable on a path of the job has lost lanes before the job began.
    NarrowBefore = "cable had lost lanes before", true;
    /// A leaf of the job restarts.
    LeafReboot = "leaf restarts", true;
    /// A switch above the leaves, on a path of the job, restarts.
    SpineReboot = "spine or core restarts", true;
    /// A leaf of the job dies: a rail of a SuperPOD, else whole hosts.
    LeafLost = "leaf (rail) dies", true;
    /// A switch above the leaves, on a path of the job, dies.
    SpineLost = "spine or core dies", true;
    /// Data waits at a port between switches, for the traffic of another job.
    Congestion = "data waits at a port of a switch", true;

    /// Nothing happens.
    Nothing = "nothing", false;
    /// A host of the job computes, and so sends, slower than the others.
    SlowGpu = "slow GPU: a host sends less", false;
    /// A host of the job does not take what it is sent, and data backs up to it.
    PausedHost = "host paused: data backs up to it", false;
    /// Hosts of the job have no partition with the others.
    WrongPartition = "wrong partition", false;
    /// A cable that no packet of the job crosses counts errors.
    ErrorsElsewhere = "errors on another cable", false;
    /// A cable that no packet of the job crosses goes down and comes up.
    FlapsElsewhere = "another cable flaps", false;
    /// Data waits at a port that no packet of the job leaves through.
    WaitsElsewhere = "data waits elsewhere", false;
    /// A switch that no packet of the job crosses restarts.
    RebootElsewhere = "another switch restarts", false;
    /// A cable that no packet of the job crosses lost lanes.
    NarrowElsewhere = "another cable lost lanes", false;
    /// A host that does not belong to the job dies.
    OtherHostGone = "a host of no job dies", false;
    /// A cable on a path of the job counted errors before T.
    ErrorsBefore = "errors before T", false;
    /// A cable on a path of the job went down and came up before T.
    FlapsBefore = "cable flapped before T", false;
    /// Counters on the paths of the job are high since long ago, and do not move.
    StandingCounters = "counters high, but still", false;
    /// A drained cable counts errors while it is worked on.
    DrainedSpare = "drained cable counts errors", false;
    /// A cable counts errors in the direction in which no packet of the job crosses it.
    ReverseErrors = "errors against the direction", false;
    /// One symbol error on a path of the job.
    OneSymbolError = "a single symbol error", false;
    /// Data waits for a few percent of the time, as in any busy fabric.
    SmallWaits = "data waits 1 to 3 % of the time", false;
    /// A port on a path of the job drops SMPs, which are no data.
    ManagementDrops = "SMPs dropped (VL15)", false;
}
