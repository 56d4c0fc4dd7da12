//! Decides which other managers count and which manager is master after a sweep, and reports
//! findings about them.
//!
//! A manager with another SM_Key does not count: it is not offered the subnet, its orders are
//! refused, and this manager does not stand by for it, even if it is the master for all hosts. If
//! this manager has an SM_Key, an SM_Key of 0 counts as another key. The exception is a manager
//! that shares this one's store, which hides its key from requests without its M_Key. OpenSM shows
//! its SM_Key in every answer. Two masters undo each other's work, which is a finding until one of
//! them ends.

use std::collections::BTreeMap;

use rsm_hardware::sweep::SweepScope;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, PortKey};
use rsm_mad::Time;
use rsm_mad::wire::attr::SmState;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_state::{Identity, Other, Role};

use crate::Mastership;
use crate::action::{Action, PassRequest};
use crate::epoch::Holding;
use crate::lost_registrations::LostRegistrations;
use crate::role::{self, ElectionOutcome};
use crate::view::View;

impl Mastership {
    /// The other subnet managers that count in the election: managers with this manager's SM_Key
    /// that the operator allows. Empty if the settings make this manager ignore all others.
    pub(crate) fn other_managers(&self, inventory: &Inventory) -> Vec<Other> {
        if self.policy.ignores_others {
            return Vec::new();
        }
        let mut others = role::others(inventory);
        others.retain(|other| self.counts(other.guid, other.sm_key));
        others
    }

    /// Whether the manager with this GUID and SM_Key counts: the operator allows it, and it shows
    /// this manager's SM_Key. A manager that shares this manager's store may also show no SM_Key:
    /// it hides the key from requests without its M_Key.
    pub(crate) fn counts(&self, manager: Guid, sm_key: u64) -> bool {
        let shares_store = self.epoch.configurations.contains_key(&manager);
        let has_key = sm_key == self.policy.identity.sm_key || sm_key == 0 && shares_store;
        has_key && self.allows(manager)
    }

    /// Ports of active managers that do not count in the election.
    pub fn foreign_managers(&self, inventory: &Inventory) -> Vec<PortKey> {
        let mut others = role::others(inventory);
        others.retain(|other| {
            other.state != SmState::NotActive && !self.counts(other.guid, other.sm_key)
        });
        others.into_iter().map(|other| other.port).collect()
    }

    /// The known ports that sent refused orders, each with the time at which its finding ends.
    pub fn senders_of_orders(&self) -> impl Iterator<Item = (PortKey, Time)> {
        self.election.orders.senders()
    }

    /// Whether the operator allows the manager with this GUID.
    fn allows(&self, manager: Guid) -> bool {
        let allowed = &self.policy.allowed_managers;
        allowed.is_empty() || allowed.contains(&manager)
    }

    /// Priority and SM_Key that this manager shows in its present role.
    pub fn identity(&self) -> Identity {
        let mut identity = self.policy.identity;
        if self.is_master() {
            identity.priority = identity.priority.max(self.policy.master_priority);
        }
        identity
    }

    /// The outcome of an election among the managers found so far; `predecessor` has just handed
    /// over.
    pub(crate) fn elect(
        &self,
        inventory: &Inventory,
        predecessor: Option<Guid>,
    ) -> ElectionOutcome {
        let others = self.other_managers(inventory);
        let own = inventory.own_guid();
        role::decide(
            &self.election.role,
            &others,
            self.identity(),
            own,
            predecessor,
        )
    }

    /// Whether this manager would be master if the sweep under way ended now; false while unknown
    /// M_Keys may hide the whole subnet.
    pub fn would_be_master(&self, view: &View<'_>) -> bool {
        !view.may_be_shut_out()
            && view.inventory.own_info().is_some()
            && self.elect(view.inventory, self.election.predecessor)
                == ElectionOutcome::Be(Role::Master)
    }

    /// Runs the election after a sweep, and changes the role accordingly. Returns whether this
    /// manager continues the pass as master.
    pub fn run_election(&mut self, scope: SweepScope, view: &mut View<'_>, now: Time) -> bool {
        if self.election.role == Role::NotActive
            || self.election.role == Role::Discovering && !matches!(scope, SweepScope::Full { .. })
        {
            // An order of another manager changed the role during the sweep, and has already queued
            // the work that follows.
            self.discard_pass();
            return false;
        }
        if std::mem::take(&mut self.election.starts_inactive) {
            self.discard_pass();
            self.election.role = Role::NotActive;
            self.publish();
            return false;
        }
        if view.is_shut_out() && !self.is_master() {
            self.wait_for_keys();
            return false;
        }
        let predecessor = self.election.predecessor.take();
        let verdict = match self.living_holder(scope, view.inventory, predecessor) {
            Some(master) => ElectionOutcome::Be(Role::Standby { master }),
            None => self.elect(view.inventory, predecessor),
        };
        match (&self.election.role, verdict) {
            (_, ElectionOutcome::Be(Role::Standby { master })) => {
                self.discard_pass();
                self.send_priority_trap(&master, view);
                self.stand_by(master, now);
                false
            }
            (Role::Standby { .. }, ElectionOutcome::Be(Role::Master)) => {
                self.replace_silent_master(view, now);
                false
            }
            (_, ElectionOutcome::Be(Role::Master)) if !self.epoch.permits() => {
                // Before a manager becomes master at the end of a sweep, the sweep normally waits
                // for the epoch. This sweep did not wait: another manager existed or held the
                // epoch.
                self.discard_pass();
                self.election.role = Role::Discovering;
                if self.epoch.is_free() {
                    self.claim_epoch(predecessor, view, now);
                    self.sweep_everything(false, "no other subnet manager is left");
                }
                false
            }
            (_, ElectionOutcome::Be(role)) => {
                self.election.role = role;
                let others = self.other_managers(view.inventory);
                self.warn_rivals(others, predecessor, view);
                true
            }
            (_, ElectionOutcome::HandOver(successor)) => {
                let is_offered = self.hand_over(successor, view, now);
                if is_offered {
                    self.discard_pass();
                }
                !is_offered
            }
        }
    }

