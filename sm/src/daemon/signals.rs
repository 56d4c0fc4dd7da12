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

/// The stream of SIGHUP from the start of the daemon on, which no longer ends the process: a program
/// that renews certificates does not know that rsm starts just then.
pub(super) struct HangUps(Stream);

impl HangUps {
    /// Starts to receive SIGHUP.
    ///
    /// # Errors
    /// The operating system refuses a handler.
    pub(super) fn listen() -> anyhow::Result<HangUps> {
        listen(SignalKind::hangup()).map(HangUps)
    }
}

fn listen(kind: SignalKind) -> anyhow::Result<Stream> {
    signal(kind).context("cannot listen to signals")
}

impl Signals {
    /// Starts to receive SIGTERM and SIGINT. From then on, they no longer end the process. A SIGHUP
    /// that has come before is the first signal.
    ///
    /// # Errors
    /// The operating system refuses a handler.
    pub(super) fn listen(HangUps(hang_up): HangUps) -> anyhow::Result<Signals> {
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up,
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

#[cfg(test)]
mod tests {
    use rustix::process;

    use super::*;

    #[tokio::test]
    async fn hang_up_during_the_start_is_a_reload_after_it() {
        let hang_ups = HangUps::listen().unwrap();
        process::kill_process(process::getpid(), process::Signal::HUP).unwrap();
        let mut signals = Signals::listen(hang_ups).unwrap();
        assert_eq!(signals.next().await, Signal::Reload);
    }
}
