//! Which paths are the shim's, and where they lead.

use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rsm_sim_host::protocol::ASK_TREE;
use rustix::io::Errno;

use crate::setting::{Setting, setting};

/// For how long what the server said of the node is taken to be so. Linux keeps such attributes in
/// a cache, which it brings up to date a moment after they change.
const FRESH_FOR: Duration = Duration::from_millis(1);

/// Directories that the server mirrors; what is before the names of its own.
const MIRRORED: [&[u8]; 2] = [b"/sys/class/infiniband", b"/sys/class/infiniband_mad"];
const CLASS: &[u8] = b"/sys/class/";

const DEVICES: &[u8] = b"/dev/infiniband/";

/// A device of the shim's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    Umad(u32),
    IsSm(u32),
}

/// What a path is to the shim.
pub(crate) enum Place {
    /// Nothing.
    Elsewhere,
    /// A device.
    Device(Device),
    /// Sysfs, which is at this path.
    Mirrored(CString),
    /// Sysfs or a device, which cannot be had.
    Missing(Errno),
}

/// Looks at a path.
pub(crate) fn place(path: &CStr) -> Place {
    let bytes = path.to_bytes();
    // Nearly all paths are none of these.
    if !bytes.starts_with(CLASS) && !bytes.starts_with(DEVICES) {
        return Place::Elsewhere;
    }
    let Some(setting) = setting() else {
        return Place::Elsewhere;
    };
    if let Some(name) = bytes.strip_prefix(DEVICES) {
        return match device(name) {
            Some(device) => Place::Device(device),
            None => Place::Elsewhere,
        };
    }
    let is_mirrored = |directory: &&[u8]| {
        let rest = bytes.strip_prefix(*directory);
        rest.is_some_and(|rest| rest.first().is_none_or(|&next| next == b'/'))
    };
    if !MIRRORED.iter().any(is_mirrored) {
        return Place::Elsewhere;
    }
    match tree(setting) {
        Ok(mut place) => {
            place.push(b'/');
            place.extend_from_slice(&bytes[CLASS.len()..]);
            // Neither part has a zero in it.
            CString::new(place).map_or(Place::Missing(Errno::INVAL), Place::Mirrored)
        }
        Err(error) => Place::Missing(error),
    }
}

fn device(name: &[u8]) -> Option<Device> {
    let name = std::str::from_utf8(name).ok()?;
    let number = |prefix: &str| name.strip_prefix(prefix)?.parse().ok();
    number("umad")
        .map(Device::Umad)
        .or_else(|| number("issm").map(Device::IsSm))
}

/// The path of the server's mirror, up to date.
fn tree(setting: &Setting) -> Result<Vec<u8>, Errno> {
    static LAST: Mutex<Option<(Instant, Vec<u8>)>> = Mutex::new(None);
    #[expect(
        clippy::disallowed_methods,
        reason = "programs run in real time, and so does what they see"
    )]
    let now = Instant::now();
    if let Some((asked, tree)) = &*LAST.lock()
        && now.saturating_duration_since(*asked) < FRESH_FOR
    {
        return Ok(tree.clone());
    }
    let (_, tree) = setting.ask(ASK_TREE, 0, false)?;
    *LAST.lock() = Some((now, tree.clone()));
    Ok(tree)
}
