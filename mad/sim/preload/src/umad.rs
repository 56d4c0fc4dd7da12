//! The calls `read`, `write` and `ioctl` of an open device, as packets to and from the server of
//! the simulated fabric.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rsm_sim_host::abi::{
    ENABLE_PKEY, HEADER_LEN, OLD_HEADER_LEN, REGISTER_AGENT, REGISTER_AGENT2, RegisterRequest,
    RegisterRequest2, UNREGISTER_AGENT, USER_RMPP,
};
use rsm_sim_host::protocol::{Answer, Call, MAX_INLINE, MAX_MESSAGE, Parcel, SHORT, WRITE, split};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::table::Entry;

/// The length of a datagram in bytes.
const MAD_LEN: usize = 256;

/// The length in bytes of a datagram's headers, up to the end of the RMPP header.
const RMPP_HEADER_LEN: usize = 36;

/// The offset of the RMPP flags in a datagram.
const RMPP_FLAGS: usize = 26;

/// The RMPP flag of an active RMPP header.
const RMPP_ACTIVE: u8 = 1;

/// Reads the next message as Linux does: if `buffer` is too short, the call copies the
/// beginning of the message and fails with ENOSPC, and the message stays in the queue.
pub(crate) fn read(
    device: BorrowedFd<'_>,
    entry: &Entry,
    buffer: &mut [u8],
) -> Result<usize, Errno> {
    let mut is_next_long = entry.is_next_long.lock();
    let mut head = [0; size_of::<Parcel>()];
    if !*is_next_long && buffer.len() >= SHORT {
        let parcel = receive_parcel(device, &mut head, buffer, RecvFlags::empty())?;
        if !parcel.is_announcement() {
            return Ok((parcel.total as usize).min(buffer.len()));
        }
        *is_next_long = true;
        wait(device)?;
    }
    let mut parcel = receive_parcel(device, &mut head, buffer, RecvFlags::PEEK)?;
    if parcel.is_announcement() {
        receive(device, &mut head, &mut [], RecvFlags::empty())?;
        *is_next_long = true;
        wait(device)?;
        parcel = receive_parcel(device, &mut head, buffer, RecvFlags::PEEK)?;
    }
    let (total, min_buffer) = (parcel.total as usize, parcel.min_buffer as usize);
    if buffer.len() < min_buffer {
        return Err(Errno::INVAL);
    }
    if buffer.len() < total {
        return Err(Errno::NOSPC);
    }
    *is_next_long = false;
    if total <= MAX_INLINE {
        // The whole packet has been copied already; this receive only removes it from the queue.
        receive(device, &mut head, &mut [], RecvFlags::empty())?;
        return Ok(total);
    }
    let (_, file) = receive(
        device,
        &mut head,
        &mut buffer[..min_buffer],
        RecvFlags::empty(),
    )?;
    let file = file.ok_or(Errno::IO)?;
    let mut copied = 0;
    while copied < total {
        match rustix::io::pread(&file, &mut buffer[copied..total], copied as u64)? {
            0 => return Err(Errno::IO),
            count => copied += count,
        }
    }
    Ok(total)
}

/// Waits for the message after an announcement, which the server sends as soon as the socket has
/// room.
fn wait(device: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut arrival = [PollFd::from_borrowed_fd(device, PollFlags::IN)];
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut arrival, None))?;
    Ok(())
}

/// Receives the next parcel, and writes its body to `buffer`. Fails with EIO if the server has
/// ended.
fn receive_parcel(
    device: BorrowedFd<'_>,
    head: &mut [u8],
    buffer: &mut [u8],
    flags: RecvFlags,
) -> Result<Parcel, Errno> {
    // An empty packet means that the server has ended.
    let received = receive(device, head, buffer, flags)?.0;
    let parcel = split::<Parcel>(&head[..received.min(head.len())]);
    Ok(parcel.ok_or(Errno::IO)?.0)
}

/// Receives the next packet into `head` and then into `body`. Returns the number of bytes, and the
/// file that came with the packet.
fn receive(
    device: BorrowedFd<'_>,
    head: &mut [u8],
    body: &mut [u8],
    flags: RecvFlags,
) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(head), IoSliceMut::new(body)];
    let received = rustix::net::recvmsg(
        device,
        &mut parts,
        &mut control,
        flags | RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut file = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            file = file.or(descriptors.last());
        }
    }
    Ok((received.bytes, file))
}

