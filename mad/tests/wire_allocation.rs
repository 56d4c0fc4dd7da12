//! Tests that the wire views never allocate memory. The test runs in a process of its own, because
//! the counting allocator is global.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::{self, Write};

use rsm_mad::wire::attr::{Attribute, Notice, PortInfo};
use rsm_mad::wire::dissect;
use rsm_mad::wire::smp::Smp;

thread_local! {
    /// The number of times that this thread has allocated memory; other threads belong to the test
    /// harness.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct CountingAllocator;

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller satisfies the requirements of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller satisfies the requirements of `dealloc`, and all memory comes from
        // `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Counts the bytes of text written to it.
struct ByteCount(usize);

impl Write for ByteCount {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

fn allocations_during(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn an_allocation_is_counted() {
    let allocations = allocations_during(|| drop(std::hint::black_box(Box::new(7))));
    assert_eq!(allocations, 1);
}

#[test]
fn reading_and_formatting_datagrams_allocates_no_memory() {
    let mut written = ByteCount(0);
    let allocations = allocations_during(|| {
        for attribute in 0..=0x40u8 {
            for fill in [0x00, 0x5A, 0x80, 0xFF] {
                let mut mad = [fill; 256];
                mad[16..18].copy_from_slice(&[0, attribute]);
                mad[1] = 0x03;
                write!(written, "{}", dissect(&mad)).unwrap();
                mad[1] = 0x81;
                let smp = Smp::from_bytes_mut(&mut mad);
                let info = PortInfo::from_data_mut(smp.data_mut());
                info.set_lid(rsm_ids::Lid(7));
                let rate = info.link_rate();
                let notice = Notice::from_data(smp.data());
                let details = notice.details();
                write!(written, "{rate:?} {details:?}").unwrap();
                write!(written, "{}", dissect(&mad)).unwrap();
            }
        }
    });
    assert_eq!(allocations, 0);
    assert!(written.0 > 0);
}
