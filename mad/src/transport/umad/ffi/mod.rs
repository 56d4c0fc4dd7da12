//! libibumad, bound by hand to the dozen functions in use, and loaded at first use.
//!
//! Within the MAD transport, only this module and its submodules contain unsafe code; their exports
//! are safe. Every call goes through the library to `open`, `read`, `write`, `ioctl` and `poll` of
//! the C library, which a simulator may interpose.

#![allow(unsafe_code)]

#[cfg(test)]
pub(super) mod fake;
mod wake;

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_short, c_uint, c_void};
use std::io;
use std::sync::OnceLock;

use libloading::Library;
use rsm_ids::{Guid, Lid, PortNum};

pub(super) use self::wake::{Readiness, Wake};
use crate::ids::Gid;
use crate::transport::{Datagram, Grh, RemoteAddress};
use crate::wire::attr::CapabilityMask;
use crate::wire::{MAD_LEN, MadBytes};

const LIBRARY: &str = "libibumad.so.3";

/// The size of an adapter's name with its terminating zero (UMAD_CA_NAME_LEN).
const NAME_LEN: usize = 20;
/// The maximum number of adapters (UMAD_MAX_DEVICES); older libraries name at most 32.
const MAX_DEVICES: usize = 128;
/// The maximum number of bytes that are read from a file with a port's state: the file contains a
/// number and a word.
const STATE_FILE_LEN: usize = 64;
/// The maximum number of ports of an adapter, port 0 included (UMAD_CA_MAX_PORTS).
const MAX_PORTS: usize = 10;
/// The maximum length of the path of a device file, with its terminating zero.
const PATH_LEN: usize = 256;
/// The number of methods in a mask, as in the kernel's masks (IB_MGMT_MAX_METHODS rounded up).
const METHODS: usize = 128;
const WORD_BITS: usize = c_long::BITS as usize;
/// The maximum length of the header that the library puts before a datagram: `sizeof(struct
/// ib_user_mad)`.
const MAX_HEADER: usize = 64;
/// The number of spare words behind structures that the library fills in, because a newer library
/// may have longer structures.
const SPARE_WORDS: usize = 32;

/// The structure `struct ib_mad_addr`; fields whose names end with `_be` are big-endian.
#[repr(C)]
#[derive(Clone, Copy)]
struct MadAddress {
    qpn_be: u32,
    qkey_be: u32,
    lid_be: u16,
    sl: u8,
    path_bits: u8,
    grh_present: u8,
    gid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    gid: [u8; 16],
    flow_label_be: u32,
    pkey_index: u16,
    reserved: [u8; 6],
}

/// The structure `struct umad_port`.
#[repr(C)]
struct RawPort {
    ca_name: [c_char; NAME_LEN],
    portnum: c_int,
    base_lid: c_uint,
    lmc: c_uint,
    sm_lid: c_uint,
    sm_sl: c_uint,
    state: c_uint,
    phys_state: c_uint,
    rate: c_uint,
    capmask_be: u32,
    gid_prefix_be: u64,
    port_guid_be: u64,
    pkeys_size: c_uint,
    pkeys: *mut u16,
    link_layer: [c_char; NAME_LEN],
    spare: [u64; SPARE_WORDS],
}

/// The structure `struct umad_ca`.
#[repr(C)]
struct RawCa {
    ca_name: [c_char; NAME_LEN],
    node_type: c_uint,
    numports: c_int,
    fw_ver: [c_char; 20],
    ca_type: [c_char; 40],
    hw_ver: [c_char; 20],
    node_guid_be: u64,
    system_guid_be: u64,
    ports: [*mut RawPort; MAX_PORTS],
    spare: [u64; SPARE_WORDS],
}

/// The structure `struct umad_ca_pair`.
#[repr(C)]
struct RawPair {
    smi_name: [c_char; NAME_LEN],
    smi_port: u32,
    gsi_name: [c_char; NAME_LEN],
    gsi_port: u32,
    spare: [u64; SPARE_WORDS],
}

const _: () = assert!(size_of::<MadAddress>() == 44);
const _: () = assert!(size_of::<RawPair>() == 48 + 8 * SPARE_WORDS);

/// A header and a datagram, aligned for the header.
#[repr(C, align(8))]
struct Buffer([u8; MAX_HEADER + MAD_LEN]);

impl Buffer {
    fn zeroed() -> Buffer {
        Buffer([0; MAX_HEADER + MAD_LEN])
    }

