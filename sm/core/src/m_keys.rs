//! Rotation of the M_Keys of ports, if each port has its own.
//!
//! A rotation changes the policy. The difference then finds that every port holds another key than
//! planned, and the push writes PortInfo port by port, each with the key that the port holds. Until
//! its Set is acknowledged, requests to a port use the old key and the new one in turn, so that it
//! can be reached at every moment. The store gets the new generation before the first Set is sent.
//!
//! At protection levels 2 and 3, a port counts each Get with another key as a violation, and a
//! standby reads the whole subnet with the keys that it knows. So a master that shares its store
//! first announces a rotation there, as a push that has begun, and waits for [`NOTICE`]. A standby
//! then ends its reading, and reads again with the new keys once the push has ended.

use std::sync::Arc;
use std::time::Duration;

use rsm_config::m_keys::Generations;
use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_model::expected::Expected;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_state::{MKeyStatus, Role, Ticket};
use rsm_store::replica::{BEAT, FOLLOW_PLAN};

use super::Core;
use super::mastership::epoch::Holding;
use super::mastership::news::AnnouncedRotation;

/// Number of ports that a finding names.
const SHOWN: usize = 5;

/// Time for an announcement to reach the store and a standby, and for the Gets under way.
const WAY: Duration = Duration::from_millis(900);

/// Time between the announcement of a rotation in the store and its first Set. A standby reads the
/// epoch every [`BEAT`], and follows the store at most every [`FOLLOW_PLAN`].
const NOTICE: Duration = BEAT.saturating_add(FOLLOW_PLAN).saturating_add(WAY);

impl Core {
    /// The generations in use. They are part of the policy, to which a reload of the configuration
    /// adds them again.
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

    /// The generations to store: those in use, or those of a rotation that is about to begin.
    pub(super) fn stored_generations(&self) -> Generations {
        let announced = self.epoch.news.rotation();
        let announced = announced.map(|rotation| rotation.generations);
        self.generations().later(announced.unwrap_or_default())
    }

    fn has_derived_keys(&self) -> bool {
        self.config.policy.ports.m_keys.secret().is_some()
    }

    /// Whether ports require the key for Gets as well, and each may have its own.
    fn guards_gets(&self) -> bool {
        let ports = &self.config.policy.ports;
        ports.m_key_protect > 1 && !ports.m_keys.is_uniform()
    }

    /// Rotates the keys of all ports. Refuses while ports hold keys of the former rotation, unless
    /// the operator insists (`forced`).
    pub(super) fn rotate_m_keys(&mut self, forced: bool, ticket: Ticket, now: Time) {
        if let Some(rotation) = self.epoch.news.rotation_mut() {
            rotation.tickets.push(ticket);
            return;
        }
        let behind = self.inventory.ports_behind().len();
        let reason = if !self.has_derived_keys() {
            "ports have no keys of their own to rotate: set sm.m_keys = \"per-port\" and sm.m_key_secret_file".to_owned()
        } else if behind > 0 && !forced {
            format!(
                "{behind} ports do not hold their key of the rotation before yet (`rsmctl findings`); repeat with --force to go on without them: \
                 they are found by their old keys later"
            )
        } else {
            let may_be_followed = matches!(self.epoch.holding, Holding::Held(_))
                && !self.epoch.is_silent
                && self.guards_gets();
            let rotation = AnnouncedRotation {
                generations: self.generations().rotated(),
                due: now + NOTICE,
                tickets: vec![ticket],
            };
            if may_be_followed {
                self.epoch.news.announce(rotation);
                self.tell_rotation();
            } else {
                self.begin_rotation(rotation);
            }
            return;
        };
        self.outbox.decline(ticket, reason);
    }

    /// Handles that the issuer of `ticket` no longer waits for a rotation.
    pub(super) fn withdraw_rotation(&mut self, ticket: Ticket) {
        if let Some(rotation) = self.epoch.news.rotation_mut() {
            rotation.tickets.retain(|&waiting| waiting != ticket);
        }
    }

    /// Begins the announced rotation, if it is due.
    pub(super) fn mind_rotation(&mut self, now: Time) {
        let Some(rotation) = self.epoch.news.take_rotation(now) else {
            return;
        };
        if self.election.role == Role::Master {
            return self.begin_rotation(rotation);
        }
        let reason = "another subnet manager is master now";
        for ticket in rotation.tickets {
            self.outbox.decline(ticket, reason.to_owned());
        }
    }

    fn begin_rotation(&mut self, rotation: AnnouncedRotation) {
        let later = self.generations().later(rotation.generations);
        self.set_generations(later);
        self.work.plan_again("the M_Keys of all ports are rotated");
        for ticket in rotation.tickets {
            self.work.promise(ticket);
        }
    }

