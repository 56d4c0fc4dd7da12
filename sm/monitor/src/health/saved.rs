//! Illnesses that outlive a restart.
//!
//! An illness is stored by its end, when the port is healthy again, and that is a minute old at
//! most. The first plan of the next run goes around what was isolated. Counters of a new run begin
//! with new totals.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;
use std::time::Duration;

use fnv::FnvHasher;
use rsm_config::HealthPolicy;
use rsm_ids::PortKey;
use rsm_mad::Time;

/// An unhealthy port as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedIllness {
    /// The errors in words.
    pub text: String,
    /// How far the worst symptom was over its limit.
    pub excess: f64,
    /// The symptoms, a bit each.
    pub symptoms: u32,
    /// How often in a row the port fell ill.
    pub times: u32,
    /// How long it must be quiet after an error.
    pub quiet: Duration,
    /// When it is healthy again, if it stays quiet.
    pub ends: Time,
}

/// The unhealthy ports as they are stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SavedHealth {
    /// The checksum of the limits that they exceeded, and of the time of quiet.
    pub limits: u64,
    /// At most [`MAX_PORTS`](super::MAX_PORTS).
    pub ill: BTreeMap<PortKey, SavedIllness>,
    /// Ports that routes go around.
    pub isolated: BTreeSet<PortKey>,
}

/// The checksum (FNV-1a) of the limits and of the time of quiet: with others, old illnesses do not
/// count.
pub(super) fn checksum(policy: &HealthPolicy) -> u64 {
    let mut sum = FnvHasher::default();
    for limit in policy.limits.0 {
        sum.write(&limit.to_be_bytes());
    }
    sum.write(&policy.quiet.as_secs().to_be_bytes());
    sum.finish()
}