/// Sends a message. For the faults that the shim itself detects, it fails with the error of Linux.
pub(crate) fn write(device: BorrowedFd<'_>, entry: &Entry, message: &[u8]) -> Result<usize, Errno> {
    let header_len = if entry.has_pkey.load(Ordering::Relaxed) {
        HEADER_LEN
    } else {
        OLD_HEADER_LEN
    };
    if message.len() < header_len + RMPP_HEADER_LEN {
        return Err(Errno::INVAL);
    }
    let (agent, _) = split::<u32>(message).ok_or(Errno::INVAL)?;
    let bit = 1u32.checked_shl(agent).ok_or(Errno::INVAL)?;
    if entry.agents.load(Ordering::Relaxed) & bit == 0 {
        return Err(Errno::INVAL);
    }
    let is_segmented = entry.with_rmpp.load(Ordering::Relaxed) & bit != 0
        && message[header_len + RMPP_FLAGS] & RMPP_ACTIVE != 0;
    if !is_segmented && message.len() > header_len + MAD_LEN {
        return Err(Errno::INVAL);
    }
    if message.len() > header_len + MAX_MESSAGE {
        return Err(Errno::NOMEM);
    }
    let call = Call {
        what: WRITE,
        len: message.len() as u32,
    };
    if message.len() <= MAX_INLINE {
        send(device, &call, message, None)?;
    } else {
        let file = rustix::fs::memfd_create("rsm-sim-message", MemfdFlags::CLOEXEC)?;
        let mut copied = 0;
        while copied < message.len() {
            copied += rustix::io::pwrite(&file, &message[copied..], copied as u64)?;
        }
        send(device, &call, &[], Some(file.as_fd()))?;
    }
    Ok(message.len())
}

/// Sends a packet. Waits for room in the socket, because a write to a umad device does not fail for
/// lack of room.
fn send(
    device: BorrowedFd<'_>,
    call: &Call,
    body: &[u8],
    attached: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let parts = [IoSlice::new(call.as_bytes()), IoSlice::new(body)];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = attached.map(|descriptor| [descriptor]);
        if let Some(descriptors) = &descriptors {
            // The buffer has space for one descriptor, so the push succeeds.
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        match rustix::net::sendmsg(device, &parts, &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::AGAIN) => {
                let mut writable = [PollFd::from_borrowed_fd(device, PollFlags::OUT)];
                rustix::io::retry_on_intr(|| rustix::event::poll(&mut writable, None))?;
            }
            Err(Errno::INTR) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(Errno::IO),
            Err(error) => return Err(error),
        }
    }
}

/// Executes an `ioctl`, and replaces `argument` with the argument in the server's answer.
pub(crate) fn control(
    device: BorrowedFd<'_>,
    entry: &Entry,
    request: u32,
    argument: &mut [u8],
) -> Result<(), Errno> {
    let (answer_end, server_end) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let call = Call {
        what: request,
        len: argument.len() as u32,
    };
    send(device, &call, argument, Some(server_end.as_fd()))?;
    // If the server ends, its end of the socket closes, and this end is notified.
    drop(server_end);
    let mut buffer = [0; 256];
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recv(answer_end.as_fd(), &mut buffer[..], RecvFlags::empty())
    })?
    .1;
    let (answer, body) = split::<Answer>(&buffer[..received]).ok_or(Errno::IO)?;
    if body.len() == argument.len() {
        argument.copy_from_slice(body);
    }
    if answer.errno != 0 {
        return Err(Errno::from_raw_os_error(answer.errno as i32));
    }
    record_request(entry, request, argument);
    Ok(())
}

/// Records the state of the device that [`write`] needs.
fn record_request(entry: &Entry, request: u32, argument: &[u8]) {
    let new_agent = match request {
        ENABLE_PKEY => {
            entry.has_pkey.store(true, Ordering::Relaxed);
            return;
        }
        UNREGISTER_AGENT => {
            let bit = u32::read_from_bytes(argument)
                .ok()
                .and_then(|id| 1u32.checked_shl(id))
                .unwrap_or(0);
            entry.agents.fetch_and(!bit, Ordering::Relaxed);
            entry.with_rmpp.fetch_and(!bit, Ordering::Relaxed);
            return;
        }
        REGISTER_AGENT => RegisterRequest::read_from_bytes(argument)
            .ok()
            .map(|request| (request.id, request.rmpp_version != 0)),
        REGISTER_AGENT2 => RegisterRequest2::read_from_bytes(argument)
            .ok()
            .map(|request| {
                if !entry.is_fixed.load(Ordering::Relaxed) {
                    entry.has_pkey.store(true, Ordering::Relaxed);
                }
                let does_own_rmpp = request.flags & USER_RMPP != 0;
                (request.id, request.rmpp_version != 0 && !does_own_rmpp)
            }),
        _ => None,
    };
    if let Some((id, is_segmented)) = new_agent
        && let Some(bit) = 1u32.checked_shl(id)
    {
        entry.is_fixed.store(true, Ordering::Relaxed);
        entry.agents.fetch_or(bit, Ordering::Relaxed);
        if is_segmented {
            entry.with_rmpp.fetch_or(bit, Ordering::Relaxed);
        }
    }
}
