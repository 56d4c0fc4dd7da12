//! Keys that take one of a few words.

use std::fmt;

/// Which forwarding tables are written anew where another manager may have left others in force
/// than those read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Takeover {
    /// Those of switches that route adaptively.
    #[default]
    Auto,
    /// Those, and those of all switches whose last manager was another.
    Rewrite,
    /// None.
    Trust,
}

impl Takeover {
    /// All there are.
    pub const ALL: [Takeover; 3] = [Takeover::Auto, Takeover::Rewrite, Takeover::Trust];

    /// As the configuration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Takeover::Auto => "auto",
            Takeover::Rewrite => "rewrite",
            Takeover::Trust => "trust",
        }
    }
}

/// At which side of its ports that lead to a CA or router a switch drops packets whose P_Key the
/// port does not have (IBA 14.2.5.6). It does not where every port is a full member of the default
/// partition and of no other: nothing would be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Enforcement {
    /// What comes in and what goes out.
    #[default]
    Both,
    /// What comes in.
    In,
    /// What goes out.
    Out,
    /// Nothing.
    Off,
}

impl Enforcement {
    /// All there are.
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

    /// Whether what comes in is checked.
    pub const fn inbound(self) -> bool {
        matches!(self, Enforcement::Both | Enforcement::In)
    }

    /// Whether what goes out is checked.
    pub const fn outbound(self) -> bool {
        matches!(self, Enforcement::Both | Enforcement::Out)
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
