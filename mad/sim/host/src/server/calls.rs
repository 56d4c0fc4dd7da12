//! The handling of the calls of programs on open devices: `write` and `ioctl`.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::event_loop::EventLoop;
use super::packet;
use super::port::NodePort;
use crate::abi::{
    self, ENABLE_PKEY, HEADER_LEN, REGISTER_AGENT, REGISTER_AGENT2, RegisterRequest,
    RegisterRequest2, UNREGISTER_AGENT, USER_RMPP,
};
use crate::layer::{FileId, MadLayer, Registration};
use crate::protocol::{Answer, Call, MAX_INLINE, MAX_MESSAGE, WRITE, split};

impl EventLoop {
    /// Handles a call on an open device. Returns whether the connection stays open.
    pub(super) fn call(
        &mut self,
        key: NodePort,
        file: FileId,
        packet: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> bool {
        let now = self.now();
        let Some((call, inline)) = split::<Call>(packet) else {
            return false;
        };
        if matches!(call.what, REGISTER_AGENT | REGISTER_AGENT2) {
            self.close_ended_connections(key);
        }
        let Some(port) = self.ports.get_mut(&key) else {
            return false;
        };
        if call.what != WRITE {
            // The answer goes to the caller's own socket; the caller may be gone.
            let Some(answer_socket) = descriptor else {
                return false;
            };
            let (errno, body) = match execute_ioctl(&mut port.layer, file, call.what, inline) {
                Ok(body) => (0, body),
                Err((errno, body)) => (errno.raw_os_error() as u32, body),
            };
            let _ = packet::send(answer_socket, &[Answer { errno }.as_bytes(), &body], None);
            return true;
        }
        let len = call.len as usize;
        let from_file;
        let message = if len <= MAX_INLINE {
            inline
        } else {
            let Some(Ok(bytes)) = descriptor
                .filter(|_| len <= MAX_MESSAGE + HEADER_LEN)
                .map(|descriptor| packet::read_file(descriptor, len))
            else {
                return false;
            };
            from_file = bytes;
            &from_file
        };
        if let Err(error) = port.layer.write(file, message, now) {
            port.layer.refuse_write(file, message, error);
        }
        self.ports_with_outputs.insert(key);
        true
    }
}

/// Executes an `ioctl`, and returns the changed argument. An error has the error number and the
/// changed argument.
fn execute_ioctl(
    layer: &mut MadLayer,
    file: FileId,
    request: u32,
    argument: &[u8],
) -> Result<Vec<u8>, (Errno, Vec<u8>)> {
    let error_only = |errno: Errno| (errno, Vec::new());
    if abi::argument_len(request) != Some(argument.len()) {
        return Err(error_only(Errno::NOTTY));
    }
    match request {
        ENABLE_PKEY => layer
            .enable_pkey(file)
            .map(|()| Vec::new())
            .map_err(error_only),
        UNREGISTER_AGENT => {
            let id = u32::read_from_bytes(argument).map_err(|_| error_only(Errno::FAULT))?;
            layer
                .unregister(file, id)
                .map(|()| Vec::new())
                .map_err(error_only)
        }
        REGISTER_AGENT => {
            let mut request =
                RegisterRequest::read_from_bytes(argument).map_err(|_| error_only(Errno::FAULT))?;
            let wanted = Registration {
                qpn: request.qpn.into(),
                class: request.mgmt_class,
                version: request.mgmt_class_version,
                methods: method_mask(request.method_mask),
                oui: request.oui,
                rmpp_version: request.rmpp_version,
                user_rmpp: false,
            };
            request.id = layer.register(file, &wanted, false).map_err(error_only)?;
            Ok(request.as_bytes().to_vec())
        }
        REGISTER_AGENT2 => {
            let mut request = RegisterRequest2::read_from_bytes(argument)
                .map_err(|_| error_only(Errno::FAULT))?;
            if request.flags & !USER_RMPP != 0 {
                request.flags = USER_RMPP;
                return Err((Errno::INVAL, request.as_bytes().to_vec()));
            }
            let [high_byte, oui @ ..] = request.oui.to_be_bytes();
            if request.mgmt_class != 0 && high_byte != 0 {
                return Err(error_only(Errno::INVAL));
            }
            let wanted = Registration {
                qpn: request.qpn,
                class: request.mgmt_class,
                version: request.mgmt_class_version,
                methods: method_mask(request.method_mask),
                oui,
                rmpp_version: request.rmpp_version,
                user_rmpp: request.flags & USER_RMPP != 0,
            };
            request.id = layer.register(file, &wanted, true).map_err(error_only)?;
            Ok(request.as_bytes().to_vec())
        }
        _ => Err(error_only(Errno::NOTTY)),
    }
}

/// The method mask as a number; `bytes` are two 64-bit words of the byte order of the machine, the
/// first with the lower methods.
fn method_mask(bytes: [u8; 16]) -> u128 {
    let word = |from: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[from..from + 8]);
        u128::from(u64::from_ne_bytes(word))
    };
    word(0) | word(8) << 64
}
