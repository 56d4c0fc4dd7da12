//! Packets of Unix sockets, and the event that wakes the waiting thread.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::EventfdFlags;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// The maximum number of connections that wait for `accept`; further connections wait in `connect`.
const BACKLOG: i32 = 128;

/// A non-blocking SEQPACKET socket, for a client or the server.
pub(super) fn socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?)
}

/// A socket that accepts connections at `address`.
pub(super) fn listen(address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let listener = socket()?;
    rustix::net::bind(&listener, address)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Receives one packet into `buffer`, with the descriptor that it carries. An empty packet is the
/// end of the connection; `None` means that no packet has arrived.
pub(super) fn receive<'a>(
    from: BorrowedFd<'_>,
    buffer: &'a mut [u8],
) -> io::Result<Option<(&'a [u8], Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(
        from,
        &mut [IoSliceMut::new(buffer)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    );
    let len = match received {
        Ok(message) => message.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptor = descriptor.or(descriptors.last());
        }
    }
    Ok(Some((&buffer[..len], descriptor)))
}

/// Sends the concatenated `parts` as one packet, with `descriptor` if it is set. Returns false if
/// the socket has no room now.
pub(super) fn send(
    to: BorrowedFd<'_>,
    parts: &[&[u8]],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<bool> {
    let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor]);
    if let Some(descriptors) = &descriptors {
        // The buffer has space for one descriptor, so the push succeeds.
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    match rustix::net::sendmsg(
        to,
        &parts,
        &mut control,
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    ) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A file in memory that contains `bytes`.
pub(super) fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("rsm-sim-message", MemfdFlags::CLOEXEC)?;
    let mut written = 0;
    while written < bytes.len() {
        written += rustix::io::pwrite(&file, &bytes[written..], written as u64)?;
    }
    Ok(file)
}

/// The first `len` bytes of a file. Fails if the file is shorter.
pub(super) fn read_file(file: BorrowedFd<'_>, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut read = 0;
    while read < len {
        match rustix::io::pread(file, &mut bytes[read..], read as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => read += count,
        }
    }
    Ok(bytes)
}

/// The event with which other threads wake the server's thread or stop it.
#[derive(Debug)]
pub(super) struct Wake {
    event: OwnedFd,
    /// Whether the thread was woken and has not yet checked its queues.
    is_woken: AtomicBool,
    is_stopping: AtomicBool,
}

impl Wake {
    pub(super) fn new() -> io::Result<Wake> {
        Ok(Wake {
            event: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_woken: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        })
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            // The counter has room for 2^64 - 2, and holds at most one.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Asks the thread to end.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Clears the wake-up; the thread calls this before it checks its queues.
    pub(super) fn clear(&self) {
        // The read fails if the counter is 0, which does no harm.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        // A plain store is not enough. The processor could move it behind the checks of the queues:
        // another thread could then queue a message after the checks, still read true here, and not
        // set the event.
        self.is_woken.swap(false, Ordering::AcqRel);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
