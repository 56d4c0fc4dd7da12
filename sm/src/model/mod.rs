//! What the hardware holds, as far as it has answered.

pub mod adaptive_image;
pub mod image;
pub mod lft_image;
mod lid_claim;
pub mod mft_image;
pub mod p_keys;
mod parts;
pub mod sl2vl_image;
pub mod vports;

pub use self::lid_claim::LidClaim;
pub use self::parts::{Parts, WrittenPart};
