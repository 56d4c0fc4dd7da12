//! The opening of devices.

use std::os::fd::{AsRawFd as _, IntoRawFd as _};

use rsm_sim_host::protocol::{OPEN_ISSM, OPEN_UMAD};
use rustix::fs::OFlags;
use rustix::io::{Errno, FdFlags};

use crate::paths::Device;
use crate::setting::setting;
use crate::table::{self, Kind};

/// Opens a device and returns its descriptor. `flags` are the flags of `open`.
pub(crate) fn open(device: Device, flags: i32) -> Result<i32, Errno> {
    let flags = OFlags::from_bits_retain(flags as u32);
    let nonblocking = flags.contains(OFlags::NONBLOCK);
    let (what, number, device_kind) = match device {
        Device::Umad(number) => (OPEN_UMAD, number, Kind::Umad),
        Device::IsSm(number) => (OPEN_ISSM, number, Kind::IsSm),
    };
    let setting = setting().ok_or(Errno::NODEV)?;
    let (connection, _) = setting.ask(what, number, nonblocking)?;
    if nonblocking {
        rustix::fs::fcntl_setfl(&connection, OFlags::NONBLOCK)?;
    }
    if !flags.contains(OFlags::CLOEXEC) {
        rustix::io::fcntl_setfd(&connection, FdFlags::empty())?;
    }
    if !table::insert(connection.as_raw_fd(), device_kind) {
        return Err(Errno::MFILE);
    }
    Ok(connection.into_raw_fd())
}
