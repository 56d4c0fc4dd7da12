//! Receives the signals with which the operator stops the daemon or reloads its configuration.

use anyhow::Context as _;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// A signal that the daemon handles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Signal {
    /// SIGTERM or SIGINT: end the daemon.
    Stop,
    /// SIGHUP: read the configuration again.
    Reload,
}

/// The stream of signals that the daemon handles.
pub(super) struct Signals {
    terminate: Stream,
    interrupt: Stream,
    hang_up: Stream,
}

impl Signals {
    /// Starts to receive SIGTERM, SIGINT and SIGHUP. From then on, they no longer end the process.
    ///
    /// # Errors
    /// The operating system refuses a handler.
    pub(super) fn listen() -> anyhow::Result<Signals> {
        let listen = |kind| signal(kind).context("cannot listen to signals");
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.hang_up.recv() => Signal::Reload,
        }
    }
}
