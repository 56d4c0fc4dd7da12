//! The paths that the shim redirects, and their targets.

use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rsm_sim_host::protocol::ASK_TREE;
use rustix::io::Errno;

use crate::setting::{Setting, setting};

/// The time for which the shim relies on the last update of the mirror. Linux also caches such
/// attributes and updates them a moment after they change.
const FRESH_FOR: Duration = Duration::from_millis(1);

/// The directories that the server mirrors.
const MIRRORED: [&[u8]; 2] = [b"/sys/class/infiniband", b"/sys/class/infiniband_mad"];
/// The directory that contains the mirrored directories.
const CLASS: &[u8] = b"/sys/class/";

/// The directory of the device files.
const DEVICES: &[u8] = b"/dev/infiniband/";

/// A device that the shim provides, with the number in the name of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    Umad(u32),
    IsSm(u32),
}

/// The target of a path.
pub(crate) enum PathTarget {
    /// A path that the shim does not redirect.
    Elsewhere,
    /// A path of a device file.
    Device(Device),
    /// A path of sysfs; the value is the path in the directory of the server.
    Mirrored(CString),
    /// A path of sysfs or of a device that is not available.
    Missing(Errno),
}

/// The target of `path`.
pub(crate) fn target(path: &CStr) -> PathTarget {
    let bytes = path.to_bytes();
    // Nearly all paths belong to other directories.
    if !bytes.starts_with(CLASS) && !bytes.starts_with(DEVICES) {
        return PathTarget::Elsewhere;
    }
    let Some(setting) = setting() else {
        return PathTarget::Elsewhere;
    };
    if let Some(name) = bytes.strip_prefix(DEVICES) {
        return match device(name) {
            Some(device) => PathTarget::Device(device),
            None => PathTarget::Elsewhere,
        };
    }
    let is_mirrored = |directory: &&[u8]| {
        let suffix = bytes.strip_prefix(*directory);
        suffix.is_some_and(|suffix| suffix.first().is_none_or(|&next| next == b'/'))
    };
    if !MIRRORED.iter().any(is_mirrored) {
        return PathTarget::Elsewhere;
    }
    match tree(setting) {
        Ok(mut target) => {
            target.push(b'/');
            target.extend_from_slice(&bytes[CLASS.len()..]);
            // Neither the tree's path nor the suffix contains a zero byte.
            CString::new(target).map_or(PathTarget::Missing(Errno::INVAL), PathTarget::Mirrored)
        }
        Err(error) => PathTarget::Missing(error),
    }
}

fn device(name: &[u8]) -> Option<Device> {
    let name = std::str::from_utf8(name).ok()?;
    let number = |prefix: &str| name.strip_prefix(prefix)?.parse().ok();
    number("umad")
        .map(Device::Umad)
        .or_else(|| number("issm").map(Device::IsSm))
}

/// The path of the server's mirror, which the server has updated within [`FRESH_FOR`].
fn tree(setting: &Setting) -> Result<Vec<u8>, Errno> {
    static LAST_UPDATE: Mutex<Option<(Instant, Vec<u8>)>> = Mutex::new(None);
    #[expect(
        clippy::disallowed_methods,
        reason = "programs run in real time, so the mirror is refreshed in real time"
    )]
    let now = Instant::now();
    if let Some((updated_at, tree)) = &*LAST_UPDATE.lock()
        && now.saturating_duration_since(*updated_at) < FRESH_FOR
    {
        return Ok(tree.clone());
    }
    let (_, tree) = setting.ask(ASK_TREE, 0, false)?;
    *LAST_UPDATE.lock() = Some((now, tree.clone()));
    Ok(tree)
}
