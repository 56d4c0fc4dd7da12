//! Files in OpenSM's formats, written after each convergence for the tools that read these formats.
//!
//! | file | read by |
//! |---|---|
//! | `opensm-subnet.lst`, `opensm.fdbs`, `opensm.mcfdbs` | `ibdmchk -s … -f … -m …` |
//! | `opensm-lfts.dump` | `opensm -R file -U …` |
//! | `opensm-lid-matrix.dump` | `opensm -R file -M …` |
//! | `guid2lid` | `opensm` at its start, and `rsm check-config` |
//!
//! [`snapshot`] adds the topology in ibnetdiscover's format.

mod fdbs;
mod guid2lid;
mod hops;
mod lfts;
mod lid_matrix;
pub mod snapshot;
mod source;
mod subnet_lst;
#[cfg(test)]
mod tests;
mod text;
mod write;

pub use fdbs::{fdbs, mcfdbs};
pub use guid2lid::guid2lid;
pub use hops::HopRule;
pub use lfts::lfts;
pub use lid_matrix::lid_matrix;
pub use source::{DumpLink, DumpNode, DumpPort, DumpSource, DumpTables, LinkState, SourceError};
pub use subnet_lst::subnet_lst;
pub use write::{DumpError, write_all, write_file};