    /// The master that holds the epoch, if this manager became master in its place without the
    /// store, and a sweep of the whole subnet has found that master alive; else `None`. This
    /// manager then yields, whichever has precedence, because only that master's epoch permits it
    /// to write.
    fn living_holder(
        &self,
        scope: SweepScope,
        inventory: &Inventory,
        predecessor: Option<Guid>,
    ) -> Option<Other> {
        let is_without_store = self.is_master() && self.epoch.holding == Holding::Without(None);
        if !is_without_store || !matches!(scope, SweepScope::Full { .. }) {
            return None;
        }
        let holder = self
            .former_holder()
            .filter(|&one| Some(one) != predecessor)?;
        let mut others = self.other_managers(inventory).into_iter();
        others.find(|other| other.is_master() && other.guid == holder)
    }

    /// Takes over from the master that a poll found silent, or polls it once more.
    fn replace_silent_master(&mut self, view: &mut View<'_>, now: Time) {
        self.discard_pass();
        self.election.silent_polls = self.election.silent_polls.saturating_add(1);
        if self.election.silent_polls < self.policy.poll_limit {
            self.poll_master_again(now);
        } else if self.epoch.permits() {
            self.begin_as_successor(view, now);
        } else {
            self.claim_over_master(true, view, now);
        }
    }

    /// Schedules the next poll of the master.
    fn poll_master_again(&mut self, now: Time) {
        let next = now + self.policy.standby_poll;
        self.queue_action(Action::Work(PassRequest::MasterAt(next)));
    }

    /// Ends the pass, and sweeps again after a pause, in which the store or an operator may provide
    /// the M_Keys.
    fn wait_for_keys(&mut self) {
        self.discard_pass();
        if self.election.role == Role::Discovering {
            self.sweep_everything(false, "no port behind the own one answered");
            self.queue_action(Action::Work(PassRequest::Postpone));
        }
        self.publish();
    }

    /// Stands by for another master from now on.
    pub(crate) fn stand_by(&mut self, master: Other, now: Time) {
        let role = Role::Standby { master };
        let is_news = self.election.role != role;
        self.release_epoch();
        // Hosts register with the other manager.
        self.epoch.lost = LostRegistrations::default();
        self.election.role = role;
        self.queue_action(Action::AbandonCommands(
            "another subnet manager is master now",
        ));
        self.queue_action(Action::KeepLids);
        self.queue_action(Action::ForgetForeignWrites);
        self.election.orders.forget_orders_to_master();
        self.election.silent_polls = 0;
        self.poll_master_again(now);
        self.begin_peer_polls(now);
        if is_news {
            self.publish();
        }
    }

    /// Sends trap 144 to the other masters, so that they hand over, and records these masters for
    /// the findings. `predecessor` has just handed over and is no rival.
    pub(crate) fn warn_rivals(
        &mut self,
        others: Vec<Other>,
        predecessor: Option<Guid>,
        view: &View<'_>,
    ) {
        let mut rivals = others;
        rivals.retain(|other| other.is_master() && Some(other.guid) != predecessor);
        for rival in &rivals {
            self.send_priority_trap(rival, view);
        }
        self.election.rivals = rivals;
    }

