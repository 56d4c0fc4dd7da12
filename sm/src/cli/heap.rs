//! Configures the C library's heap.
#![allow(unsafe_code)] // mallopt(3) is a C function.

/// Number of arenas of glibc's heap per processor.
///
/// On two processors, a bring-up of 45,056 hosts takes 712 MB with two arenas per processor, and
/// 641 MB with one. Planning around a lost leaf link takes 71 to 82 ms with one arena per
/// processor, but 44 to 53 ms with two, as with glibc's default of eight.
const ARENAS_PER_PROCESSOR: usize = 2;

/// Limits the number of arenas of glibc's heap. Must be called before the first thread starts.
///
/// A thread allocates from one arena, and memory that the thread frees stays in this arena: memory
/// that planning frees in one thread does not serve the store in another. With too few arenas, the
/// threads of planning wait for each other. `MALLOC_ARENA_MAX` in the environment takes precedence.
pub(crate) fn limit_arenas() {
    if std::env::var_os("MALLOC_ARENA_MAX").is_some() {
        return;
    }
    #[cfg(target_env = "gnu")]
    {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let arenas = (ARENAS_PER_PROCESSOR * processors).min(1024);
        // SAFETY: mallopt takes two numbers by value, and no other thread runs that could allocate
        // meanwhile. The result only tells whether mallopt accepted the number; if not, the heap
        // works with its default.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas as libc::c_int) };
    }
}
