//! Tests that the transaction client in its steady state allocates no memory.

#![allow(
    unsafe_code,
    reason = "the counting allocator implements the unsafe trait of allocators"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use rsm_ids::PortNum;
use rsm_mad::Time;
use rsm_mad::client::{Client, ClientConfig, Handled, Request};
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::header::{AttrId, Status};
use rsm_mad::wire::smp::Smp;

struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the calls go to the system's allocator; counting allocates no memory.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's guarantees hold for the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees hold for the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn client_allocates_no_memory_after_its_queues_have_grown() {
    const TARGETS: u64 = 500;
    let mut client = Client::new(ClientConfig::default());
    let mut sent = VecDeque::with_capacity(1024);
    let path = DirectedPath::from_hops(&[1, 2, 3].map(PortNum)).unwrap();
    let mut now = Time::ZERO;
    let mut submitted = 0;
    let mut exchange = |count: u64| {
        for _ in 0..count {
            let target = submitted % TARGETS;
            let request = Request::get(target, path, AttrId::NODE_INFO, 0, submitted);
            client.submit(request).unwrap();
            submitted += 1;
        }
        // Every tenth request is lost, and its retry is answered.
        loop {
            while let Some(transmit) = client.poll_transmit(now) {
                sent.push_back(transmit.datagram.mad);
            }
            now += Duration::from_micros(1);
            let Some(mut mad) = sent.pop_front() else {
                match client.next_deadline() {
                    Some(deadline) => now = deadline,
                    None => break,
                }
                client.handle_deadline(now);
                continue;
            };
            if (now.as_nanos() / 1000).is_multiple_of(10) {
                continue;
            }
            Smp::from_bytes_mut(&mut mad).make_response(Status::OK);
            let handled = client.handle(&mad, now);
            assert!(matches!(handled, Handled::Completed(_) | Handled::Stale));
        }
        while client.poll_completion().is_some() {}
    };
    for _ in 0..20 {
        exchange(2000);
    }
    let before = ALLOCATIONS.with(Cell::get);
    for _ in 0..20 {
        exchange(2000);
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
}
