//! Tests of RMPP against itself and against hostile packets, in virtual time.

mod hostile;
mod lossy;
mod packets;
mod reused;
mod transfers;
mod world;
