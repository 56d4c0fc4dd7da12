//! Keys that take one of a few words.

use std::fmt;

/// Which forwarding tables rsm writes anew, because another manager may have left others in force
/// than those read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Takeover {
    /// Forwarding tables of switches that route adaptively.
    #[default]
    Auto,
    /// Also those of all switches whose last manager was another.
    Rewrite,
    /// None.
    Trust,
}

impl Takeover {
    /// All values.
    pub const ALL: [Takeover; 3] = [Takeover::Auto, Takeover::Rewrite, Takeover::Trust];

    /// The word in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Takeover::Auto => "auto",
            Takeover::Rewrite => "rewrite",
            Takeover::Trust => "trust",
        }
    }
}

/// How the SA treats requests that a port makes in the name of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
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

/// Whether all ports have one M_Key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MKeyMode {
    /// Yes.
    #[default]
    One,
    /// No: each has its own.
    PerPort,
}

impl MKeyMode {
    /// All values.
    pub const ALL: [MKeyMode; 2] = [MKeyMode::One, MKeyMode::PerPort];

    /// The word in the configuration.
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
    /// No: they stay as they are.
    #[default]
    Off,
    /// Yes.
    On,
}

impl Virtualization {
    /// All values.
    pub const ALL: [Virtualization; 2] = [Virtualization::Off, Virtualization::On];

    /// The word in the configuration.
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
    /// They stay as they are.
    #[default]
    Keep,
    /// They may work.
    On,
    /// They may not work.
    Off,
}

impl AggregationNodes {
    /// All values.
    pub const ALL: [AggregationNodes; 3] = [
        AggregationNodes::Keep,
        AggregationNodes::On,
        AggregationNodes::Off,
    ];

    /// The word in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            AggregationNodes::Keep => "keep",
            AggregationNodes::On => "on",
            AggregationNodes::Off => "off",
        }
    }

    /// Whether they may work; `None`: as they are.
    pub const fn enables(self) -> Option<bool> {
        match self {
            AggregationNodes::Keep => None,
            AggregationNodes::On => Some(true),
            AggregationNodes::Off => Some(false),
        }
    }
}

/// Where switches route adaptively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AdaptiveRouting {
    /// Nowhere.
    #[default]
    Off,
    /// Among the ports of groups.
    On,
    /// The same, and a switch that loses a port takes another one of the group at once.
    FastRecovery,
}

impl AdaptiveRouting {
    /// All values.
    pub const ALL: [AdaptiveRouting; 3] = [
        AdaptiveRouting::Off,
        AdaptiveRouting::On,
        AdaptiveRouting::FastRecovery,
    ];

    /// The word in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            AdaptiveRouting::Off => "off",
            AdaptiveRouting::On => "on",
            AdaptiveRouting::FastRecovery => "fast-recovery",
        }
    }
}

/// Whether links may train to FDR10, where devices have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Fdr10 {
    /// As the devices have it.
    #[default]
    AsIs,
    /// Yes.
    On,
    /// No.
    Off,
}

impl Fdr10 {
    /// All values.
    pub const ALL: [Fdr10; 3] = [Fdr10::AsIs, Fdr10::On, Fdr10::Off];

    /// The word in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Fdr10::AsIs => "as-is",
            Fdr10::On => "on",
            Fdr10::Off => "off",
        }
    }

    /// Whether ports may train to it; `None`: as their devices have it.
    pub const fn enables(self) -> Option<bool> {
        match self {
            Fdr10::AsIs => None,
            Fdr10::On => Some(true),
            Fdr10::Off => Some(false),
        }
    }
}

/// The owner of the LID under which hosts know the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SmLid {
    /// To the manager where several share a store, else to its port.
    #[default]
    Auto,
    /// To its port.
    Port,
    /// To the manager.
    Floating,
}

impl SmLid {
    /// All values.
    pub const ALL: [SmLid; 3] = [SmLid::Auto, SmLid::Port, SmLid::Floating];

    /// The word in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            SmLid::Auto => "auto",
            SmLid::Port => "port",
            SmLid::Floating => "floating",
        }
    }
}

/// Where the state that survives a restart is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StoreBackend {
    /// On this machine.
    #[default]
    Sled,
    /// On this machine, and behind it in an etcd that several managers share.
    Etcd,
}

impl StoreBackend {
    /// All values.
    pub const ALL: [StoreBackend; 2] = [StoreBackend::Sled, StoreBackend::Etcd];

    /// The word in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            StoreBackend::Sled => "sled",
            StoreBackend::Etcd => "etcd",
        }
    }
}

/// The direction in which a switch, at its ports to a CA or router, drops packets whose P_Key the
/// port does not have (IBA 14.2.5.6). It does not where every port is a full member of the default
/// partition and of no other: nothing would be dropped.
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

    /// As the configuration writes it, and OpenSM's.
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