    /// Findings about other managers, their orders, settings and registrations, and about the
    /// epoch.
    pub fn findings(&self, inventory: &Inventory) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.findings_of_masters().collect();
        let place = |port| {
            format!(
                "{} {}",
                inventory.hardware.port_name(port),
                inventory.hardware.cable_of(port)
            )
        };
        findings.extend(self.election.orders.findings(place));
        findings.extend(self.epoch.finding());
        if self.is_master() {
            findings.extend(self.epoch.lost.finding());
        }
        findings.extend(self.findings_of_configurations(inventory));
        findings.extend(self.findings_of_foreign_managers(inventory));
        findings.extend(self.election.silent.findings(inventory));
        findings
    }

    /// Findings about the master of this standby, or about masters that compete with this master.
    fn findings_of_masters(&self) -> impl Iterator<Item = Finding> + '_ {
        let master = match &self.election.role {
            Role::Standby { master } => Some(master),
            _ => None,
        };
        let master = master.map(|master| {
            let text = format!(
                "{} ({}, priority {}) is master; this one stands by and sets nothing",
                master.name, master.guid, master.priority
            );
            let subject = Subject::Node(master.port.node);
            Finding::new(FindingKind::OtherMaster, subject, Severity::Info, text)
        });
        let rivals = self.election.rivals.iter().filter(|_| self.is_master());
        let rivals = rivals.map(|rival| {
            let text = format!(
                "{} ({}, priority {}) is master, too: both write LIDs and routes until it hands over; this one has precedence \
                 and has sent it trap 144; stop the other manager if this stays",
                rival.name, rival.guid, rival.priority
            );
            let subject = Subject::Node(rival.port.node);
            Finding::new(FindingKind::OtherMaster, subject, Severity::Error, text)
        });
        master.into_iter().chain(rivals)
    }

    /// Findings about visible managers that do not count, because of their GUID or SM_Key.
    fn findings_of_foreign_managers<'a>(
        &'a self,
        inventory: &'a Inventory,
    ) -> impl Iterator<Item = Finding> + 'a {
        let others = role::others(inventory).into_iter();
        let foreign = others.filter(|other| !self.counts(other.guid, other.sm_key));
        foreign.map(|other| {
            let severity = match other.state {
                SmState::Master => Severity::Error,
                _ => Severity::Warning,
            };
            let subject = Subject::Node(other.port.node);
            let text = self.text_of_foreign_manager(&other, inventory);
            Finding::new(FindingKind::ManagerNotAllowed, subject, severity, text)
        })
    }

    /// Text of the finding that `other` does not count: the reason, the consequence, and the
    /// remedy. The text never shows a key.
    fn text_of_foreign_manager(&self, other: &Other, inventory: &Inventory) -> String {
        let (why, remedy) = if !self.allows(other.guid) {
            (
                "that sm.allowed_sm_guids does not name",
                "add its GUID there",
            )
        } else if other.sm_key == 0 {
            (
                "that shows no SM_Key",
                "give both managers the same sm_key, and the same M_Key where ports have one",
            )
        } else {
            (
                "with another SM_Key than sm.sm_key",
                "give both managers the same sm_key",
            )
        };
        let harm = match other.state {
            SmState::Master => {
                "it is master, too: both write LIDs and routes, and undo each other's work"
            }
            _ => "rsm hands it nothing, follows no order of it, and does not stand by for it",
        };
        format!(
            "{} ({}, LID {}, priority {}), {}, runs a subnet manager {why}: {harm}; {remedy}, stop \
             that manager, or unplug this cable",
            other.name,
            other.guid,
            other.lid,
            other.priority,
            inventory.hardware.cable_of(other.port)
        )
    }

    /// Findings about managers of this subnet whose settings differ from this manager's.
    fn findings_of_configurations<'a>(
        &'a self,
        inventory: &Inventory,
    ) -> impl Iterator<Item = Finding> + 'a {
        let others = role::others(inventory).into_iter();
        others.filter_map(|other| {
            let theirs = self.epoch.configurations.get(&other.guid)?;
            let differing = differing_sections(&self.policy.checksums, theirs);
            if differing.is_empty() {
                return None;
            }
            let text = format!(
                "the settings of the manager at {} ({}) differ from those of this one in [{}]: a takeover changes the subnet \
                 accordingly; give both the same configuration and the same files that it names",
                other.name,
                other.guid,
                differing.join("], [")
            );
            let subject = Subject::Node(other.port.node);
            let kind = FindingKind::ConfigDiffers;
            Some(Finding::new(kind, subject, Severity::Warning, text))
        })
    }
}

/// Names of the sections of the configuration whose checksums differ in two texts of the form
/// `sm=0123… sweep=…`. Ignores a section that only one text has, which comes from another version.
fn differing_sections(own: &str, other: &str) -> Vec<String> {
    let sections = |text: &str| -> BTreeMap<String, String> {
        let words = text.split_whitespace();
        words
            .filter_map(|word| word.split_once('='))
            .map(|(section, sum)| (section.to_owned(), sum.to_owned()))
            .collect()
    };
    let other = sections(other);
    let differs = |section: &str, sum: &str| other.get(section).is_some_and(|theirs| theirs != sum);
    let own = sections(own).into_iter();
    own.filter(|(section, sum)| differs(section, sum))
        .map(|(section, _)| section)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_with_different_checksums_differ_and_sections_of_one_side_are_ignored() {
        let own = "sm=1 sweep=2 new=3";
        assert_eq!(differing_sections(own, "sm=1 sweep=2 old=9"), [""; 0]);
        assert_eq!(differing_sections(own, "sm=7 sweep=8"), ["sm", "sweep"]);
        assert_eq!(differing_sections(own, "\0 = sweep == ="), [""; 0]);
    }
}
