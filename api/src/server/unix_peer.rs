//! Identifies the process at the other end of a Unix socket.
#![allow(unsafe_code)] // getsockopt(2) of groups is a C function.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use tokio::net::UnixStream;

use crate::access::Peer;

/// SO_PEERGROUPS of asm-generic/socket.h (Linux 4.13), which libc lacks on POWER.
const SO_PEERGROUPS: libc::c_int = 59;

/// The number of groups for which the first question has room; few processes have more.
const USUAL_GROUPS: usize = 64;

/// The maximum number of supplementary groups of a process, NGROUPS_MAX of Linux.
const MAX_GROUPS: usize = 65_536;

/// The process at the other end, as the kernel knew it when it connected: it may have ended since,
/// and its process ID may be another process's.
pub(super) fn identify(stream: &UnixStream) -> Peer {
    let Ok(credentials) = stream.peer_cred() else {
        return Peer::Unknown;
    };
    let further = further_groups(stream.as_fd());
    let primary = credentials.gid();
    Peer::Unix {
        uid: credentials.uid(),
        gids: further.map(|further| std::iter::once(primary).chain(further).collect()),
        pid: credentials.pid().unwrap_or(0),
    }
}

/// The supplementary groups of the process that connected; `None` if the kernel does not give them.
fn further_groups(socket: BorrowedFd<'_>) -> Option<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; USUAL_GROUPS];
    let (mut length, mut is_complete) = read_groups(socket, &mut groups)?;
    if !is_complete {
        groups.resize(length.min(MAX_GROUPS), 0);
        (length, is_complete) = read_groups(socket, &mut groups)?;
    }
    groups.truncate(length);
    is_complete.then_some(groups)
}

/// Reads groups into `groups`. Returns the number of groups, and whether all had room; `None` if
/// the kernel does not give them.
fn read_groups(socket: BorrowedFd<'_>, groups: &mut [libc::gid_t]) -> Option<(usize, bool)> {
    let mut bytes = libc::socklen_t::try_from(size_of_val(groups)).ok()?;
    // SAFETY: the kernel writes at most `bytes` bytes, which is the size of `groups`, and the
    // length into `bytes`. Both outlive the call, and each pattern of bits is a valid number.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    let is_complete = result == 0;
    // Without room for all groups, the kernel writes none, but the length that they need.
    if !is_complete && io::Error::last_os_error().raw_os_error() != Some(libc::ERANGE) {
        return None;
    }
    let length = usize::try_from(bytes).ok()? / size_of::<libc::gid_t>();
    Some((length, is_complete))
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    /// Numbers in a line of this process's status.
    fn own(name: &str) -> Vec<u32> {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let words = line.unwrap().split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn peer_has_its_primary_and_all_further_groups() {
        let (here, _there) = UnixStream::pair().unwrap();
        let Peer::Unix { uid, gids, pid } = identify(&here) else {
            panic!("the kernel knows the peer");
        };
        assert_eq!((uid, pid as u32), (own("Uid:")[1], std::process::id()));
        let mut expected = vec![own("Gid:")[1]];
        expected.extend(own("Groups:"));
        assert_eq!(gids.as_deref(), Some(&expected[..]));
    }

    #[test]
    fn groups_of_a_descriptor_that_is_no_socket_are_unknown() {
        let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        assert_eq!(further_groups(file.as_fd()), None);
    }
}
