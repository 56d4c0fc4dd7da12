//! The state of the hardware, as far as it has answered.

pub mod adaptive_image;
pub mod habits;
mod hardware;
pub mod image;
pub mod lft_image;
mod lid_claim;
pub mod managed;
pub mod mft_image;
mod node_names;
mod nodes;
pub mod p_keys;
mod parts;
pub mod sl2vl_image;
pub mod vports;
mod writes;

pub use self::hardware::{Hardware, MKeySign};
pub use self::lid_claim::LidClaim;
pub use self::node_names::NodeNames;
pub use self::nodes::{InventoryNode, InventoryPort, InventorySwitch, MISSES_TOLERATED};
pub use self::parts::{Parts, WrittenPart};
pub use self::writes::Mark;
