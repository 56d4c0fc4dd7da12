//! A connection of the server: an open device, or a request for sysfs.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use zerocopy::IntoBytes;

use super::packet;
use super::port::NodePort;
use crate::layer::{FileId, ReadResult};
use crate::protocol::{Answer, MAX_INLINE, Parcel, SHORT};

/// The maximum number of messages that wait for `read` on an open device, as on Linux
/// (MAX_UMAD_RECV_LIST_SIZE). Further messages are dropped.
const MAX_UNREAD: usize = 200_000;

/// The maximum total length of the messages that wait for `read`, 512 MiB: twice the longest
/// message.
const MAX_UNREAD_BYTES: usize = 512 * 1024 * 1024;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// No Hello has arrived yet.
    Unknown,
    /// An open device for datagrams.
    Umad(NodePort, FileId),
    /// An open device that sets IsSM.
    IsSm(NodePort),
    /// The connection waits until the connection that holds IsSM closes.
    WaitsForIsSm(NodePort),
}

/// A connection to a process.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    pub(super) purpose: Purpose,
    /// Messages that did not fit into the socket.
    unread: VecDeque<ReadResult>,
    /// The total length of `unread`.
    unread_bytes: usize,
    /// Whether the announcement of the next message has been sent.
    is_announced: bool,
    /// The number of messages dropped for lack of room.
    pub(super) lost: u64,
    /// Whether the event loop waits until the socket has room.
    pub(super) waits_for_room: bool,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Connection {
        Connection {
            socket,
            purpose: Purpose::Unknown,
            unread: VecDeque::new(),
            unread_bytes: 0,
            is_announced: false,
            lost: 0,
            waits_for_room: false,
        }
    }

    /// Answers the Hello of a connection.
    pub(super) fn answer(&self, errno: u32, body: &[u8]) -> io::Result<()> {
        // The socket holds no other packet, so it has room.
        packet::send(self.as_fd(), &[Answer { errno }.as_bytes(), body], None).map(drop)
    }

    /// Sends a message for the program to read, or queues it if the socket has no room. A message
    /// beyond the limits is dropped and counted.
    pub(super) fn deliver(&mut self, result: ReadResult) -> io::Result<()> {
        if self.unread.is_empty() && self.send(&result)? {
            return Ok(());
        }
        let bytes = result.bytes.len();
        if self.unread.len() >= MAX_UNREAD || self.unread_bytes + bytes > MAX_UNREAD_BYTES {
            self.lost += 1;
            return Ok(());
        }
        self.unread_bytes += bytes;
        self.unread.push_back(result);
        Ok(())
    }

    /// Sends waiting messages until the socket is full or none waits.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while let Some(next) = self.unread.pop_front() {
            if !self.send(&next)? {
                self.unread.push_front(next);
                break;
            }
            self.unread_bytes -= next.bytes.len();
        }
        Ok(())
    }

    /// Sends a message; an announcement goes before a long message. Returns whether the socket had
    /// room.
    fn send(&mut self, result: &ReadResult) -> io::Result<bool> {
        if result.bytes.len() > SHORT && !self.is_announced {
            let announcement = Parcel::ANNOUNCEMENT;
            self.is_announced = packet::send(self.as_fd(), &[announcement.as_bytes()], None)?;
            if !self.is_announced {
                return Ok(false);
            }
        }
        let sent = send(self.as_fd(), result)?;
        self.is_announced &= !sent;
        Ok(sent)
    }

    /// Whether the other end has closed the connection; packets may still be unread.
    pub(super) fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
        let no_wait = Timespec::default();
        matches!(rustix::event::poll(&mut polled, Some(&no_wait)), Ok(1..))
            && polled[0]
                .revents()
                .intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Whether a message waits for room in the socket.
    pub(super) fn is_full(&self) -> bool {
        !self.unread.is_empty()
    }
}

/// Sends a message in one packet; the packet of a long message carries a file with the message.
/// Returns whether the socket had room.
fn send(socket: BorrowedFd<'_>, result: &ReadResult) -> io::Result<bool> {
    let ReadResult { bytes, min_buffer } = result;
    // The length of messages is limited to far less than 4 GiB.
    let parcel = Parcel {
        total: bytes.len() as u32,
        min_buffer: *min_buffer as u32,
    };
    if bytes.len() <= MAX_INLINE {
        return packet::send(socket, &[parcel.as_bytes(), bytes], None);
    }
    let file = packet::memory_file(bytes)?;
    packet::send(
        socket,
        &[parcel.as_bytes(), &bytes[..*min_buffer]],
        Some(file.as_fd()),
    )
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
