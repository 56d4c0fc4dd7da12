//! Types of keys that accept one of a few words.

use std::fmt;

/// Which forwarding tables rsm writes again at a takeover, because a switch may forward by others
/// than it reads back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Takeover {
    /// Tables of switches that route adaptively.
    #[default]
    Auto,
    /// Tables of switches that route adaptively, and of all switches whose last manager was
    /// another.
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

/// How the SA treats requests that a port makes in the name of another one, from the mildest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TrustMode {
    /// Obeyed.
    Off,
    /// Obeyed; a finding counts them.
    #[default]
    Report,
    /// Refused; a finding counts them.
    Enforce,
}

impl TrustMode {
    /// All values.
    pub const ALL: [TrustMode; 3] = [TrustMode::Off, TrustMode::Report, TrustMode::Enforce];

    /// The word in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            TrustMode::Off => "off",
            TrustMode::Report => "report",
            TrustMode::Enforce => "enforce",
        }
    }
}

/// What follows for the port of a host that acts against the subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HostileHosts {
    /// A finding.
    #[default]
    Report,
    /// A finding, and the port of the switch is disabled.
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

/// Whether all ports have one M_Key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MKeyMode {
    /// All ports have one key.
    #[default]
    One,
    /// Each port has its own key.
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
    /// Virtual ports stay as they are.
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

/// Whether the aggregation nodes of switches (SHARP) may work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AggregationNodes {
    /// Aggregation nodes stay as they are.
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

    /// Whether aggregation nodes are enabled; `None` if they stay as they are.
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
    /// Switches choose among the ports of a group; one that loses a port uses another one of the
    /// group at once.
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

/// Whether links may train to FDR10, on devices that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Fdr10 {
    /// Devices stay as they are.
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

    /// Whether FDR10 is enabled; `None` if devices stay as they are.
    pub const fn enables(self) -> Option<bool> {
        match self {
            Fdr10::AsIs => None,
            Fdr10::On => Some(true),
            Fdr10::Off => Some(false),
        }
    }
}

/// Whose LID hosts know the master by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SmLid {
    /// The manager's LID if several managers share a store, else the port's.
    #[default]
    Auto,
    /// The LID of the manager's port.
    Port,
    /// The LID of the manager, which moves with a takeover.
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

/// Where the state is stored that survives a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StoreBackend {
    /// On this machine.
    #[default]
    Sled,
    /// On this machine, and then in an etcd that several managers share.
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

/// Direction in which a switch drops, at its ports to a CA or router, packets whose P_Key the port
/// does not have (IBA 14.2.5.6). If every port is a full member of the default partition and of no
/// other, switches enforce nothing, because nothing would be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Enforcement {
    /// Inbound and outbound packets.
    #[default]
    Both,
    /// Inbound packets.
    In,
    /// Outbound packets.
    Out,
    /// No packets.
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

/// The least severity of the events that a receiver gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum MinSeverity {
    /// All events.
    #[default]
    Info,
    /// Something works, but not as it should.
    Warning,
    /// Something does not work.
    Error,
}

impl MinSeverity {
    /// All values.
    pub const ALL: [MinSeverity; 3] = [MinSeverity::Info, MinSeverity::Warning, MinSeverity::Error];

    /// Word for the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            MinSeverity::Info => "info",
            MinSeverity::Warning => "warning",
            MinSeverity::Error => "error",
        }
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
