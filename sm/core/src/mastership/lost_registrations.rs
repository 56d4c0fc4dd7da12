//! Registrations that the master before acknowledged to hosts, and that its successor lacks.
//!
//! A master answers a host once the disk of its own machine has the registration; the shared store
//! follows. A master that cannot reach that store goes on, so that its death then costs what it
//! acknowledged since. The successor knows of this by two signs: the master answered in the fabric
//! for longer than it showed signs of life in the store, or the store does not answer the successor
//! either. All hosts are then asked to register again (ClientReregister), once they have answers.

use std::time::Duration;

use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_state::Role;

use crate::Core;

/// A master that lived so much longer in the fabric than in the store may have acknowledged what the
/// store does not have. Signs of life come four times a second, and half as often from an etcd whose
/// disk takes half a second for a write.
const APART: Duration = Duration::from_secs(2);

/// How long the finding stays: hosts register again within seconds, and those that do not heed
/// ClientReregister need an operator.
const SHOWN_FOR: Duration = Duration::from_secs(600);

/// Registrations that this manager knows to be lost.
#[derive(Debug, Default)]
pub(crate) struct LostRegistrations {
    /// Until when the finding is shown, and why registrations are missing.
    shown: Option<(Time, String)>,
    /// Hosts are still to be asked to register again.
    is_due: bool,
}

impl LostRegistrations {
    /// When [`Core::mind_lost_registrations`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.shown.as_ref().map(|&(until, _)| until)
    }
}

impl Core {
    /// Before a grant: whether the master before lived on without the store, in which its last sign
    /// of life was seen `unseen` ago.
    pub(crate) fn note_life_without_store(&mut self, is_other: bool, unseen: Duration, now: Time) {
        let is_standby = matches!(self.election.role, Role::Standby { .. });
        let silent = self.election.peer_polls.silent_for(now);
        let Some(silent) = silent.filter(|_| is_standby && is_other) else {
            // Without its answers in the fabric nothing is known of its last moments.
            return;
        };
        let apart = unseen.saturating_sub(silent);
        if apart >= APART {
            let text = format!(
                "it did not reach the shared store in the last {} seconds of its life",
                apart.as_secs()
            );
            self.note_lost(text, now);
        }
    }

    /// Before a takeover without the store: the state may lack what came to the master since it was
    /// last seen.
    pub(crate) fn note_takeover_without_store(&mut self, now: Time) {
        let follows_another = self.local_port().is_some_and(|info| {
            let master = info.master_sm_lid();
            master.is_unicast() && master != info.lid()
        });
        let is_standby = matches!(self.election.role, Role::Standby { .. });
        if is_standby || self.election.role == Role::Discovering && follows_another {
            let text = "the shared store does not answer this manager, which goes on with what that last showed";
            self.note_lost(text.to_owned(), now);
        }
        if !is_standby {
            self.ask_hosts_again();
        }
    }

    fn note_lost(&mut self, why: String, now: Time) {
        self.epoch.lost = LostRegistrations {
            shown: Some((now + SHOWN_FOR, why)),
            is_due: true,
        };
    }

    /// Asks all hosts to register again, if registrations are missing.
    pub(crate) fn ask_hosts_again(&mut self) {
        if std::mem::take(&mut self.epoch.lost.is_due) {
            self.writing.reregister_everybody();
        }
    }

    /// Ends the finding at its time.
    pub(crate) fn mind_lost_registrations(&mut self, now: Time) {
        if self.epoch.lost.deadline().is_some_and(|until| until <= now) {
            self.epoch.lost.shown = None;
            self.publish(now);
        }
    }

    /// The finding about registrations that are missing.
    pub(crate) fn finding_of_lost_registrations(&self) -> Option<Finding> {
        let (_, why) = self.epoch.lost.shown.as_ref()?;
        if self.election.role != Role::Master {
            return None;
        }
        let text = format!(
            "registrations that the manager before acknowledged may be missing here: {why}; all hosts were asked to register again \
             (ClientReregister), and traffic goes on; restart programs whose service or subscription is missing after that \
             (`rsmctl services`, `rsmctl subscriptions`)"
        );
        let kind = FindingKind::RegistrationsLost;
        Some(Finding::new(kind, Subject::Subnet, Severity::Warning, text))
    }
}
