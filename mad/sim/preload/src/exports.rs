//! The functions of the C library that the shim interposes.
//!
//! `open`, `openat` and `ioctl` are declared with a variable number of arguments, which Rust cannot
//! define. On the machines for which the shim is built, a caller passes an optional argument like a
//! fixed argument; if it is missing, the shim passes on an arbitrary value that is not used.

#![allow(unsafe_code)] // C programs pass raw pointers, and call symbols by their names.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong, c_void};
use std::os::fd::BorrowedFd;

use libc::{DIR, FILE, mode_t, size_t, ssize_t};
use rsm_sim_host::abi::argument_len;
use rustix::io::Errno;

use crate::next::{Next, set_errno};
use crate::paths::{PathTarget, target};
use crate::table::{self, Kind};
use crate::{device, umad};

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!("the calling convention of variable arguments is not known to fit this target");

/// Looks up a function of the C library by its name and type.
macro_rules! next {
    ($name:ident: $function:ty) => {{
        const NAME: &CStr =
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            };
        // SAFETY: the types below are from the C library's headers, except for variable arguments.
        static NEXT: Next<$function> = unsafe { Next::new(NAME) };
        NEXT.get()
    }};
}

/// Sets `errno`, and returns `value` for the failed call.
fn fail<T>(error: Errno, value: T) -> T {
    set_errno(error);
    value
}

/// The target of a path. A null pointer goes to the C library, which refuses it.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn target_of(path: *const c_char) -> PathTarget {
    if path.is_null() {
        return PathTarget::Elsewhere;
    }
    // SAFETY: the caller guarantees that the path is a C string.
    target(unsafe { CStr::from_ptr(path) })
}

/// Defines functions that take a path and open no device. A mirrored path of sysfs is replaced by
/// its copy in the server's directory; other paths are passed on unchanged.
macro_rules! functions_of_paths {
    ($($name:ident([$($before:ident: $before_type:ty,)*] path $(, $after:ident: $after_type:ty)*)
        -> $result:ty, or $failed:expr;)*) => {$(
        /// # Safety
        /// The requirements of the C library's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($before: $before_type,)* path: *const c_char $(, $after: $after_type)*
        ) -> $result {
            let function = next!($name: unsafe extern "C" fn(
                $($before_type,)* *const c_char $(, $after_type)*
            ) -> $result);
            let Some(function) = function else {
                return fail(Errno::NOSYS, $failed);
            };
            // SAFETY: the caller guarantees that the path is a C string.
            match unsafe { target_of(path) } {
                // SAFETY: the arguments come from the caller, except for a path that lives as long
                // as the call.
                PathTarget::Mirrored(target) => unsafe {
                    function($($before,)* target.as_ptr() $(, $after)*)
                },
                PathTarget::Missing(error) => fail(error, $failed),
                // SAFETY: the arguments come from the caller.
                PathTarget::Elsewhere | PathTarget::Device(_) => unsafe {
                    function($($before,)* path $(, $after)*)
                },
            }
        }
    )*};
}

type Filter = Option<unsafe extern "C" fn(*const c_void) -> c_int>;
type Compare = Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>;

functions_of_paths! {
    fopen([] path, mode: *const c_char) -> *mut FILE, or std::ptr::null_mut();
    fopen64([] path, mode: *const c_char) -> *mut FILE, or std::ptr::null_mut();
    chdir([] path) -> c_int, or -1;
    opendir([] path) -> *mut DIR, or std::ptr::null_mut();
    scandir([] path, list: *mut c_void, filter: Filter, compare: Compare) -> c_int, or -1;
    scandir64([] path, list: *mut c_void, filter: Filter, compare: Compare) -> c_int, or -1;
    access([] path, mode: c_int) -> c_int, or -1;
    faccessat([directory: c_int,] path, mode: c_int, flags: c_int) -> c_int, or -1;
    stat([] path, status: *mut c_void) -> c_int, or -1;
    stat64([] path, status: *mut c_void) -> c_int, or -1;
    lstat([] path, status: *mut c_void) -> c_int, or -1;
    lstat64([] path, status: *mut c_void) -> c_int, or -1;
    fstatat([directory: c_int,] path, status: *mut c_void, flags: c_int) -> c_int, or -1;
    fstatat64([directory: c_int,] path, status: *mut c_void, flags: c_int) -> c_int, or -1;
    statx([directory: c_int,] path, flags: c_int, mask: c_uint, status: *mut c_void) -> c_int, or -1;
}

/// Defines functions that open a file or a device.
macro_rules! functions_that_open {
    ($($name:ident([$($before:ident: $before_type:ty,)*] path, flags $(, $after:ident: $after_type:ty)*);)*) => {$(
        /// # Safety
        /// The requirements of the C library's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            $($before: $before_type,)* path: *const c_char, flags: c_int $(, $after: $after_type)*
        ) -> c_int {
            let function = next!($name: unsafe extern "C" fn(
                $($before_type,)* *const c_char, c_int $(, $after_type)*
            ) -> c_int);
            let Some(function) = function else {
                return fail(Errno::NOSYS, -1);
            };
            // SAFETY: the caller guarantees that the path is a C string.
            match unsafe { target_of(path) } {
                PathTarget::Device(device) => {
                    device::open(device, flags).unwrap_or_else(|error| fail(error, -1))
                }
                // SAFETY: the arguments come from the caller, except for a path that lives as long
                // as the call.
                PathTarget::Mirrored(target) => unsafe {
                    function($($before,)* target.as_ptr(), flags $(, $after)*)
                },
                PathTarget::Missing(error) => fail(error, -1),
                // SAFETY: the arguments come from the caller.
                PathTarget::Elsewhere => unsafe { function($($before,)* path, flags $(, $after)*) },
            }
        }
    )*};
}

