//! Rotation of the M_Keys of ports, where each port has its own.
//!
//! A rotation changes the policy: the difference then finds that every port holds another key than
//! planned, and the push writes PortInfo port by port, each with the key that the port holds. Until
//! its Set is acknowledged a port is sent the old key and the new one in turn, so there is no moment
//! at which it cannot be reached. The store has the generation before the first Set leaves.

use std::sync::Arc;

use super::Core;
use super::event::{Effect, Ticket};
use super::role::Role;
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::m_keys::Generations;
use crate::sweep::inventory::PortKey;

/// How many ports a finding names.
const SHOWN: usize = 5;

/// The M_Keys of ports, as far as they may be shown.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MKeyStatus {
    /// Whether ports are to hold any key.
    pub protects: bool,
    /// Whether each port has its own.
    pub per_port: bool,
    /// How often they were rotated.
    pub generations: Generations,
    /// Ports that hold their planned key.
    pub settled: usize,
    /// Ports that do not.
    pub behind: usize,
}

impl Core {
    /// The generations in use. They are in the policy, to which a reload of the configuration adds
    /// them again.
    pub(super) fn generations(&self) -> Generations {
        self.config.policy.ports.m_keys.generations
    }

    /// Puts the generations of keys into the policy.
    pub(super) fn lay_generations(&mut self, generations: Generations) {
        if self.generations() != generations {
            let policy = Arc::make_mut(&mut self.config.policy);
            policy.ports.m_keys.generations = generations;
        }
    }

    fn set_generations(&mut self, generations: Generations) {
        if self.generations() != generations {
            self.lay_generations(generations);
            self.remember();
        }
    }

    fn has_derived_keys(&self) -> bool {
        self.config.policy.ports.m_keys.secret().is_some()
    }

    /// Rotates the keys of all ports. Refused while ports hold keys of the rotation before, unless
    /// the operator insists.
    pub(super) fn rotate_m_keys(&mut self, forced: bool, ticket: Ticket) {
        let behind = self.inventory.ports_behind().len();
        let reason = if !self.has_derived_keys() {
            "ports have no keys of their own to rotate: set sm.m_keys = \"per-port\" and sm.m_key_secret_file".to_owned()
        } else if behind > 0 && !forced {
            format!(
                "{behind} ports do not hold their key of the rotation before yet (`rsmctl findings`); repeat with --force to go on without them: \
                 they are found by their old keys later"
            )
        } else {
            self.set_generations(self.generations().rotated());
            self.work.plan_again("the M_Keys of all ports are rotated");
            self.work.promise(ticket);
            return;
        };
        self.effects.push_back(Effect::Declined { ticket, reason });
    }

    /// Gives switches keys that a manager does not know which was master before and may wake up: its
    /// Sets then change no forwarding table.
    pub(super) fn fence_switches(&mut self) {
        if self.has_derived_keys() {
            self.set_generations(self.generations().fenced());
            self.work
                .plan_again("switches get M_Keys that the manager before does not know");
        }
    }

    /// Goes on with the later of the own generations and those of another manager.
    pub(super) fn adopt_generations(&mut self, others: Generations) {
        let later = self.generations().later(others);
        if later != self.generations() {
            self.set_generations(later);
            if self.role == Role::Master {
                self.work
                    .plan_again("another manager had rotated the M_Keys of ports");
            }
        }
    }

    /// Goes on with the generations that ports show: another manager has rotated keys, and the store
    /// of this one does not know.
    pub(super) fn follow_generations(&mut self) {
        if let Some(ahead) = self.inventory.generations_ahead() {
            self.adopt_generations(ahead);
        }
    }

    /// The state of the keys, for readers.
    pub(super) fn m_key_status(&self) -> MKeyStatus {
        let policy = &self.config.policy.ports.m_keys;
        MKeyStatus {
            protects: policy.protects(),
            per_port: policy.secret().is_some(),
            generations: policy.generations,
            settled: self.inventory.ports_with_keys(),
            behind: self.inventory.ports_behind().len(),
        }
    }

    /// The finding about ports that do not hold their planned key although nothing is under way.
    pub(super) fn finding_of_m_keys(&self) -> Option<Finding> {
        let behind = self.inventory.ports_behind().iter().copied();
        let behind: Vec<PortKey> = behind
            .filter(|&port| !self.inventory.is_locked(port))
            .collect();
        if behind.is_empty() || self.role != Role::Master || !self.stage.is_idle() {
            return None;
        }
        let names: Vec<String> = behind
            .iter()
            .take(SHOWN)
            .map(|port| format!("{} port {}", self.name(port.node), port.port))
            .collect();
        let more = match behind.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text = format!(
            "{} do not hold their M_Key: {}{more}; those that hold an earlier one are managed with that, and get the new one when they \
             answer and take it; keep the secret of the earlier keys until this ends",
            match behind.len() {
                1 => "1 port".to_owned(),
                ports => format!("{ports} ports"),
            },
            names.join(", "),
        );
        let kind = FindingKind::MKeyBehind;
        Some(Finding::new(kind, Subject::Subnet, Severity::Warning, text))
    }
}
