//! Receives signals from the operating system and the operator.

use anyhow::Context as _;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Signal that the daemon handles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Signal {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// Stream of signals.
pub(super) struct Signals {
    terminate: Stream,
    interrupt: Stream,
    hang_up: Stream,
}

impl Signals {
    /// Starts to receive SIGTERM, SIGINT and SIGHUP, which then no longer end the process.
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
