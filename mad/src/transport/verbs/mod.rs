//! The local adapter's own view of its ports, through libibverbs (feature `verbs`).
//!
//! The MAD device reports no port events, so its owner polls the port once a second. The adapter
//! reports at once when its port goes down, when its LID, its subnet manager's LID or its P_Key
//! table changes, and when clients have to register again. The adapter does not report that a link
//! came up to Init, because it considers only an Active link up. A subnet manager uses both
//! sources; an event from both is harmless.

mod ffi;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rsm_ids::PortNum;

use self::ffi::Context;
use super::{Inbound, PortEvent, Sink};

/// The time that the thread waits for an event before it checks whether to end.
const WAIT_MS: u16 = 100;

/// The reason why the events of a port cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum VerbsError {
    /// No device has this name.
    #[error("there is no RDMA device {ca}")]
    NoDevice {
        /// The given name.
        ca: String,
    },
    /// The device could not be opened.
    #[error("cannot open the RDMA device {ca}")]
    Open {
        /// The name of the adapter.
        ca: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The thread that waits for events could not be started.
    #[error("cannot start the event thread of {ca}")]
    Thread {
        /// The device's name.
        ca: String,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Delivers [`Inbound::Port`] to `sink` for the events of `port` of the device `ca`, until the
/// caller drops the returned value. [`PortEvent::Gone`] is the last event.
///
/// # Errors
/// The device cannot be opened or has no such port; [`VerbsError`] has the reasons.
pub fn watch(ca: &str, port: PortNum, sink: Sink) -> Result<EventWatch, VerbsError> {
    let open_error = |source| VerbsError::Open {
        ca: ca.to_owned(),
        source,
    };
    let context = Context::open(ca)
        .map_err(open_error)?
        .ok_or_else(|| VerbsError::NoDevice { ca: ca.to_owned() })?;
    context.set_nonblocking().map_err(open_error)?;
    let closing = Arc::new(AtomicBool::new(false));
    let for_thread = Arc::clone(&closing);
    let thread = std::thread::Builder::new()
        .name(format!("verbs {ca}"))
        .spawn(move || run(&context, port, &for_thread, sink))
        .map_err(|source| VerbsError::Thread {
            ca: ca.to_owned(),
            source,
        })?;
    Ok(EventWatch {
        closing,
        thread: Some(thread),
    })
}

/// Delivers events until it is dropped.
#[derive(Debug)]
pub struct EventWatch {
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for EventWatch {
    /// Waits until the thread ends, and therefore until the sink returns.
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic in the sink.
            let _ = thread.join();
        }
    }
}

/// Delivers the events of `port` to `sink` until `closing` is set or the device is gone.
fn run(context: &Context, port: PortNum, closing: &AtomicBool, mut sink: Sink) {
    while !closing.load(Ordering::Acquire) {
        let event = context.wait(WAIT_MS).and_then(|()| context.event());
        match event {
            Ok(Some((number, of_port))) => {
                let Some(event) = classify(number, of_port, port) else {
                    continue;
                };
                sink(Inbound::Port(event));
                if event == PortEvent::Gone {
                    return;
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!(%error, "cannot read the adapter's events any more");
                sink(Inbound::Port(PortEvent::Gone));
                return;
            }
        }
    }
}

/// The event for the owner of `port`, from an event number and, for port events, its port
/// `of_port`; `None` if the event is unknown or about another port.
fn classify(number: u32, of_port: i32, port: PortNum) -> Option<PortEvent> {
    use rdma_sys::ibv_event_type as kind;

    const DEVICE_FATAL: u32 = kind::IBV_EVENT_DEVICE_FATAL as u32;
    const PORT_ACTIVE: u32 = kind::IBV_EVENT_PORT_ACTIVE as u32;
    const PORT_ERR: u32 = kind::IBV_EVENT_PORT_ERR as u32;
    const LID_CHANGE: u32 = kind::IBV_EVENT_LID_CHANGE as u32;
    const PKEY_CHANGE: u32 = kind::IBV_EVENT_PKEY_CHANGE as u32;
    const SM_CHANGE: u32 = kind::IBV_EVENT_SM_CHANGE as u32;
    const CLIENT_REREGISTER: u32 = kind::IBV_EVENT_CLIENT_REREGISTER as u32;

    if number == DEVICE_FATAL {
        return Some(PortEvent::Gone);
    }
    let event = match number {
        PORT_ACTIVE => PortEvent::Up,
        PORT_ERR => PortEvent::Down,
        LID_CHANGE => PortEvent::LidChanged,
        PKEY_CHANGE => PortEvent::PkeyChanged,
        SM_CHANGE => PortEvent::SmChanged,
        CLIENT_REREGISTER => PortEvent::ClientReregister,
        _ => return None,
    };
    (of_port == i32::from(port.0)).then_some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of `enum ibv_event_type` in infiniband/verbs.h.
    #[test]
    fn known_events_of_the_port_and_of_the_device_are_delivered() {
        let event = |number| classify(number, 1, PortNum(1));
        let expected = [
            (8, PortEvent::Gone),
            (9, PortEvent::Up),
            (10, PortEvent::Down),
            (11, PortEvent::LidChanged),
            (12, PortEvent::PkeyChanged),
            (13, PortEvent::SmChanged),
            (17, PortEvent::ClientReregister),
        ];
        for number in 0..40 {
            let expected = expected.iter().find(|(known, _)| *known == number);
            assert_eq!(event(number), expected.map(|&(_, event)| event), "{number}");
        }
    }

    #[test]
    fn events_of_other_ports_are_ignored_except_a_fatal_error_of_the_device() {
        assert_eq!(classify(10, 2, PortNum(1)), None);
        assert_eq!(classify(8, 2, PortNum(1)), Some(PortEvent::Gone));
    }

    #[test]
    fn an_unknown_device_is_an_error() {
        let error = watch("absent0", PortNum(1), Box::new(|_| {})).unwrap_err();
        assert!(matches!(error, VerbsError::NoDevice { .. }), "{error}");
    }
}
