//! Types of keys that accept one of a few words.

use std::fmt;

/// The forwarding tables that rsm writes again at a takeover, because the tables that a switch
/// reports may differ from the tables by which it forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Takeover {
    /// Tables of switches that route adaptively.
    #[default]
    Auto,
    /// Tables of switches that route adaptively, and of all switches that another manager managed
    /// last.
    Rewrite,
    /// No tables.
    Trust,
}

impl Takeover {
    /// All values.
    pub const ALL: [Takeover; 3] = [Takeover::Auto, Takeover::Rewrite, Takeover::Trust];

    /// Word for the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Takeover::Auto => "auto",
            Takeover::Rewrite => "rewrite",
            Takeover::Trust => "trust",
        }
    }
}

/// Treatment by the SA of requests that a port makes in the name of another port; the mildest
/// treatment is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TrustMode {
    /// The SA obeys such requests.
    Off,
    /// The SA obeys such requests, and a finding counts them.
    #[default]
    Report,
    /// The SA refuses such requests, and a finding counts them.
    Enforce,
}

impl TrustMode {
    /// All values.
    pub const ALL: [TrustMode; 3] = [TrustMode::Off, TrustMode::Report, TrustMode::Enforce];

    /// Word for the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            TrustMode::Off => "off",
            TrustMode::Report => "report",
            TrustMode::Enforce => "enforce",
        }
    }
}

/// Consequence for the port of a host that acts against the subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HostileHosts {
    /// A finding.
    #[default]
    Report,
    /// A finding, and the switch port at the other end of the cable is disabled.
    Isolate,
}

impl HostileHosts {
    /// All values.
    pub const ALL: [HostileHosts; 2] = [HostileHosts::Report, HostileHosts::Isolate];

    /// The word in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            HostileHosts::Report => "report",
            HostileHosts::Isolate => "isolate",
        }
    }
}

/// Whether all ports share one M_Key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MKeyMode {
    /// All ports share one M_Key.
    #[default]
    One,
    /// Each port has its own M_Key.
    PerPort,
}

impl MKeyMode {
    /// All values.
    pub const ALL: [MKeyMode; 2] = [MKeyMode::One, MKeyMode::PerPort];

    /// Word for the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            MKeyMode::One => "one",
            MKeyMode::PerPort => "per-port",
        }
    }
}

/// Whether virtual ports of hosts are managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Virtualization {
    /// Virtual ports keep their state.
    #[default]
    Off,
    /// Virtual ports get LIDs and P_Keys, and become Active.
    On,
}

impl Virtualization {
    /// All values.
    pub const ALL: [Virtualization; 2] = [Virtualization::Off, Virtualization::On];

    /// Word for the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Virtualization::Off => "off",
            Virtualization::On => "on",
        }
    }
}

/// Whether aggregation nodes of switches (SHARP) are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AggregationNodes {
    /// Aggregation nodes keep their setting.
    #[default]
    Keep,
    /// Aggregation nodes are enabled.
    On,
    /// Aggregation nodes are disabled.
    Off,
}

impl AggregationNodes {
    /// All values.
    pub const ALL: [AggregationNodes; 3] = [
        AggregationNodes::Keep,
        AggregationNodes::On,
        AggregationNodes::Off,
    ];

    /// Word for the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            AggregationNodes::Keep => "keep",
            AggregationNodes::On => "on",
            AggregationNodes::Off => "off",
        }
    }

    /// Whether aggregation nodes are enabled; `None` if they keep their setting.
    pub const fn enables(self) -> Option<bool> {
        match self {
            AggregationNodes::Keep => None,
            AggregationNodes::On => Some(true),
            AggregationNodes::Off => Some(false),
        }
    }
}

/// Whether switches route adaptively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AdaptiveRouting {
    /// Adaptive routing is off.
    #[default]
    Off,
    /// Switches choose among the ports of a group.
    On,
    /// Switches choose among the ports of a group; a switch that loses a port uses another port of
    /// the group at once.
    FastRecovery,
}

impl AdaptiveRouting {
    /// All values.
    pub const ALL: [AdaptiveRouting; 3] = [
        AdaptiveRouting::Off,
        AdaptiveRouting::On,
        AdaptiveRouting::FastRecovery,
    ];

    /// Word for the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            AdaptiveRouting::Off => "off",
            AdaptiveRouting::On => "on",
            AdaptiveRouting::FastRecovery => "fast-recovery",
        }
    }
}

/// Whether links may train to FDR10, on devices that support it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Fdr10 {
    /// Devices keep their setting.
    #[default]
    AsIs,
    /// FDR10 is enabled.
    On,
    /// FDR10 is disabled.
    Off,
}

