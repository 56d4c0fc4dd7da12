//! The environment variables of the shim, and the start of a connection to the server.

use std::ffi::OsString;
use std::io::IoSlice;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rsm_sim_host::protocol::{
    ALL_PORTS, Answer, Hello, MAX_PACKET, NODE_VARIABLE, PORT_VARIABLE, SOCKET_VARIABLE, VERSION,
    split,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use zerocopy::IntoBytes as _;

/// The values of the environment variables.
pub(crate) struct Setting {
    socket: OsString,
    node: OsString,
    port: u32,
}

/// The setting from the environment; `None` if the shim is inactive.
pub(crate) fn setting() -> Option<&'static Setting> {
    static SETTING: OnceLock<Option<Setting>> = OnceLock::new();
    SETTING
        .get_or_init(|| {
            let socket = std::env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty())?;
            // The path becomes absolute, because the program may change its directory before it
            // opens another device.
            let socket = std::path::absolute(&socket).map_or(socket, OsString::from);
            let port = std::env::var_os(PORT_VARIABLE).filter(|port| !port.is_empty());
            Some(Setting {
                socket,
                node: std::env::var_os(NODE_VARIABLE).unwrap_or_default(),
                port: match port {
                    None => ALL_PORTS,
                    // The server reports a port that is not a number like a port that does not
                    // exist.
                    Some(port) => port
                        .to_str()
                        .and_then(|port| port.parse::<u8>().ok())
                        .map_or(ALL_PORTS - 1, u32::from),
                },
            })
        })
        .as_ref()
}

impl Setting {
    /// Connects to the server, and sends a Hello with these values. Returns the connection, and the
    /// body of the answer.
    pub(crate) fn ask(
        &self,
        what: u32,
        device: u32,
        nonblocking: bool,
    ) -> Result<(OwnedFd, Vec<u8>), Errno> {
        let connection = self.connect().inspect_err(|error| {
            report_once(&format!("cannot reach {}: {error}", self.socket.display()));
        })?;
        let hello = Hello {
            version: VERSION,
            what,
            device,
            port: self.port,
            nonblocking: u32::from(nonblocking),
        };
        let parts = [
            IoSlice::new(hello.as_bytes()),
            IoSlice::new(self.node.as_bytes()),
        ];
        rustix::net::sendmsg(
            &connection,
            &parts,
            &mut SendAncillaryBuffer::default(),
            SendFlags::NOSIGNAL,
        )?;
        let mut buffer = vec![0; MAX_PACKET];
        let len = rustix::io::retry_on_intr(|| {
            rustix::net::recv(connection.as_fd(), &mut buffer[..], RecvFlags::empty())
        })?
        .1;
        let (answer, body) = split::<Answer>(&buffer[..len]).ok_or(Errno::IO)?;
        match answer.errno {
            0 => Ok((connection, body.to_vec())),
            errno => {
                let error = Errno::from_raw_os_error(errno as i32);
                // A device in use or a missing device is not an error of the setting.
                if error != Errno::AGAIN && error != Errno::NOENT {
                    report_once(&String::from_utf8_lossy(body));
                }
                Err(error)
            }
        }
    }

    fn connect(&self) -> Result<OwnedFd, Errno> {
        let connection = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let address = SocketAddrUnix::new(self.socket.as_os_str())?;
        rustix::io::retry_on_intr(|| rustix::net::connect(&connection, &address))?;
        Ok(connection)
    }
}

/// Prints the first reason to standard error, because the program only gets an error number.
fn report_once(reason: &str) {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    if !IS_REPORTED.swap(true, Ordering::Relaxed) {
        let line = format!("rsm-sim-preload: {reason}\n");
        // A failure here cannot be reported.
        let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
    }
}
