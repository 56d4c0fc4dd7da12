//! What the hardware holds, as far as it has answered.

mod lid_claim;

pub use self::lid_claim::LidClaim;
