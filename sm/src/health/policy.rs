use std::time::Duration;

use super::evidence::Symptom;

/// The treatment of unhealthy cables between switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolate {
    /// Findings name them.
    Off,
    /// Findings name them, with the command that keeps routes off them.
    #[default]
    Suggest,
    /// Routes go around them, as far as all ports stay reachable.
    On,
}

impl Isolate {
    /// All values.
    pub const ALL: [Isolate; 3] = [Isolate::Off, Isolate::Suggest, Isolate::On];

    /// As the configuration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Isolate::Off => "off",
            Isolate::Suggest => "suggest",
            Isolate::On => "on",
        }
    }
}

/// Occurrences in an hour from which on a port is unhealthy, by symptom; zero: never.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits(pub [u32; Symptom::ALL.len()]);

impl Limits {
    /// The limit of a symptom; `None` if it never makes a port unhealthy.
    pub fn of(&self, symptom: Symptom) -> Option<u32> {
        Some(self.0[symptom as usize]).filter(|&limit| limit > 0)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits(Symptom::ALL.map(Symptom::usual_limit))
    }
}

/// When ports are unhealthy, and the consequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthPolicy {
    /// The consequence.
    pub isolate: Isolate,
    /// Whether the link of a host's port that sends traps without an end is disabled.
    pub disables_babbling: bool,
    /// When a port is unhealthy.
    pub limits: Limits,
    /// The time without an error from which on an unhealthy port is healthy again.
    pub quiet: Duration,
}

impl Default for HealthPolicy {
    fn default() -> HealthPolicy {
        HealthPolicy {
            isolate: Isolate::default(),
            disables_babbling: false,
            limits: Limits::default(),
            quiet: Duration::from_secs(3600),
        }
    }
}
