//! Illnesses that outlive a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_config::HealthPolicy;
use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_store::Checksum;

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
    /// Those that routes go around.
    pub isolated: BTreeSet<PortKey>,
}

/// The checksum of the limits and of the time of quiet: with others, old illnesses do not count.
pub(super) fn checksum(policy: &HealthPolicy) -> u64 {
    let limits = policy.limits.0.iter().flat_map(|limit| limit.to_be_bytes());
    let limits: Vec<u8> = limits.collect();
    Checksum::new()
        .with(&limits)
        .with(&policy.quiet.as_secs().to_be_bytes())
        .value()
}
