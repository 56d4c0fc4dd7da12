//! RMPP against itself and against hostile packets, in virtual time.

mod hostile;
mod lossy;
mod packets;
mod transfers;
mod world;
