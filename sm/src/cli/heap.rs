//! The C library's heap.
#![allow(unsafe_code)] // mallopt(3) is a C function.

/// Limits the arenas of glibc's heap, before the first thread starts.
///
/// Each thread takes memory from an arena, and keeps there what it frees. By default there are eight
/// arenas a processor: what planning frees in one thread does not serve the store in another, and of
/// the memory of a bring-up of 45,056 hosts a fifth lay idle in this way. Fewer arenas than a fourth
/// of the processors make the threads of planning wait for each other. `MALLOC_ARENA_MAX` in the
/// environment wins.
pub(crate) fn limit_arenas() {
    if std::env::var_os("MALLOC_ARENA_MAX").is_some() {
        return;
    }
    #[cfg(target_env = "gnu")]
    {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let arenas = (processors / 4).clamp(2, 16);
        // SAFETY: it takes two numbers. No other thread runs that could allocate meanwhile. The
        // result says only whether the number was taken; without it the heap works as by default.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas as libc::c_int) };
    }
}
