//! Subnet administration: hosts get their answers (IBA 15).

pub mod mcast;
