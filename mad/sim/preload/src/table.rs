//! The table of descriptors, which states for each whether it is a device.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use parking_lot::Mutex;

/// The number of descriptors that can be devices, from 0 on; the usual limit of a process is 1024.
pub(crate) const MAX_DESCRIPTORS: usize = 4096;

/// The kind of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The descriptor belongs to no device of the shim.
    Other = 0,
    /// The descriptor is a device for datagrams.
    Umad = 1,
    /// The descriptor is a device that sets IsSM.
    IsSm = 2,
}

/// The shim's state of a descriptor.
pub(crate) struct Entry {
    kind: AtomicU8,
    /// Whether headers have a P_Key index.
    pub(crate) has_pkey: AtomicBool,
    /// Whether an agent was ever registered; after that, `has_pkey` does not change.
    pub(crate) is_fixed: AtomicBool,
    /// The registered agents: bit n stands for the agent with number n.
    pub(crate) agents: AtomicU32,
    /// The agents for which the server does RMPP, as in `agents`.
    pub(crate) with_rmpp: AtomicU32,
    /// Whether the next message is longer than a datagram. The lock is held while a message is
    /// read.
    pub(crate) is_next_long: Mutex<bool>,
}

/// The entries of all descriptors, by number.
static TABLE: [Entry; MAX_DESCRIPTORS] = [const {
    Entry {
        kind: AtomicU8::new(Kind::Other as u8),
        has_pkey: AtomicBool::new(false),
        is_fixed: AtomicBool::new(false),
        agents: AtomicU32::new(0),
        with_rmpp: AtomicU32::new(0),
        is_next_long: Mutex::new(false),
    }
}; MAX_DESCRIPTORS];

/// The entry of `descriptor`; `None` if its number is negative or beyond the table.
fn entry(descriptor: i32) -> Option<&'static Entry> {
    TABLE.get(usize::try_from(descriptor).ok()?)
}

/// The kind of `descriptor`.
pub(crate) fn kind(descriptor: i32) -> Kind {
    match entry(descriptor).map(|entry| entry.kind.load(Ordering::Acquire)) {
        Some(1) => Kind::Umad,
        Some(2) => Kind::IsSm,
        _ => Kind::Other,
    }
}

/// The state of an open device for datagrams; `None` if `descriptor` is no such device.
pub(crate) fn umad(descriptor: i32) -> Option<&'static Entry> {
    entry(descriptor).filter(|_| kind(descriptor) == Kind::Umad)
}

/// Records `descriptor` as a device of `kind`. Returns whether the table has an entry for it.
pub(crate) fn insert(descriptor: i32, kind: Kind) -> bool {
    let Some(entry) = entry(descriptor) else {
        return false;
    };
    entry.has_pkey.store(false, Ordering::Relaxed);
    entry.is_fixed.store(false, Ordering::Relaxed);
    entry.agents.store(0, Ordering::Relaxed);
    entry.with_rmpp.store(0, Ordering::Relaxed);
    *entry.is_next_long.lock() = false;
    entry.kind.store(kind as u8, Ordering::Release);
    true
}

/// Removes `descriptor`. Must be called before it is closed, because its number is then reused.
pub(crate) fn remove(descriptor: i32) {
    if let Some(entry) = entry(descriptor) {
        entry.kind.store(Kind::Other as u8, Ordering::Release);
    }
}
