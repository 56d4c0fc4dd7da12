//! Registrations that the former master acknowledged to hosts, and that its successor lacks.
//!
//! A master answers a host once the disk of its own machine has the registration; the shared store
//! follows later. A master that cannot reach that store continues, so that registrations
//! acknowledged since are lost if it dies. The successor sees that by two signs: the master
//! answered in the fabric for longer than it showed signs of life in the store, or the store does
//! not answer the successor either. All hosts are then asked to register again (ClientReregister),
//! once they get answers.

use std::time::Duration;

use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

/// Lag of a master's last sign of life in the store behind that in the fabric, from which on the
/// store may lack acknowledged registrations. Signs of life come four times per second, and half as
/// often from an etcd whose disk takes half a second for a write.
const STORE_LAG: Duration = Duration::from_secs(2);

/// Time that the finding stays: hosts register again within seconds, and those that ignore
/// ClientReregister need an operator.
const SHOWN_FOR: Duration = Duration::from_secs(600);

/// Registrations that this manager knows to be lost.
#[derive(Debug, Default)]
pub(crate) struct LostRegistrations {
    /// End of the finding, and why registrations are missing.
    shown: Option<(Time, String)>,
    /// Whether hosts must still be asked to register again.
    is_due: bool,
}

impl LostRegistrations {
    /// Time at which [`LostRegistrations::release`] has something to do; `None` if never.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.shown.as_ref().map(|&(until, _)| until)
    }

    /// Ends the finding at its time. Returns whether it ended.
    pub(crate) fn release(&mut self, now: Time) -> bool {
        self.shown.take_if(|(until, _)| *until <= now).is_some()
    }

    /// Records a takeover from a master that has been `silent` in the fabric for this time, and
    /// whose last sign of life in the store was seen `unseen` ago.
    pub(crate) fn note_life_without_store(
        &mut self,
        silent: Duration,
        unseen: Duration,
        now: Time,
    ) {
        let lag = unseen.saturating_sub(silent);
        if lag >= STORE_LAG {
            let text = format!(
                "it did not reach the shared store in the last {} seconds of its life",
                lag.as_secs()
            );
            self.note(text, now);
        }
    }

    /// Records a takeover without the store, whose last known state may lack what the master
    /// acknowledged since.
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

    /// Whether all hosts must register again, because registrations are missing; true only once.
    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// The finding of a master about missing registrations; `None` if there are none.
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
