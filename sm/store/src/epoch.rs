//! The epoch: one manager's exclusive right to write a store that several managers share.
//!
//! Each transaction compares the revision of the epoch's key, so that the first write of a deposed
//! master fails as a whole. A manager claims the epoch after the holder has released it, or after
//! the holder has shown no sign of life for three seconds; 0.4 seconds suffice if the holder does
//! not answer in the fabric either. A sign of life is a change of a key, and each manager measures
//! the silence by its own clock.

use std::fmt;

use rsm_ids::Guid;

/// The period in which one manager is master of the shared store. Only the holder may write, and
/// each write is made on the condition that the epoch has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    /// Number of the epoch, counted from 1 over the whole life of the store.
    pub number: u64,
    /// GUID in the holder's SMInfo.
    pub holder: Guid,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {} of {}", self.number, self.holder)
    }
}

/// An epoch, as read from the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenEpoch {
    /// The epoch.
    pub epoch: Epoch,
    /// Revision of the epoch's key. A claim requires that the revision is unchanged.
    pub revision: i64,
    /// Revision of the key that changes with each sign of life of the holder.
    pub beat: i64,
    /// Whether the holder has released the epoch.
    pub is_released: bool,
    /// Number of the last plan that the holder has stored; 0 if there is none.
    pub plan: u64,
}

/// Condition of a claim about signs of life of the holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimCondition {
    /// The claim succeeds even if the holder is alive. Valid if the epoch is the claimant's own or
    /// was released, or if the claim insists.
    Unconditional,
    /// The claim fails if the holder has shown a sign of life since the epoch was seen.
    HolderSilent,
}