impl Fdr10 {
    /// All values.
    pub const ALL: [Fdr10; 3] = [Fdr10::AsIs, Fdr10::On, Fdr10::Off];

    /// Word for the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Fdr10::AsIs => "as-is",
            Fdr10::On => "on",
            Fdr10::Off => "off",
        }
    }

    /// Whether FDR10 is enabled; `None` if devices keep their setting.
    pub const fn enables(self) -> Option<bool> {
        match self {
            Fdr10::AsIs => None,
            Fdr10::On => Some(true),
            Fdr10::Off => Some(false),
        }
    }
}

/// The LID by which hosts know the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SmLid {
    /// The manager's LID if several managers share a store; otherwise the port's LID.
    #[default]
    Auto,
    /// The LID of the manager's port.
    Port,
    /// The LID of the manager, which moves to the new master's port at a takeover.
    Floating,
}

impl SmLid {
    /// All values.
    pub const ALL: [SmLid; 3] = [SmLid::Auto, SmLid::Port, SmLid::Floating];

    /// Word for the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            SmLid::Auto => "auto",
            SmLid::Port => "port",
            SmLid::Floating => "floating",
        }
    }
}

/// Storage of the state that survives a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StoreBackend {
    /// The state is stored on this machine.
    #[default]
    Sled,
    /// The state is stored on this machine, and then in an etcd that several managers share.
    Etcd,
}

impl StoreBackend {
    /// All values.
    pub const ALL: [StoreBackend; 2] = [StoreBackend::Sled, StoreBackend::Etcd];

    /// Word for the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            StoreBackend::Sled => "sled",
            StoreBackend::Etcd => "etcd",
        }
    }
}

/// Direction in which a switch, at its ports to channel adapters or routers, drops packets whose
/// P_Key the port lacks (IBA 14.2.5.6). If every port is a full member of the default partition and
/// of no other, switches enforce nothing, because no packet would be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Enforcement {
    /// Inbound and outbound packets are checked.
    #[default]
    Both,
    /// Inbound packets are checked.
    In,
    /// Outbound packets are checked.
    Out,
    /// No packets are checked.
    Off,
}

impl Enforcement {
    /// All values.
    pub const ALL: [Enforcement; 4] = [
        Enforcement::Both,
        Enforcement::In,
        Enforcement::Out,
        Enforcement::Off,
    ];

    /// Word for the value in rsm's configuration and in OpenSM's.
    pub const fn name(self) -> &'static str {
        match self {
            Enforcement::Both => "both",
            Enforcement::In => "in",
            Enforcement::Out => "out",
            Enforcement::Off => "off",
        }
    }

    /// Whether inbound packets are checked.
    pub const fn inbound(self) -> bool {
        matches!(self, Enforcement::Both | Enforcement::In)
    }

    /// Whether outbound packets are checked.
    pub const fn outbound(self) -> bool {
        matches!(self, Enforcement::Both | Enforcement::Out)
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Facility of messages to syslog (RFC 5424, 6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the words are those of the RFC")]
pub enum SyslogFacility {
    #[default]
    Daemon,
    User,
    Local0,
    Local1,
    Local2,
    Local3,
    Local4,
    Local5,
    Local6,
    Local7,
}

impl SyslogFacility {
    /// All values.
    pub const ALL: [SyslogFacility; 10] = [
        SyslogFacility::Daemon,
        SyslogFacility::User,
        SyslogFacility::Local0,
        SyslogFacility::Local1,
        SyslogFacility::Local2,
        SyslogFacility::Local3,
        SyslogFacility::Local4,
        SyslogFacility::Local5,
        SyslogFacility::Local6,
        SyslogFacility::Local7,
    ];

    /// Word for the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            SyslogFacility::Daemon => "daemon",
            SyslogFacility::User => "user",
            SyslogFacility::Local0 => "local0",
            SyslogFacility::Local1 => "local1",
            SyslogFacility::Local2 => "local2",
            SyslogFacility::Local3 => "local3",
            SyslogFacility::Local4 => "local4",
            SyslogFacility::Local5 => "local5",
            SyslogFacility::Local6 => "local6",
            SyslogFacility::Local7 => "local7",
        }
    }

    /// Number of the facility in a message's priority.
    pub const fn code(self) -> u8 {
        match self {
            SyslogFacility::User => 1,
            SyslogFacility::Daemon => 3,
            SyslogFacility::Local0 => 16,
            SyslogFacility::Local1 => 17,
            SyslogFacility::Local2 => 18,
            SyslogFacility::Local3 => 19,
            SyslogFacility::Local4 => 20,
            SyslogFacility::Local5 => 21,
            SyslogFacility::Local6 => 22,
            SyslogFacility::Local7 => 23,
        }
    }
}
