//! Tests of the wire views against the field tables, against bytes from real implementations, and
//! against arbitrary bytes.

mod accessor;
mod attributes;
mod captured;
mod congestion;
mod hostile;
mod libibmad;
mod packet;
mod records;
mod traps;
