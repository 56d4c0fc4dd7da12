//! A library for tests whose devices are sockets; the test holds the other end of each socket.

use std::os::fd::IntoRawFd as _;
use std::os::unix::net::UnixDatagram;

use super::*;

/// The number of bytes of the header before a datagram.
pub(in super::super) const HEADER: usize = 64;
/// The offset of the status number in the header, in bytes.
const STATUS: usize = 4;
/// The offset of the address in the header, in bytes.
const ADDRESS: usize = 20;

/// An open port and the other end of its socket.
pub(in super::super) fn port() -> (OpenPort, UnixDatagram) {
    let (near, far) = UnixDatagram::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    let id = near.into_raw_fd();
    (OpenPort { umad: umad(), id }, far)
}

/// The datagram with its header that a device returns for `bytes` from `lid`.
pub(in super::super) fn arrival(lid: Lid, status: u32, bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![0; HEADER];
    message[STATUS..STATUS + 4].copy_from_slice(&status.to_ne_bytes());
    let lid_at = ADDRESS + std::mem::offset_of!(MadAddress, lid_be);
    message[lid_at..lid_at + 2].copy_from_slice(&lid.0.to_be_bytes());
    message.extend_from_slice(bytes);
    message
}

/// Writes the datagram to the socket.
///
/// # Safety
/// `umad` must point to the header and `length` bytes behind it.
unsafe extern "C" fn send(
    id: c_int,
    _agent: c_int,
    umad: *mut c_void,
    length: c_int,
    _wait: c_int,
    _retries: c_int,
) -> c_int {
    // SAFETY: the caller guarantees that the bytes exist.
    let written = unsafe { libc::write(id, umad, HEADER + length as usize) };
    (written as c_int).min(0)
}

/// Reads the next datagram; an empty datagram means that the device was removed.
///
/// # Safety
/// `umad` must have room for the header and `length` bytes behind it.
unsafe extern "C" fn recv(id: c_int, umad: *mut c_void, length: *mut c_int, _wait: c_int) -> c_int {
    // SAFETY: the caller guarantees that the buffer is large enough.
    let read = unsafe {
        let read = libc::read(id, umad, HEADER + *length as usize);
        *length = read as c_int - HEADER as c_int;
        read
    };
    match read {
        0 => -libc::EIO,
        error if error < 0 => -last_error(libc::EIO).raw_os_error().unwrap_or(libc::EIO),
        _ => 0,
    }
}

/// Defines a function of the library, with the given parameters, result and body.
macro_rules! function {
    (fn($($name:ident: $type:ty),*) -> $result:ty { $body:expr }) => {{
        unsafe extern "C" fn function($($name: $type),*) -> $result {
            $body
        }
        function
    }};
}

fn umad() -> &'static Umad {
    static FAKE: OnceLock<Umad> = OnceLock::new();
    FAKE.get_or_init(|| Umad {
        functions: Functions {
            get_cas_names: function!(
                fn(_names: *mut [c_char; NAME_LEN], _most: c_int) -> c_int { 0 }
            ),
            get_ca: function!(fn(_ca: Name, _raw: *mut RawCa) -> c_int { -libc::ENODEV }),
            release_ca: function!(fn(_raw: *mut RawCa) -> c_int { 0 }),
            get_port: function!(fn(_ca: Name, _port: c_int, _raw: *mut RawPort) -> c_int {
                -libc::ENODEV
            }),
            release_port: function!(fn(_raw: *mut RawPort) -> c_int { 0 }),
            get_pair: None,
            get_fd: function!(fn(id: c_int) -> c_int { id }),
            get_issm_path: function!(
                fn(_ca: Name, _port: c_int, _path: *mut c_char, _most: c_int) -> c_int {
                    -libc::ENODEV
                }
            ),
            open_port: function!(fn(_ca: Name, _port: c_int) -> c_int { -libc::ENODEV }),
            close_port: function!(fn(id: c_int) -> c_int {
                // SAFETY: `port` opened the descriptor.
                unsafe { libc::close(id) }
            }),
            size: function!(fn() -> usize { HEADER }),
            get_mad: function!(fn(umad: *mut c_void) -> *mut c_void {
                umad.wrapping_byte_add(HEADER)
            }),
            get_mad_addr: function!(fn(umad: *mut c_void) -> *mut MadAddress {
                umad.wrapping_byte_add(ADDRESS).cast()
            }),
            set_addr: function!(
                fn(_umad: *mut c_void, _lid: c_int, _qpn: c_int, _sl: c_int, _qkey: c_int)
                    -> c_int { 0 }
            ),
            set_pkey: function!(fn(_umad: *mut c_void, _index: c_int) -> c_int { 0 }),
            status: function!(fn(umad: *mut c_void) -> c_int {
                // SAFETY: the header has the status number at this place, aligned.
                unsafe { *umad.wrapping_byte_add(STATUS).cast() }
            }),
            register: function!(
                fn(_id: c_int, _class: c_int, _version: c_int, _rmpp: u8, _mask: *mut c_long)
                    -> c_int { 0 }
            ),
            register_oui: function!(
                fn(_id: c_int, _class: c_int, _rmpp: u8, _oui: *const u8, _mask: *mut c_long)
                    -> c_int { 0 }
            ),
            send,
            recv,
            poll: function!(fn(_id: c_int, _wait: c_int) -> c_int { 0 }),
        },
        _library: libloading::os::unix::Library::this().into(),
    })
}