    fn as_mut_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }
}

/// A buffer for a header and `length` bytes, aligned for the header: for messages longer than a
/// datagram.
struct LongBuffer(Vec<u64>);

impl LongBuffer {
    fn zeroed(length: usize) -> LongBuffer {
        LongBuffer(vec![0; (MAX_HEADER + length).div_ceil(size_of::<u64>())])
    }

    fn as_mut_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }
}

/// The attributes of a port, from the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PortAttributes {
    pub(super) port_guid: Guid,
    pub(super) lid: Lid,
    pub(super) lmc: u8,
    pub(super) sm_lid: Lid,
    pub(super) sm_sl: u8,
    /// The PortState of PortInfo (IBA 14.2.5.6).
    pub(super) state: u8,
    pub(super) link_layer: String,
}

/// The devices of one port of a multi-plane adapter: one for the subnet management interface (QP
/// 0), and one for the general services interface (QP 1). On other adapters, both are the same
/// device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) smi: (String, PortNum),
    pub(super) gsi: (String, PortNum),
}

/// The attributes of a channel adapter, from the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CaAttributes {
    pub(super) node_guid: Guid,
    pub(super) ports: Vec<PortNum>,
}

/// A message or a failed send, read from an open port.
#[derive(Debug)]
pub(super) struct Received {
    /// Zero for a received datagram; an error number for a sent request without a response.
    pub(super) status: i32,
    /// The message, cut to the length of one datagram.
    pub(super) datagram: Datagram,
    /// The length of the message in bytes, which may be less than the length of a datagram if RMPP
    /// carried the message.
    pub(super) length: usize,
    /// The bytes of the message beyond the datagram.
    pub(super) rest: Vec<u8>,
}

/// The result of reading a datagram.
enum Read {
    /// A message of this many bytes.
    Taken(usize),
    /// No datagram is waiting.
    Nothing,
    /// A message of this many bytes is waiting, which is longer than the buffer.
    Longer(usize),
    /// The device has failed.
    Failed(io::Error),
}

type Name = *const c_char;

/// The functions, valid as long as the library is loaded.
struct Functions {
    get_cas_names: unsafe extern "C" fn(*mut [c_char; NAME_LEN], c_int) -> c_int,
    get_ca: unsafe extern "C" fn(Name, *mut RawCa) -> c_int,
    release_ca: unsafe extern "C" fn(*mut RawCa) -> c_int,
    get_port: unsafe extern "C" fn(Name, c_int, *mut RawPort) -> c_int,
    release_port: unsafe extern "C" fn(*mut RawPort) -> c_int,
    /// The library has this function since January 2025 (IBUMAD_1.4); `None` if it is older.
    get_pair: Option<unsafe extern "C" fn(Name, u8, *mut RawPair, c_uint) -> c_int>,
    get_fd: unsafe extern "C" fn(c_int) -> c_int,
    get_issm_path: unsafe extern "C" fn(Name, c_int, *mut c_char, c_int) -> c_int,
    open_port: unsafe extern "C" fn(Name, c_int) -> c_int,
    close_port: unsafe extern "C" fn(c_int) -> c_int,
    size: unsafe extern "C" fn() -> usize,
    get_mad: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    get_mad_addr: unsafe extern "C" fn(*mut c_void) -> *mut MadAddress,
    set_addr: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, c_int) -> c_int,
    set_pkey: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    status: unsafe extern "C" fn(*mut c_void) -> c_int,
    register: unsafe extern "C" fn(c_int, c_int, c_int, u8, *mut c_long) -> c_int,
    register_oui: unsafe extern "C" fn(c_int, c_int, u8, *const u8, *mut c_long) -> c_int,
    send: unsafe extern "C" fn(c_int, c_int, *mut c_void, c_int, c_int, c_int) -> c_int,
    recv: unsafe extern "C" fn(c_int, *mut c_void, *mut c_int, c_int) -> c_int,
    poll: unsafe extern "C" fn(c_int, c_int) -> c_int,
}

/// The loaded library.
pub(super) struct Umad {
    functions: Functions,
    /// The library is never unloaded: it keeps state for the process, and threads may be executing
    /// its functions.
    _library: Library,
}

