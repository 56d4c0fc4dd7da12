//! The C library's own functions, which the functions of the shim replace and call.

#![allow(unsafe_code)] // Symbols are looked up by name, and only declarations tell their types.

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::io::Errno;

/// A function of the C library that the shim interposes. `F` is the type of the C function.
pub(crate) struct Next<F> {
    name: &'static CStr,
    /// The address of the function; null before the first look-up.
    address: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

impl<F: Copy> Next<F> {
    /// A function of the C library with this name.
    ///
    /// # Safety
    /// `F` must be the type of the function in the C library's declaration.
    pub(crate) const unsafe fn new(name: &'static CStr) -> Next<F> {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        Next {
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
            function: PhantomData,
        }
    }

    /// The function; `None` if the C library has no function of this name.
    pub(crate) fn get(&self) -> Option<F> {
        let mut address = self.address.load(Ordering::Acquire);
        if address.is_null() {
            // SAFETY: the name is a C string.
            address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.address.store(address, Ordering::Release);
        }
        // SAFETY: the caller of `new` guarantees that `F` is the type of the function of this name,
        // and a pointer has the size of `F`.
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }
}

/// Sets errno.
pub(crate) fn set_errno(error: Errno) {
    // SAFETY: the location belongs to this thread.
    unsafe { *libc::__errno_location() = error.raw_os_error() };
}
