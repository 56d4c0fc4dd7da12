//! The unhealthy ports that the store keeps over a restart, so that the first plan of the next run
//! avoids the ports that were isolated.
//!
//! The stored end of an illness may be too early by at most a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;
use std::time::Duration;

use fnv::FnvHasher;
use rsm_config::HealthPolicy;
use rsm_ids::PortKey;
use rsm_mad::Time;

/// An unhealthy port, as the store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedIllness {
    /// Description of the errors.
    pub text: String,
    /// Largest ratio of a symptom to its limit.
    pub excess: f64,
    /// Set of symptoms, one bit each.
    pub symptoms: u32,
    /// Number of successive illnesses.
    pub times: u32,
    /// Time without errors after which the port is healthy again.
    pub quiet: Duration,
    /// Time at which the port is healthy again if no error occurs before.
    pub ends: Time,
}

/// All unhealthy ports, as the store keeps them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SavedHealth {
    /// Checksum of the limits that the ports exceeded, and of the quiet time.
    pub limits: u64,
    /// Unhealthy ports, at most [`MAX_PORTS`](super::MAX_PORTS).
    pub ill: BTreeMap<PortKey, SavedIllness>,
    /// Ports that routes avoid.
    pub isolated: BTreeSet<PortKey>,
}

/// FNV-1a checksum of the limits and of the quiet time. Stored illnesses with another checksum are
/// ignored.
pub(super) fn checksum(policy: &HealthPolicy) -> u64 {
    let mut sum = FnvHasher::default();
    for limit in policy.limits.0 {
        sum.write(&limit.to_be_bytes());
    }
    sum.write(&policy.quiet.as_secs().to_be_bytes());
    sum.finish()
}
