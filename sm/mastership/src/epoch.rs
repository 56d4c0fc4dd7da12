//! The epoch of a store that several managers share: only the holder of the epoch writes hardware.
//!
//! ```text
//!        a sweep finds no other master             granted
//!  Free ──────────────────────────────▶ Claimed ────────────▶ Held
//!   ▲ ▲                                   │  │ store away       │
//!   │ └──── a second later ─── Refused ◀──┘  ▼                  │ deposed, or stands by
//!   │            after five: ────▶ Without ─────────────────────▶ Free
//!   └─────────────────────────────────────── stands by
//! ```
//!
//! The election by SMInfo decides which manager is master. The epoch ensures that only one manager
//! writes. A store that does not answer never stops the fabric: the manager is then master without
//! the epoch, like a manager without a shared store. A manager also becomes master without the
//! epoch if its claims have been refused for [`REFUSED_FOR`] and it finds no other master: the
//! fabric is cut in two, and each part needs a manager.
//!
//! `may_set` requires the epoch before each push.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::lids::LidRights;
use rsm_store::Epoch;

use crate::lost_registrations::LostRegistrations;

/// Time from a refusal to the next claim.
pub(crate) const CLAIM_PAUSE: Duration = Duration::from_secs(1);

/// Time for which claims must be refused, without another master in the fabric, before this manager
/// becomes master without the epoch. A dead manager's epoch ends sooner
/// ([`STALE`](rsm_store::replica::STALE)).
pub(crate) const REFUSED_FOR: Duration = Duration::from_secs(5);

/// Time limit for the answer to a claim; the answer includes the state of a whole subnet.
pub(crate) const CLAIM_LIMIT: Duration = Duration::from_secs(15);

/// Time limit for the store to answer whether a master that was paused still holds the epoch.
pub(crate) const CHECK_LIMIT: Duration = Duration::from_secs(1);

/// Relation of this manager to the epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Holding {
    /// No store is shared.
    #[default]
    Unshared,
    /// This manager neither holds nor claims the epoch.
    Free,
    /// A claim is open. This manager waits for the answer until this time.
    Claimed(Time),
    /// Another manager holds the epoch and is alive. The next claim is due at this time.
    Refused(Time),
    /// This manager holds the epoch.
    Held(Epoch),
    /// This manager is master without the epoch. `Some` is the time of the next claim, if another
    /// manager holds the epoch and is alive. `None`: the store does not answer, and the thread of
    /// the store repeats the claim.
    Without(Option<Time>),
}

/// State of the epoch, and its past.
#[derive(Debug, Default)]
pub(crate) struct EpochState {
    pub(crate) holding: Holding,
    /// The last epoch of this manager that the store reported as ended; `None` if there was none.
    pub(crate) ended: Option<Epoch>,
    /// Epoch of the holder at the last refusal, and the time of the first of the successive
    /// refusals; `None` if the last claim was not refused.
    pub(crate) refused: Option<(Epoch, Time)>,
    /// Last epoch that this manager saw another manager hold in the store.
    pub(crate) seen: Option<Epoch>,
    /// Checksums of the settings of managers that share the store, by their GUID.
    pub(crate) configurations: BTreeMap<Guid, String>,
    /// Whether the store does not answer.
    pub(crate) is_silent: bool,
    /// Registrations that the former master acknowledged and this manager lacks.
    pub(crate) lost: LostRegistrations,
    /// While another manager may assign LIDs as well: the block of LIDs that this manager assigns,
    /// and the ports that got new LIDs in that time.
    pub(crate) partitioned: LidRights,
}

impl EpochState {
    /// State at the start; `is_shared` says whether several managers share the store.
    pub(crate) fn new(is_shared: bool) -> EpochState {
        EpochState {
            holding: if is_shared {
                Holding::Free
            } else {
                Holding::Unshared
            },
            ..EpochState::default()
        }
    }

    /// Whether the epoch permits a master to write hardware.
    pub(crate) fn permits(&self) -> bool {
        match self.holding {
            Holding::Unshared | Holding::Held(_) | Holding::Without(_) => true,
            Holding::Free | Holding::Claimed(_) | Holding::Refused(_) => false,
        }
    }

    /// Whether this manager neither holds nor claims the epoch of a shared store.
    pub(crate) fn is_free(&self) -> bool {
        self.holding == Holding::Free
    }

    /// Whether this manager holds the epoch.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.holding, Holding::Held(_))
    }

    /// Whether this manager holds the epoch, or waits for the answer to its claim.
    pub(crate) fn is_claimed_or_held(&self) -> bool {
        matches!(self.holding, Holding::Claimed(_) | Holding::Held(_))
    }

    /// Requires a new claim before this manager is master again. Called if a handover ends the
    /// inquiry before the store has answered whether this manager still holds the epoch.
    pub(crate) fn require_new_claim(&mut self) {
        if self.is_held() {
            self.holding = Holding::Free;
        }
    }

    /// Time at which a claim must be repeated or given up; `None` if never.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match self.holding {
            Holding::Claimed(at) | Holding::Refused(at) => Some(at),
            Holding::Without(at) => at,
            Holding::Unshared | Holding::Free | Holding::Held(_) => None,
        }
    }

    /// The finding about a manager that holds the epoch and cannot be reached; `None` if there is
    /// none.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let (by, _) = self.refused?;
        let (severity, effect) = match self.holding {
            Holding::Without(_) => (
                Severity::Error,
                format!(
                    "this one manages the part of the fabric that it reaches, stores nothing in the shared store, and gives new \
                     ports LIDs {}, so that none moves when the parts meet again",
                    match self.partitioned.block {
                        Some(block) => format!("from {block} on"),
                        None => "of a block of its own".to_owned(),
                    }
                ),
            ),
            _ => (
                Severity::Warning,
                "this one sets nothing until that manager has given no sign of life for three seconds, or for five seconds in all"
                    .to_owned(),
            ),
        };
        let text = format!(
            "the manager {} holds the shared store ({by}) and is alive, but is not visible in the fabric: {effect}; look for \
             cables that cut the fabric in two, or for a manager of another fabric with the same store.prefix and sm.subnet_prefix",
            by.holder
        );
        let kind = FindingKind::EpochHeld;
        Some(Finding::new(kind, Subject::Subnet, severity, text))
    }
}