    /// Gives switches keys that the former master, which may wake up, does not know: its Sets then
    /// change no forwarding table.
    pub(super) fn fence_switches(&mut self) {
        if self.has_derived_keys() {
            self.set_generations(self.generations().fenced());
            self.work
                .plan_again("switches get M_Keys that the manager before does not know");
        }
    }

    /// Continues with the later of the own generations and those of another manager.
    pub(super) fn adopt_generations(&mut self, others: Generations) {
        let later = self.generations().later(others);
        if later != self.generations() {
            self.set_generations(later);
            self.inventory.distrust_m_keys();
            if self.election.role == Role::Master {
                self.work
                    .plan_again("another manager had rotated the M_Keys of ports");
            }
        }
    }

    /// Handles the keys that the holder of the epoch has stored; `is_pushing` says whether it is
    /// writing hardware. Until the end of a push that changes keys, this manager does not know
    /// which ports have the new ones, and reads nothing.
    pub(super) fn on_stored_keys(&mut self, stored: Generations, is_pushing: bool, now: Time) {
        if self.epoch.has_own_state() {
            return;
        }
        let before = self.generations();
        self.adopt_generations(stored);
        let is_standby = matches!(self.election.role, Role::Standby { .. });
        let is_news = self.generations() != before && is_standby && self.guards_gets();
        self.standby.follower.is_pushing = is_pushing;
        self.standby.follower.keys_change =
            is_pushing && (self.standby.follower.keys_change || is_news);
        if self.standby.follower.keys_change && self.standby.follower.is_reading() {
            self.drop_stage();
        }
        self.follow_master(now);
    }

    /// Handles the cables that the holder of the epoch has stored. Asks again behind ports whose
    /// neighbour did not answer without its key, if the key is known now.
    pub(super) fn on_stored_cabling(&mut self, cabling: Arc<Expected>) {
        if self.epoch.has_own_state() {
            return;
        }
        self.inventory.stored_cabling = cabling;
        self.look_behind_guarded_ports();
    }

    /// Sweeps once more, if ports behind which nothing answered have a known neighbour now. Returns
    /// whether it does.
    pub(super) fn look_behind_guarded_ports(&mut self) -> bool {
        let silent: Vec<PortKey> = self.inventory.faults.to_ask_again().collect();
        let is_known = |&port: &PortKey| {
            let stored = self.inventory.stored_cabling.port(port);
            stored.is_some() || self.missing.expected().port(port).is_some()
        };
        let finds_more = self.guards_gets() && silent.iter().any(is_known);
        if finds_more {
            self.work
                .sweep_everything(true, "the shared store shows which ports are behind cables");
            self.work.go_on();
        }
        finds_more
    }

    /// Whether only the own node answers, although the own link is up and ports require their keys:
    /// this manager knows none of the keys. As the master, it would write only its own port, as if
    /// there were no subnet behind it.
    pub(super) fn is_shut_out(&self) -> bool {
        self.guards_gets() && self.inventory.is_alone_behind_a_link()
    }

    /// Whether [`Core::is_shut_out`] may hold at the end of the sweep under way.
    pub(super) fn may_be_shut_out(&self) -> bool {
        self.guards_gets() && self.inventory.len() == 1
    }

    /// Tries again after a pause, in which the store or an operator may provide the keys.
    pub(super) fn wait_for_keys(&mut self, now: Time) {
        self.meter.discard();
        if matches!(self.election.role, Role::Discovering) {
            self.work
                .sweep_everything(false, "no port behind the own one answered");
            self.work.postpone(now);
        }
        self.publish(now);
    }

    /// Continues with the generations that ports show: another manager has rotated keys, and this
    /// one's store does not know it.
    pub(super) fn follow_generations(&mut self) {
        if let Some(ahead) = self.inventory.generations_ahead() {
            self.adopt_generations(ahead);
        }
    }

    /// State of the keys, for readers.
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

    /// The finding about ports that do not hold their planned key although nothing is under way;
    /// `None` if there are none.
    pub(super) fn finding_of_m_keys(&self) -> Option<Finding> {
        let behind = self.inventory.ports_behind().iter().copied();
        let behind: Vec<PortKey> = behind
            .filter(|&port| !self.inventory.is_locked(port))
            .collect();
        if behind.is_empty() || self.election.role != Role::Master || !self.stage.is_idle() {
            return None;
        }
        let names: Vec<String> = behind
            .iter()
            .take(SHOWN)
            .map(|&port| self.inventory.port_name(port))
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
