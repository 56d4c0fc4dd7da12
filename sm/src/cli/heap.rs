//! The C library's heap.
#![allow(unsafe_code)] // mallopt(3) is a C function.

/// How many arenas glibc's heap has for each processor.
///
/// On two processors a bring-up of 45,056 hosts takes 712 MB with two, and 641 MB with one; but with
/// one a lost leaf link is planned in 71 to 82 ms, with two in 44 to 53, as with glibc's own number,
/// eight.
const ARENAS_PER_PROCESSOR: usize = 2;

/// Limits the arenas of glibc's heap, before the first thread starts.
///
/// Each thread takes memory from an arena, and keeps there what it frees: what planning frees in one
/// thread does not serve the store in another. With too few the threads of planning wait for each
/// other. `MALLOC_ARENA_MAX` in the environment wins.
pub(crate) fn limit_arenas() {
    if std::env::var_os("MALLOC_ARENA_MAX").is_some() {
        return;
    }
    #[cfg(target_env = "gnu")]
    {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let arenas = (ARENAS_PER_PROCESSOR * processors).min(1024);
        // SAFETY: it takes two numbers. No other thread runs that could allocate meanwhile. The
        // result says only whether the number was taken; without it the heap works as by default.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas as libc::c_int) };
    }
}
