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
    /// When [`LostRegistrations::release`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.shown.as_ref().map(|&(until, _)| until)
    }

    /// Ends the finding at its time. Returns whether it ends.
    pub(crate) fn release(&mut self, now: Time) -> bool {
        self.shown.take_if(|(until, _)| *until <= now).is_some()
    }

    /// A standby takes over from a master that answered in the fabric until it fell `silent` for so
    /// long, and whose last sign of life in the store was seen `unseen` ago.
    pub(crate) fn note_life_without_store(
        &mut self,
        silent: Duration,
        unseen: Duration,
        now: Time,
    ) {
        let apart = unseen.saturating_sub(silent);
        if apart >= APART {
            let text = format!(
                "it did not reach the shared store in the last {} seconds of its life",
                apart.as_secs()
            );
            self.note(text, now);
        }
    }

    /// A takeover begins without the store: the state may lack what came to the master since it was
    /// last seen.
    pub(crate) fn note_takeover_without_store(&mut self, now: Time) {
        let text = "the shared store does not answer this manager, which goes on with what that last showed";
        self.note(text.to_owned(), now);
    }

    fn note(&mut self, why: String, now: Time) {
        *self = LostRegistrations {
            shown: Some((now + SHOWN_FOR, why)),
            is_due: true,
        };
    }

    /// Whether all hosts are to register again, because registrations are missing; only once.
    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// The finding of a master about registrations that are missing.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let (_, why) = self.shown.as_ref()?;
        let text = format!(
            "registrations that the manager before acknowledged may be missing here: {why}; all hosts were asked to register again \
             (ClientReregister), and traffic goes on; restart programs whose service or subscription is missing after that \
             (`rsmctl services`, `rsmctl subscriptions`)"
        );
        let kind = FindingKind::RegistrationsLost;
        Some(Finding::new(kind, Subject::Subnet, Severity::Warning, text))
    }
}
