//! The interface to libibverbs, through rdma-sys. This is the only module of the feature with
//! unsafe code; its exports are safe.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, addr_of};

/// The devices of this host, listed once.
struct DeviceList {
    list: NonNull<*mut rdma_sys::ibv_device>,
    len: usize,
}

impl DeviceList {
    /// Lists the devices; `None` if the kernel lacks the RDMA modules.
    fn new() -> io::Result<Option<DeviceList>> {
        let mut len: c_int = 0;
        // SAFETY: the pointer is valid for writing the length.
        let list = unsafe { rdma_sys::ibv_get_device_list(&raw mut len) };
        match NonNull::new(list) {
            Some(list) => Ok(Some(DeviceList {
                list,
                len: usize::try_from(len).unwrap_or(0),
            })),
            None => match io::Error::last_os_error() {
                // A kernel without the RDMA modules has no devices.
                error if error.raw_os_error() == Some(libc::ENOSYS) => Ok(None),
                error => Err(error),
            },
        }
    }

    /// The devices; the pointers are valid as long as the list.
    fn devices(&self) -> impl Iterator<Item = *mut rdma_sys::ibv_device> {
        // SAFETY: the library returned the number of entries, and the entries live as long as the
        // list.
        unsafe { std::slice::from_raw_parts(self.list.as_ptr(), self.len) }
            .iter()
            .copied()
            .filter(|device| !device.is_null())
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: the list is from `ibv_get_device_list` and is freed once; devices that are open
        // stay valid.
        unsafe { rdma_sys::ibv_free_device_list(self.list.as_ptr()) };
    }
}

/// The name of a device of a list that is alive.
fn name_of(device: *mut rdma_sys::ibv_device) -> String {
    // SAFETY: the device is alive, and so is its name, which is terminated.
    unsafe { CStr::from_ptr(rdma_sys::ibv_get_device_name(device)) }
        .to_string_lossy()
        .into_owned()
}

/// An open device.
pub(super) struct Context {
    context: NonNull<rdma_sys::ibv_context>,
}

// SAFETY: libibverbs may be called from any thread.
unsafe impl Send for Context {}

impl Context {
    /// Opens the device called `name`; `None` if there is no such device.
    pub(super) fn open(name: &str) -> io::Result<Option<Context>> {
        let Some(list) = DeviceList::new()? else {
            return Ok(None);
        };
        let Some(device) = list.devices().find(|&device| name_of(device) == name) else {
            return Ok(None);
        };
        // SAFETY: the list, and therefore the device, is alive.
        let context = unsafe { rdma_sys::ibv_open_device(device) };
        NonNull::new(context)
            .map(|context| Some(Context { context }))
            .ok_or_else(io::Error::last_os_error)
    }

    /// Makes [`Context::event`] return at once if no event waits.
    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        let file = self.event_file();
        // SAFETY: the call changes flags of a file that the open context owns.
        unsafe {
            let flags = libc::fcntl(file, libc::F_GETFL);
            if flags < 0 || libc::fcntl(file, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// The file descriptor of the asynchronous events.
    fn event_file(&self) -> c_int {
        // SAFETY: the context is open.
        unsafe { self.context.as_ref() }.async_fd
    }

    /// Waits at most `timeout_ms` until there may be an event.
    pub(super) fn wait(&self, timeout_ms: u16) -> io::Result<()> {
        let mut file = libc::pollfd {
            fd: self.event_file(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: there is one descriptor, as the second argument says.
        let result = unsafe { libc::poll(&raw mut file, 1, c_int::from(timeout_ms)) };
        if result < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The next event, with its number and, for a port event, the port; `None` if no event waits.
    pub(super) fn event(&self) -> io::Result<Option<(u32, c_int)>> {
        let mut event = MaybeUninit::<rdma_sys::ibv_async_event>::zeroed();
        // SAFETY: the context is open; the structure is filled in here and returned to the library
        // below.
        let result =
            unsafe { rdma_sys::ibv_get_async_event(self.context.as_ptr(), event.as_mut_ptr()) };
        if result != 0 {
            return match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
                error => Err(error),
            };
        }
        // SAFETY: a newer kernel may use numbers that the enumeration in rdma-sys lacks, so the
        // field is never read as the enumeration; an integer can have any value. The union holds a
        // pointer or a number; both have the bytes of a number.
        let read = unsafe {
            let number = addr_of!((*event.as_ptr()).event_type).cast::<u32>().read();
            let port = addr_of!((*event.as_ptr()).element).cast::<c_int>().read();
            (number, port)
        };
        // SAFETY: this event came from `ibv_get_async_event`, and is returned once.
        unsafe { rdma_sys::ibv_ack_async_event(event.as_mut_ptr()) };
        Ok(Some(read))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is from `ibv_open_device` and is closed once.
        unsafe { rdma_sys::ibv_close_device(self.context.as_ptr()) };
    }
}