functions_that_open! {
    open([] path, flags, mode: mode_t);
    open64([] path, flags, mode: mode_t);
    openat([directory: c_int,] path, flags, mode: mode_t);
    openat64([directory: c_int,] path, flags, mode: mode_t);
    __open_2([] path, flags);
    __open64_2([] path, flags);
}

/// The second byte of `ioctl` requests for management datagrams (RDMA_IOCTL_MAGIC).
const MAGIC: c_ulong = 0x1B;

/// Borrows a descriptor of the program.
fn borrow(descriptor: c_int) -> BorrowedFd<'static> {
    // SAFETY: the descriptor is in the table, so it is open; if the program closes it meanwhile,
    // the call fails with EBADF, as in the kernel.
    unsafe { BorrowedFd::borrow_raw(descriptor) }
}

/// # Safety
/// The requirements of the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    // The entry is removed first, because another thread may get the same number after the call.
    table::remove(descriptor);
    match next!(close: unsafe extern "C" fn(c_int) -> c_int) {
        // SAFETY: the argument comes from the caller.
        Some(function) => unsafe { function(descriptor) },
        None => fail(Errno::NOSYS, -1),
    }
}

/// # Safety
/// The requirements of the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(descriptor: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
    match table::kind(descriptor) {
        // SAFETY: the caller guarantees that `buffer` has `count` bytes.
        Kind::Umad => unsafe { read_umad(descriptor, buffer, count) },
        Kind::IsSm => fail(Errno::INVAL, -1),
        Kind::Other => {
            match next!(read: unsafe extern "C" fn(c_int, *mut c_void, size_t) -> ssize_t) {
                // SAFETY: the arguments come from the caller.
                Some(function) => unsafe { function(descriptor, buffer, count) },
                None => fail(Errno::NOSYS, -1),
            }
        }
    }
}

/// The `read` that programs compiled with buffer checks call.
///
/// # Safety
/// The requirements of the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(
    descriptor: c_int,
    buffer: *mut c_void,
    count: size_t,
    buffer_len: size_t,
) -> ssize_t {
    if table::kind(descriptor) == Kind::Umad && count <= buffer_len {
        // SAFETY: the caller guarantees that `buffer` has `count` bytes.
        return unsafe { read_umad(descriptor, buffer, count) };
    }
    match next!(__read_chk: unsafe extern "C" fn(c_int, *mut c_void, size_t, size_t) -> ssize_t) {
        // SAFETY: the arguments come from the caller.
        Some(function) => unsafe { function(descriptor, buffer, count, buffer_len) },
        None => fail(Errno::NOSYS, -1),
    }
}

/// Reads the next message of a device into `buffer`.
///
/// # Safety
/// `buffer` must be valid for writes of `count` bytes.
unsafe fn read_umad(descriptor: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
    let Some(entry) = table::umad(descriptor) else {
        return fail(Errno::BADF, -1);
    };
    if buffer.is_null() {
        return fail(Errno::FAULT, -1);
    }
    // SAFETY: the caller guarantees that `buffer` has `count` bytes. The slice is only written to.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), count) };
    match umad::read(borrow(descriptor), entry, buffer) {
        Ok(read) => read as ssize_t,
        Err(error) => fail(error, -1),
    }
}

/// # Safety
/// The requirements of the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(descriptor: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    match table::kind(descriptor) {
        Kind::Umad if bytes.is_null() => fail(Errno::FAULT, -1),
        Kind::Umad => {
            let Some(entry) = table::umad(descriptor) else {
                return fail(Errno::BADF, -1);
            };
            // SAFETY: the caller guarantees that `bytes` has `count` bytes.
            let message = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), count) };
            match umad::write(borrow(descriptor), entry, message) {
                Ok(written) => written as ssize_t,
                Err(error) => fail(error, -1),
            }
        }
        Kind::IsSm => fail(Errno::INVAL, -1),
        Kind::Other => {
            match next!(write: unsafe extern "C" fn(c_int, *const c_void, size_t) -> ssize_t) {
                // SAFETY: the arguments come from the caller.
                Some(function) => unsafe { function(descriptor, bytes, count) },
                None => fail(Errno::NOSYS, -1),
            }
        }
    }
}

/// # Safety
/// The requirements of the C library's function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(
    descriptor: c_int,
    request: c_ulong,
    argument: *mut c_void,
) -> c_int {
    // Requests for any kind of file, such as FIONBIO, work on a socket as well.
    let entry = table::umad(descriptor).filter(|_| request >> 8 & 0xFF == MAGIC);
    let Some(entry) = entry else {
        return match next!(ioctl: unsafe extern "C" fn(c_int, c_ulong, *mut c_void) -> c_int) {
            // SAFETY: the arguments come from the caller.
            Some(function) => unsafe { function(descriptor, request, argument) },
            None => fail(Errno::NOSYS, -1),
        };
    };
    // The kernel also uses only 32 bits of the request.
    let request = request as u32;
    let Some(len) = argument_len(request) else {
        return fail(Errno::NOTTY, -1);
    };
    if len > 0 && argument.is_null() {
        return fail(Errno::FAULT, -1);
    }
    let mut nothing = [];
    let argument = match len {
        0 => &mut nothing[..],
        // SAFETY: the request number encodes the length of the argument.
        _ => unsafe { std::slice::from_raw_parts_mut(argument.cast::<u8>(), len) },
    };
    match umad::control(borrow(descriptor), entry, request, argument) {
        Ok(()) => 0,
        Err(error) => fail(error, -1),
    }
}
