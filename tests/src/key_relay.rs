//! A relay between programs and a served fabric, which writes the SA's key into their requests.
//!
//! osmtest always sends the SM_Key 1, which makes it a trusted requester at OpenSM. rsm's SA has
//! another key, and does not trust key 1; the relay writes rsm's key into the requests.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rsm_mad::wire::header::Class;
use rsm_sim_host::abi::HEADER_LEN;
use rsm_sim_host::protocol::{self, Call};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
};

/// The SM_Key that OpenSM's programs always send.
const BUILT_IN: [u8; 8] = 1u64.to_be_bytes();

/// The offset of the MAD in a `write`: after the call and the umad header.
const MAD: usize = size_of::<Call>() + HEADER_LEN;

/// The offset of the management class in a `write`.
const CLASS: usize = MAD + 1;

/// The offset of the SM_Key of an SA MAD in a `write` (IBA 15.2.1.1).
const SM_KEY: std::ops::Range<usize> = MAD + 36..MAD + 44;

/// The maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// A relay. Its listener ends when the relay is dropped; a connection ends with its program.
#[derive(Debug)]
pub struct KeyRelay {
    listener: Arc<OwnedFd>,
    socket: PathBuf,
}

impl KeyRelay {
    /// Listens at `socket` for programs, connects them to the fabric served at `fabric`, and puts
    /// `key` into their requests.
    ///
    /// # Panics
    ///
    /// A path is too long, `socket` is in use, or the socket cannot be made.
    #[must_use]
    pub fn start(socket: PathBuf, fabric: &Path, key: u64) -> KeyRelay {
        let listener = Arc::new(packet_socket());
        let address = SocketAddrUnix::new(&socket).expect("the path is short");
        rustix::net::bind(&*listener, &address).expect("the path is free");
        rustix::net::listen(&*listener, BACKLOG).expect("the socket is bound");
        let accepting = listener.clone();
        let fabric =
            SocketAddrUnix::new(fabric).expect("the path is short, because programs connect to it");
        thread::spawn(move || {
            while let Ok(program) = rustix::net::accept_with(&*accepting, SocketFlags::CLOEXEC) {
                let server = packet_socket();
                // Without a server, the program sees the end of its connection.
                if rustix::net::connect(&server, &fabric).is_ok() {
                    relay(program, server, key);
                }
            }
        });
        KeyRelay { listener, socket }
    }

    /// The path of the relay's socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for KeyRelay {
    fn drop(&mut self) {
        // The shutdown makes `accept` fail, which ends the accepting thread.
        let _ = rustix::net::shutdown(&*self.listener, Shutdown::Both);
    }
}

fn packet_socket() -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)
        .expect("the kernel has sockets")
}

/// Relays packets in both directions until an end has closed.
fn relay(program: OwnedFd, server: OwnedFd, key: u64) {
    let (program, server) = (Arc::new(program), Arc::new(server));
    let back = (server.clone(), program.clone());
    thread::spawn(move || {
        forward(&program, &server, |packet| replace_key(packet, key));
    });
    thread::spawn(move || forward(&back.0, &back.1, |_| {}));
}

/// Forwards packets in one direction until an end has closed; `change` edits each packet first.
fn forward(from: &OwnedFd, to: &OwnedFd, change: impl Fn(&mut [u8])) {
    let mut buffer = vec![0; protocol::MAX_PACKET];
    while let Some((len, carried)) = receive(from.as_fd(), &mut buffer) {
        change(&mut buffer[..len]);
        if !send(to.as_fd(), &buffer[..len], carried.as_ref()) {
            break;
        }
    }
    for end in [from, to] {
        // The other end may be closed already.
        let _ = rustix::net::shutdown(end, Shutdown::Both);
    }
}

/// Writes `key` into a packet if it is an SA request with the built-in key.
fn replace_key(packet: &mut [u8], key: u64) {
    let is_write =
        protocol::split::<Call>(packet).is_some_and(|(call, _)| call.what == protocol::WRITE);
    let is_of_sa = packet.get(CLASS) == Some(&Class::SUBNET_ADMINISTRATION.0);
    if let Some(sm_key) = packet.get_mut(SM_KEY)
        && is_write
        && is_of_sa
        && *sm_key == BUILT_IN
    {
        sm_key.copy_from_slice(&key.to_be_bytes());
    }
}

/// Receives one packet, with the descriptor that it carries, if any; `None` at the end of the
/// connection.
fn receive(from: BorrowedFd<'_>, buffer: &mut [u8]) -> Option<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(from, &mut parts, &mut control, flags).ok()?;
    let carried = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.last(),
        _ => None,
    });
    (received.bytes > 0).then_some((received.bytes, carried))
}

/// Sends a packet; returns whether the call succeeded.
fn send(to: BorrowedFd<'_>, packet: &[u8], carried: Option<&OwnedFd>) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = carried.map(|descriptor| [descriptor.as_fd()]);
    if let Some(descriptors) = &descriptors {
        // There is space for one descriptor.
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let parts = [IoSlice::new(packet)];
    rustix::net::sendmsg(to, &parts, &mut control, SendFlags::NOSIGNAL).is_ok()
}
