//! Supplies facts about this host for the report.
#![allow(unsafe_code)] // adjtimex(2) is a C function.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use rsm_view::publish::{HostFact, HostFacts};

use super::access::Access;

/// Facts in the report about the host that runs rsm.
pub(super) struct ThisHost {
    /// Folder of the store; `None` if no state is kept.
    state_dir: Option<PathBuf>,
    /// Whether several managers share the store.
    shares_store: bool,
    access: Access,
}

impl ThisHost {
    /// Facts about a host whose state is in `state_dir`.
    pub(super) fn new(state_dir: Option<PathBuf>, shares_store: bool, access: Access) -> ThisHost {
        ThisHost {
            state_dir,
            shares_store,
            access,
        }
    }
}

impl HostFacts for ThisHost {
    fn store(&self) -> HostFact {
        match (&self.state_dir, self.shares_store) {
            (None, _) => HostFact::Doubtful(
                "nothing is kept: LIDs, drains and groups are learned anew after a restart"
                    .to_owned(),
            ),
            (Some(dir), true) => HostFact::Good(format!(
                "kept in {} and in the store that managers share",
                dir.display()
            )),
            (Some(dir), false) => HostFact::Good(format!("kept in {}", dir.display())),
        }
    }

    fn clock(&self) -> HostFact {
        match is_clock_synchronized() {
            Some(true) => HostFact::Good("the clock is synchronized".to_owned()),
            Some(false) => HostFact::Doubtful(
                "no time service keeps the clock in step: times of events and of managers drift \
                 apart, and tokens end at the wrong time"
                    .to_owned(),
            ),
            None => {
                HostFact::NotKnown("the kernel does not tell the state of its clock".to_owned())
            }
        }
    }

    fn certificates(&self) -> HostFact {
        if self.access.tls().is_none() {
            let text = "the API has no certificate: it serves over TCP without TLS, if at all";
            return HostFact::NotKnown(text.to_owned());
        }
        match self.access.certificate_expiry() {
            None => HostFact::Doubtful("the certificate of the API cannot be used".to_owned()),
            Some(ends) => {
                let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
                let left = u64::try_from(ends).unwrap_or(0).saturating_sub(now);
                let days = left / (24 * 3600);
                HostFact::Good(format!("the certificate of the API ends in {days} days"))
            }
        }
    }
}

/// Whether a time service adjusts the kernel's clock; `None` if the kernel does not tell.
pub(super) fn is_clock_synchronized() -> Option<bool> {
    // SAFETY: all fields are numbers, and zero is a valid number.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: with `modes` 0 the kernel only writes into `state`, which outlives the call.
    match unsafe { libc::adjtimex(&raw mut state) } {
        -1 => None,
        result => Some(result != libc::TIME_ERROR),
    }
}
