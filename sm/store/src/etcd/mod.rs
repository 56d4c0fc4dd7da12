//! The shared store in etcd.
//!
//! ```text
//! /rsm/fe80000000000000/format     rsm-store 1
//!                       epoch      number=7 holder=0x0002c90300000001
//!                       beat       counts the holder's signs of life
//!                       generation 1812
//!                       managers/0x0002c90300000001   checksums of a manager's settings
//!                       pages/claims/2a1              rows of one page
//!                       pages/members/2a1.00f3…       one wide row
//! ```
//!
//! Rows are packed into pages by a hash of their keys (module `pages`): a change of a row writes
//! one key, and a reading of a whole subnet reads a few thousand keys. Every write of the holder is
//! a transaction that compares the modification revision of the key `epoch` (module `store`), and
//! fails once another manager has claimed the epoch.

mod client;
mod pages;
mod store;
mod tls;

pub use client::EtcdOptions;
pub use store::EtcdStore;
pub use tls::TlsFiles;
