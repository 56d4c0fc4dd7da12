//! The reign of one master over a store that several managers share.
//!
//! Each transaction compares the revision of the epoch's key, so that the first write of a deposed
//! master fails as a whole. A manager claims the epoch over a master that it finds silent, once the
//! holder has shown no sign of life for three seconds, or after the holder has given it up. Signs
//! of life are changes of a key: no clock of another machine counts.

use std::fmt;

use rsm_ids::Guid;

/// One master's reign. Only its holder may write the shared store, and each of its writes is made
/// on the condition that the reign has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    /// Counts reigns over the store's whole life, from 1.
    pub number: u64,
    /// The GUID that the holder shows in its SMInfo.
    pub holder: Guid,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {} of {}", self.number, self.holder)
    }
}

/// An epoch as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenEpoch {
    /// The epoch.
    pub epoch: Epoch,
    /// Changes with each epoch: a claim is made on the condition that it is still this.
    pub revision: i64,
    /// Changes with each sign of life of the holder.
    pub beat: i64,
    /// The holder has given it up.
    pub is_released: bool,
    /// The number of the last plan that the holder has stored; 0: none.
    pub plan: u64,
}

/// Whether a claim depends on the life of the holder that it deposes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// The claim does not depend on the holder's life: the epoch is the claimant's own, was given
    /// up, or ends in any case.
    Ignored,
    /// The claim fails if the holder has shown a sign of life since the epoch was seen.
    Counts,
}