/// The error that a call left in `errno`; `fallback` if the call left no error.
fn last_error(fallback: c_int) -> io::Error {
    match io::Error::last_os_error() {
        error if error.raw_os_error().unwrap_or(0) != 0 => error,
        _ => io::Error::from_raw_os_error(fallback),
    }
}

/// The error that a negative return value states.
fn returned_error(value: c_int) -> io::Error {
    io::Error::from_raw_os_error(value.saturating_neg())
}

/// The text up to the first zero, with replacements for bytes that are not UTF-8.
fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars
        .iter()
        .map(|&char| char as u8)
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A name in the form that the library expects, with its terminating zero; the library's own names
/// are shorter than `NAME_LEN`.
fn c_name(name: &str) -> io::Result<CString> {
    if name.len() >= NAME_LEN {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

impl Umad {
    /// Loads the library, once in a process.
    pub(super) fn load() -> Result<&'static Umad, libloading::Error> {
        static LOADED: OnceLock<Umad> = OnceLock::new();
        if let Some(umad) = LOADED.get() {
            return Ok(umad);
        }
        let umad = Umad::load_now()?;
        Ok(LOADED.get_or_init(|| umad))
    }

    /// Loads the library and finds its functions.
    ///
    /// # Errors
    /// The library is missing, or lacks a function other than the function for pairs.
    fn load_now() -> Result<Umad, libloading::Error> {
        // SAFETY: libibumad has no initialisation routine with requirements of its own.
        let library = unsafe { Library::new(LIBRARY) }?;
        macro_rules! symbol {
            ($name:literal) => {{
                // SAFETY: the type of the field is the type that infiniband/umad.h declares, with
                // structures no shorter than declared there; the library outlives the pointer in
                // `Umad`.
                *unsafe { library.get($name) }?
            }};
        }
        // SAFETY: infiniband/umad.h declares the same type; the structure is no shorter than
        // declared, and earlier versions ignore the additional last argument.
        let get_pair = unsafe { library.get(b"umad_get_smi_gsi_pair_by_ca_name\0") };
        let functions = Functions {
            get_cas_names: symbol!(b"umad_get_cas_names\0"),
            get_ca: symbol!(b"umad_get_ca\0"),
            release_ca: symbol!(b"umad_release_ca\0"),
            get_port: symbol!(b"umad_get_port\0"),
            release_port: symbol!(b"umad_release_port\0"),
            get_pair: get_pair.ok().map(|symbol| *symbol),
            get_fd: symbol!(b"umad_get_fd\0"),
            get_issm_path: symbol!(b"umad_get_issm_path\0"),
            open_port: symbol!(b"umad_open_port\0"),
            close_port: symbol!(b"umad_close_port\0"),
            size: symbol!(b"umad_size\0"),
            get_mad: symbol!(b"umad_get_mad\0"),
            get_mad_addr: symbol!(b"umad_get_mad_addr\0"),
            set_addr: symbol!(b"umad_set_addr\0"),
            set_pkey: symbol!(b"umad_set_pkey\0"),
            status: symbol!(b"umad_status\0"),
            register: symbol!(b"umad_register\0"),
            register_oui: symbol!(b"umad_register_oui\0"),
            send: symbol!(b"umad_send\0"),
            recv: symbol!(b"umad_recv\0"),
            poll: symbol!(b"umad_poll\0"),
        };
        Ok(Umad {
            functions,
            _library: library,
        })
    }

    /// The names of the channel adapters. The library may guess the name of an adapter that cannot
    /// be opened.
    pub(super) fn ca_names(&self) -> Vec<String> {
        let mut names = [[0; NAME_LEN]; MAX_DEVICES];
        // SAFETY: the array has as many entries as the second argument says.
        let count =
            unsafe { (self.functions.get_cas_names)(names.as_mut_ptr(), MAX_DEVICES as c_int) };
        let count = usize::try_from(count).unwrap_or(0).min(MAX_DEVICES);
        names[..count].iter().map(|name| text(name)).collect()
    }

    /// Reads the attributes of an adapter.
    pub(super) fn ca(&self, name: &str) -> io::Result<CaAttributes> {
        let name = c_name(name)?;
        // SAFETY: every field of `RawCa` may be zero.
        let mut raw: RawCa = unsafe { std::mem::zeroed() };
        // SAFETY: the name is terminated, and the structure is as long as declared or longer.
        let result = unsafe { (self.functions.get_ca)(name.as_ptr(), &raw mut raw) };
        if result < 0 {
            return Err(returned_error(result));
        }
        let ports = (0..)
            .zip(raw.ports)
            .filter(|(_, port)| !port.is_null())
            .map(|(number, _)| PortNum(number))
            .collect();
        let node_guid = Guid(u64::from_be(raw.node_guid_be));
        // SAFETY: the library filled the structure in, and it is released once.
        unsafe { (self.functions.release_ca)(&raw mut raw) };
        Ok(CaAttributes { node_guid, ports })
    }

    /// The result of `read` on a port's attributes, which the library owns meanwhile.
    fn read_port<T>(
        &self,
        ca: &str,
        port: PortNum,
        read: impl FnOnce(&RawPort) -> T,
    ) -> io::Result<T> {
        let name = c_name(ca)?;
        // SAFETY: every field of `RawPort` may be zero.
        let mut raw: RawPort = unsafe { std::mem::zeroed() };
        // SAFETY: the name is terminated, and the structure is as long as declared or longer.
        let result =
            unsafe { (self.functions.get_port)(name.as_ptr(), c_int::from(port.0), &raw mut raw) };
        if result < 0 {
            return Err(returned_error(result));
        }
        let value = read(&raw);
        // SAFETY: the library filled the structure in, and it is released once.
        unsafe { (self.functions.release_port)(&raw mut raw) };
        Ok(value)
    }

    /// Reads the attributes of a port.
    pub(super) fn port(&self, ca: &str, port: PortNum) -> io::Result<PortAttributes> {
        self.read_port(ca, port, |raw| PortAttributes {
            port_guid: Guid(u64::from_be(raw.port_guid_be)),
            lid: Lid(raw.base_lid as u16),
            lmc: raw.lmc as u8,
            sm_lid: Lid(raw.sm_lid as u16),
            sm_sl: raw.sm_sl as u8,
            state: raw.state as u8,
            link_layer: text(&raw.link_layer),
        })
    }

    /// Whether the port has IsSMDisabled (CapabilityMask bit 10), which means that its QP 0 belongs
    /// to another device.
    pub(super) fn is_smi_disabled(&self, ca: &str, port: PortNum) -> io::Result<bool> {
        self.read_port(ca, port, |raw| {
            let mask = CapabilityMask(u32::from_be(raw.capmask_be));
            mask.contains(CapabilityMask::IS_SM_DISABLED)
        })
    }

    /// The devices of a port; `None` if the library does not support pairs, or finds no pair with
    /// both interfaces.
    pub(super) fn pair(&self, ca: &str, port: PortNum) -> Option<Pair> {
        let get_pair = self.functions.get_pair?;
        let name = c_name(ca).ok()?;
        // SAFETY: every field of `RawPair` may be zero.
        let mut raw: RawPair = unsafe { std::mem::zeroed() };
        // SAFETY: the name is terminated, and the structure is as long as declared or longer.
        let result = unsafe { get_pair(name.as_ptr(), port.0, &raw mut raw, 1) };
        (result == 0).then(|| Pair {
            smi: (text(&raw.smi_name), PortNum(raw.smi_port as u8)),
            gsi: (text(&raw.gsi_name), PortNum(raw.gsi_port as u8)),
        })
    }

    /// Opens the device file that sets IsSM on the port while it is open.
    pub(super) fn open_is_sm(&self, ca: &str, port: PortNum) -> io::Result<IsSm> {
        let name = c_name(ca)?;
        let mut path = [0; PATH_LEN];
        // SAFETY: the name is terminated; the buffer has as many bytes as the last argument says.
        let result = unsafe {
            (self.functions.get_issm_path)(
                name.as_ptr(),
                c_int::from(port.0),
                path.as_mut_ptr(),
                PATH_LEN as c_int,
            )
        };
        if result < 0 {
            return Err(returned_error(result));
        }
        path[PATH_LEN - 1] = 0;
        // SAFETY: the path is terminated, and the flags need no mode. Without O_NONBLOCK the call
        // would wait for another subnet manager to close the file.
        let file = unsafe {
            libc::open(
                CStr::from_ptr(path.as_ptr()).as_ptr(),
                libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC,
            )
        };
        if file < 0 {
            return Err(last_error(libc::EIO));
        }
        Ok(IsSm { file })
    }

    /// Opens a port for sending and receiving.
    pub(super) fn open(&'static self, ca: &str, port: PortNum) -> io::Result<OpenPort> {
        let name = c_name(ca)?;
        // SAFETY: the name is terminated.
        let id = unsafe { (self.functions.open_port)(name.as_ptr(), c_int::from(port.0)) };
        if id < 0 {
            return Err(returned_error(id));
        }
        // SAFETY: the function takes no arguments. It is called after the port was opened, because
        // the size depends on what the library negotiated with the kernel then.
        let header = unsafe { (self.functions.size)() };
        let port = OpenPort { umad: self, id };
        if header > MAX_HEADER {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        Ok(port)
    }
}

/// Reads the first [`STATE_FILE_LEN`] bytes of a text file through the C library's functions, which
/// a simulator may interpose.
pub(super) fn read_file(path: &str) -> io::Result<String> {
    let path = CString::new(path).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the path is terminated, and the flags need no mode.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Err(last_error(libc::EIO));
    }
    let mut bytes = [0u8; STATE_FILE_LEN];
    // SAFETY: the buffer has as many bytes as the last argument says.
    let count = unsafe { libc::read(file, bytes.as_mut_ptr().cast(), bytes.len()) };
    let read = usize::try_from(count).map_err(|_| last_error(libc::EIO));
    // SAFETY: the file was opened above and is closed once.
    unsafe { libc::close(file) };
    Ok(String::from_utf8_lossy(&bytes[..read?]).into_owned())
}

/// Waits at most `timeout_ms` until one of two open ports may have a datagram to receive.
pub(super) fn wait_for_either(ports: [&OpenPort; 2], timeout_ms: u16) {
    wait_for_input(ports.map(OpenPort::fd), c_int::from(timeout_ms));
}

/// Whether one of two ports has a datagram to read.
pub(super) fn has_input(ports: [&OpenPort; 2]) -> bool {
    let events = wait_for_input(ports.map(OpenPort::fd), 0);
    events.iter().any(|events| events & libc::POLLIN != 0)
}

/// Waits at most `timeout_ms` until one of two descriptors may have input; poll ignores negative
/// numbers. Returns the events of each descriptor.
fn wait_for_input(descriptors: [c_int; 2], timeout_ms: c_int) -> [c_short; 2] {
    let mut waits = descriptors.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: there are as many structures as the second argument says.
    unsafe { libc::poll(waits.as_mut_ptr(), waits.len() as libc::nfds_t, timeout_ms) };
    waits.map(|wait| wait.revents)
}

/// Keeps IsSM set until it is dropped.
///
/// The descriptor is not an `OwnedFd`, because a simulator may return numbers that the kernel does
/// not know.
#[derive(Debug)]
pub(super) struct IsSm {
    file: c_int,
}

impl Drop for IsSm {
    fn drop(&mut self) {
        // SAFETY: `open_is_sm` opened the file, and it is closed once.
        unsafe { libc::close(self.file) };
    }
}

/// An open port. Reading and writing may happen on different threads, because each is one system
/// call.
pub(super) struct OpenPort {
    umad: &'static Umad,
    id: c_int,
}

impl OpenPort {
    /// Whether the kernel knows the descriptor. Inside ibsim the kernel does not, because ibsim's
    /// library returns its own numbers.
    pub(super) fn is_of_kernel(&self) -> bool {
        // SAFETY: the function takes only numbers.
        unsafe { libc::fcntl(self.fd(), libc::F_GETFD) >= 0 }
    }

    /// The port's file descriptor, which a simulator may have chosen.
    fn fd(&self) -> c_int {
        // SAFETY: the function takes only a number.
        unsafe { (self.umad.functions.get_fd)(self.id) }
    }

    /// Registers for a class: for responses to datagrams of the returned agent, and for unsolicited
    /// datagrams of `methods`. The kernel does RMPP if `rmpp_version` is 1, but not if it is 0.
    pub(super) fn register(
        &self,
        class: u8,
        version: u8,
        rmpp_version: u8,
        methods: &[u8],
    ) -> io::Result<u32> {
        let mut mask = method_mask(methods);
        // SAFETY: the mask has 16 bytes, as declared.
        let agent = unsafe {
            (self.umad.functions.register)(
                self.id,
                c_int::from(class),
                c_int::from(version),
                rmpp_version,
                mask.as_mut_ptr(),
            )
        };
        // A failed registration returns the error number, or only -1 from older libraries.
        u32::try_from(agent).map_err(|_| last_error(libc::EPERM))
    }

    /// Registers for responses of a vendor's class, 0x30 to 0x4F.
    pub(super) fn register_vendor(&self, class: u8, oui: [u8; 3]) -> io::Result<u32> {
        let mut mask = method_mask(&[]);
        // SAFETY: the identifier has 3 bytes and the mask 16, as declared.
        let agent = unsafe {
            (self.umad.functions.register_oui)(
                self.id,
                c_int::from(class),
                0,
                oui.as_ptr(),
                mask.as_mut_ptr(),
            )
        };
        u32::try_from(agent).map_err(|_| last_error(libc::EPERM))
    }

    /// Sends a datagram or, with an agent for which the kernel does RMPP, a message of any length.
    /// The kernel waits `timeout_ms` for the response; 0 means that no response is expected. The
    /// kernel repeats unanswered or unacknowledged packets up to `retries` times.
    pub(super) fn send(
        &self,
        agent: u32,
        bytes: &[u8],
        remote: &RemoteAddress,
        timeout_ms: u32,
        retries: u8,
    ) -> io::Result<()> {
        let functions = &self.umad.functions;
        let length = c_int::try_from(bytes.len())
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let (mut short, mut long);
        let umad = if bytes.len() <= MAD_LEN {
            short = Buffer::zeroed();
            short.as_mut_ptr()
        } else {
            long = LongBuffer::zeroed(bytes.len());
            long.as_mut_ptr()
        };
        // SAFETY: the buffer holds the library's header, whose length was checked when the port was
        // opened, and `length` bytes behind it; both pointers the library returns are inside.
        // Values are in host order.
        let result = unsafe {
            (functions.set_addr)(
                umad,
                c_int::from(remote.lid.0),
                remote.qpn as c_int,
                c_int::from(remote.sl),
                remote.qkey as c_int,
            );
            (functions.set_pkey)(umad, c_int::from(remote.pkey_index));
            let address = (functions.get_mad_addr)(umad);
            (*address).path_bits = remote.path_bits;
            if let Some(grh) = remote.grh {
                (*address).grh_present = 1;
                (*address).gid_index = grh.gid_index;
                (*address).hop_limit = grh.hop_limit;
                (*address).traffic_class = grh.traffic_class;
                (*address).gid = grh.gid.0.to_be_bytes();
                (*address).flow_label_be = grh.flow_label.to_be();
            }
            (functions.get_mad)(umad)
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            (functions.send)(
                self.id,
                agent as c_int,
                umad,
                length,
                c_int::try_from(timeout_ms).unwrap_or(c_int::MAX),
                c_int::from(retries),
            )
        };
        if result < 0 {
            return Err(last_error(libc::EIO));
        }
        Ok(())
    }

    /// Reads the next datagram or message; `None` if nothing waits to be read.
    ///
    /// # Errors
    /// The device has failed.
    pub(super) fn receive(&self) -> io::Result<Option<Received>> {
        let mut buffer = Buffer::zeroed();
        let umad = buffer.as_mut_ptr();
        // SAFETY: the buffer holds the header and a datagram.
        let read = unsafe { self.receive_into(umad, MAD_LEN) };
        match read {
            // SAFETY: the library has just filled the buffer in.
            Read::Taken(length) => Ok(Some(unsafe { self.received(umad, length.min(MAD_LEN)) })),
            Read::Nothing => Ok(None),
            Read::Longer(length) => self.receive_long(length),
            Read::Failed(error) => Err(error),
        }
    }

    /// Reads a message of `length` bytes that is longer than a datagram.
    fn receive_long(&self, length: usize) -> io::Result<Option<Received>> {
        let mut buffer = LongBuffer::zeroed(length);
        let umad = buffer.as_mut_ptr();
        // SAFETY: the buffer holds the header and `length` bytes.
        match unsafe { self.receive_into(umad, length) } {
            // SAFETY: the library has just filled the buffer in, up to its end at most.
            Read::Taken(taken) => Ok(Some(unsafe { self.received(umad, taken.min(length)) })),
            Read::Nothing => Ok(None),
            // The library itself returned this length before; a working library returns the same
            // length now.
            Read::Longer(_) => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Read::Failed(error) => Err(error),
        }
    }

    /// Reads into `umad`, without waiting.
    ///
    /// # Safety
    /// `umad` must point to [`MAX_HEADER`] plus `room` bytes, aligned for the header.
    unsafe fn receive_into(&self, umad: *mut c_void, room: usize) -> Read {
        let mut length = c_int::try_from(room).unwrap_or(c_int::MAX);
        // SAFETY: the header is no longer than the length that was checked when the port was
        // opened, and the caller guarantees room for `length` bytes behind it. With timeout 0 the
        // call does not wait.
        let result = unsafe { (self.umad.functions.recv)(self.id, umad, &raw mut length, 0) };
        let length = usize::try_from(length).unwrap_or(0);
        if result >= 0 {
            return Read::Taken(length);
        }
        // The simulator returns the error number without setting errno.
        if result == -libc::EWOULDBLOCK {
            return Read::Nothing;
        }
        match last_error(-result) {
            error if error.kind() == io::ErrorKind::WouldBlock => Read::Nothing,
            error if error.kind() == io::ErrorKind::Interrupted => Read::Nothing,
            error if error.raw_os_error() == Some(libc::ENOSPC) && length > room => {
                Read::Longer(length)
            }
            error => Read::Failed(error),
        }
    }

    /// The message that was read into `umad`.
    ///
    /// # Safety
    /// The library filled the header in, and `length` bytes behind it or a whole datagram,
    /// whichever is more, are readable.
    unsafe fn received(&self, umad: *mut c_void, length: usize) -> Received {
        let functions = &self.umad.functions;
        // SAFETY: the pointers the library returns are inside the buffer, behind which a datagram
        // that was received short is followed by zeroes.
        let (status, address, mad, rest) = unsafe {
            let mad = (functions.get_mad)(umad);
            let rest = match length.checked_sub(MAD_LEN) {
                Some(more) if more > 0 => {
                    std::slice::from_raw_parts(mad.cast::<u8>().add(MAD_LEN), more).to_vec()
                }
                _ => Vec::new(),
            };
            (
                (functions.status)(umad),
                (functions.get_mad_addr)(umad).read_unaligned(),
                mad.cast::<MadBytes>().read_unaligned(),
                rest,
            )
        };
        let grh = (address.grh_present != 0).then(|| Grh {
            gid: Gid(u128::from_be_bytes(address.gid)),
            gid_index: address.gid_index,
            hop_limit: address.hop_limit,
            traffic_class: address.traffic_class,
            flow_label: u32::from_be(address.flow_label_be),
        });
        let remote = RemoteAddress {
            lid: Lid(u16::from_be(address.lid_be)),
            qpn: u32::from_be(address.qpn_be),
            qkey: u32::from_be(address.qkey_be),
            sl: address.sl,
            pkey_index: address.pkey_index,
            path_bits: address.path_bits,
            grh,
        };
        Received {
            status,
            datagram: Datagram { mad, remote },
            length,
            rest,
        }
    }

    /// Waits at most `timeout_ms` until there may be a datagram to receive. The result of the poll
    /// is ignored, because a simulator may end the wait without a reason and report an error.
    /// [`OpenPort::receive`] finds out whether a datagram arrived.
    pub(super) fn wait(&self, timeout_ms: u16) {
        // SAFETY: the function takes only numbers.
        unsafe { (self.umad.functions.poll)(self.id, c_int::from(timeout_ms)) };
    }
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        // SAFETY: `Umad::open` opened the port, and it is closed once; its agents are unregistered
        // with it.
        unsafe { (self.umad.functions.close_port)(self.id) };
    }
}

/// The mask with one bit for each method. The response bit of a method is ignored.
fn method_mask(methods: &[u8]) -> [c_long; METHODS / WORD_BITS] {
    let mut mask = [0; METHODS / WORD_BITS];
    for &method in methods {
        let bit = usize::from(method & 0x7F);
        mask[bit / WORD_BITS] |= 1 << (bit % WORD_BITS);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_a_bit_for_each_method() {
        let mask = method_mask(&[0x01, 0x15]);
        let bits = |word: usize| mask[word / WORD_BITS] >> (word % WORD_BITS) & 1;
        let set: Vec<usize> = (0..METHODS).filter(|&bit| bits(bit) == 1).collect();
        assert_eq!(set, [1, 0x15]);
    }

    #[test]
    fn names_that_are_too_long_or_contain_a_zero_are_refused() {
        assert!(c_name("mlx5_0").is_ok());
        assert!(c_name("a-name-of-twenty-chars").is_err());
        assert!(c_name("mlx5\0").is_err());
    }
}
