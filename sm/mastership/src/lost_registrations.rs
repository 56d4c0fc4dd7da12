//! Registrations that the former master acknowledged to hosts, and that its successor lacks.
//!
//! A master acknowledges a registration once it is on the disk of the master's machine; the shared
//! store gets the registration later. A master that cannot reach the shared store continues. If it
//! then dies, the registrations that it acknowledged in that time are lost. The successor has two
//! signs of a loss: the master answered in the fabric for longer than it showed signs of life in
//! the store, or the store does not answer the successor either. The successor then asks all hosts
//! to register again (ClientReregister), once its own SA answers.

use std::time::Duration;

use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

/// The store may lack acknowledged registrations if a master's last sign of life in the store is
/// older than its last answer in the fabric by this time. Signs of life come four times per second,
/// and half as often from an etcd whose disk takes half a second for a write.
const STORE_LAG: Duration = Duration::from_secs(2);

/// Time for which the finding is shown. Hosts register again within seconds, but operators must see
/// that hosts which ignore ClientReregister need help.
const SHOWN_FOR: Duration = Duration::from_secs(600);

/// Registrations that this manager knows to be lost.
#[derive(Debug, Default)]
pub(crate) struct LostRegistrations {
    /// Time at which the finding ends, and why registrations are missing; `None` without a finding.
    shown: Option<(Time, String)>,
    /// Whether hosts must still be asked to register again.
    is_due: bool,
}

impl LostRegistrations {
    /// Time at which [`LostRegistrations::release`] has something to do; `None` if never.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.shown.as_ref().map(|&(until, _)| until)
    }

    /// Ends the finding if its time is over at `now`. Returns whether it ends.
    pub(crate) fn release(&mut self, now: Time) -> bool {
        self.shown.take_if(|(until, _)| *until <= now).is_some()
    }

    /// Records a takeover. `silent` is the time since the master's last answer in the fabric,
    /// `unseen` the time since its last sign of life in the store.
    pub(crate) fn record_master_without_store(
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
            self.begin(text, now);
        }
    }

    /// Records a takeover while the store does not answer: the last state that this manager read
    /// from the store may lack registrations that the master acknowledged later.
    pub(crate) fn record_takeover_without_store(&mut self, now: Time) {
        let text = "the shared store does not answer this manager, which goes on with the last state read from it";
        self.begin(text.to_owned(), now);
    }

    /// Records that this manager was master without reaching the store while another manager held a
    /// later epoch: its own registrations of that time are in no store.
    pub(crate) fn record_epoch_missed(&mut self, now: Time) {
        let text = "this manager did not reach the shared store while another one held it";
        self.begin(text.to_owned(), now);
    }

    /// Begins the finding, and makes all hosts register again.
    fn begin(&mut self, why: String, now: Time) {
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
            "registrations that the master acknowledged before may be missing here: {why}; all hosts were asked to register again \
             (ClientReregister), and traffic goes on; restart programs whose service or subscription is missing after that \
             (`rsmctl services`, `rsmctl subscriptions`)"
        );
        let kind = FindingKind::RegistrationsLost;
        Some(Finding::new(kind, Subject::Subnet, Severity::Warning, text))
    }
}
