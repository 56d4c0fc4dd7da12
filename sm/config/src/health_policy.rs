//! The policy about unhealthy ports: the conditions under which a port is unhealthy, and the
//! consequence.

use std::time::Duration;

use rsm_mad::wire::perf::Counter;

/// A sign of a damaged link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Symptom {
    /// SymbolErrorCounter.
    SymbolErrors,
    /// LinkErrorRecoveryCounter.
    LinkRecoveries,
    /// LinkDownedCounter.
    LinkDowns,
    /// PortRcvErrors.
    ReceiveErrors,
    /// LocalLinkIntegrityErrors.
    IntegrityErrors,
    /// ExcessiveBufferOverrunErrors.
    Overruns,
    /// Reports of the port itself: traps 129 to 131 (IBA 14.2.5.1).
    Reports,
}

impl Symptom {
    /// All symptoms.
    pub const ALL: [Symptom; 7] = [
        Symptom::SymbolErrors,
        Symptom::LinkRecoveries,
        Symptom::LinkDowns,
        Symptom::ReceiveErrors,
        Symptom::IntegrityErrors,
        Symptom::Overruns,
        Symptom::Reports,
    ];

    /// The counter of this symptom; `None` for reports.
    pub const fn counter(self) -> Option<Counter> {
        match self {
            Symptom::SymbolErrors => Some(Counter::SymbolError),
            Symptom::LinkRecoveries => Some(Counter::LinkErrorRecovery),
            Symptom::LinkDowns => Some(Counter::LinkDowned),
            Symptom::ReceiveErrors => Some(Counter::RcvErrors),
            Symptom::IntegrityErrors => Some(Counter::LocalLinkIntegrityErrors),
            Symptom::Overruns => Some(Counter::ExcessiveBufferOverrunErrors),
            Symptom::Reports => None,
        }
    }

    /// Default limit per hour. A link at the bit error ratio that IBA permits (10^-12, IBA 5.10)
    /// has 120 symbol errors in an hour; a healthy link shows no other symptom.
    pub(crate) const fn usual_limit(self) -> u32 {
        match self {
            Symptom::SymbolErrors => 120,
            Symptom::ReceiveErrors => 60,
            Symptom::LinkRecoveries
            | Symptom::LinkDowns
            | Symptom::IntegrityErrors
            | Symptom::Overruns => 30,
            Symptom::Reports => 10,
        }
    }

    /// Name of the symptom in words, in the plural.
    pub const fn name(self) -> &'static str {
        match self {
            Symptom::SymbolErrors => "symbol errors",
            Symptom::LinkRecoveries => "link recoveries",
            Symptom::LinkDowns => "link downs",
            Symptom::ReceiveErrors => "receive errors",
            Symptom::IntegrityErrors => "link integrity errors",
            Symptom::Overruns => "buffer overruns",
            Symptom::Reports => {
                "reports of link integrity, buffer overrun or flow control errors (traps 129 to 131)"
            }
        }
    }
}

/// Treatment of unhealthy cables between switches by routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolate {
    /// Findings name the cables.
    Off,
    /// Findings name the cables, with the command that keeps routes off them.
    #[default]
    Suggest,
    /// Routes avoid the cables, as far as all ports stay reachable.
    On,
}

impl Isolate {
    /// All values.
    pub const ALL: [Isolate; 3] = [Isolate::Off, Isolate::Suggest, Isolate::On];

    /// Word for the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Isolate::Off => "off",
            Isolate::Suggest => "suggest",
            Isolate::On => "on",
        }
    }
}

/// Number of occurrences per hour that makes a port unhealthy, by symptom; zero for never.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SymptomLimits(pub [u32; Symptom::ALL.len()]);

impl SymptomLimits {
    /// The limit of a symptom; `None` if it never makes a port unhealthy.
    pub fn of(&self, symptom: Symptom) -> Option<u32> {
        Some(self.0[symptom as usize]).filter(|&limit| limit > 0)
    }
}

impl Default for SymptomLimits {
    fn default() -> SymptomLimits {
        SymptomLimits(Symptom::ALL.map(Symptom::usual_limit))
    }
}

/// The conditions under which ports are unhealthy, and the consequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthPolicy {
    /// The routes' treatment of unhealthy cables between switches.
    pub isolate: Isolate,
    /// Whether the link of a host's port that sends traps without pause is disabled.
    pub disables_babbling: bool,
    /// The limits of the symptoms.
    pub limits: SymptomLimits,
    /// Time without an error after which an unhealthy port is healthy again.
    pub quiet: Duration,
}

impl Default for HealthPolicy {
    fn default() -> HealthPolicy {
        HealthPolicy {
            isolate: Isolate::default(),
            disables_babbling: false,
            limits: SymptomLimits::default(),
            quiet: Duration::from_secs(3600),
        }
    }
}
