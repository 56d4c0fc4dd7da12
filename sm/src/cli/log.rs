//! The daemon's log. Lines wait in a bounded queue for a thread that writes them, so that a stopped
//! terminal, a full pipe or a slow disk delays no other part of rsm.

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use rsm_config::LogConfig;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::log_file::LogFile;

/// Maximum number of lines that wait; further lines are dropped and counted. A storm of faults logs
/// some thousand lines. A full queue takes 5 MB, at about 300 bytes a line.
const QUEUE: usize = 16_384;

/// Maximum time for which the end of the process waits until all lines are written. Before that, it
/// waits for at most the same time until the queue has room.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Number of checks within [`LAST_LINES`] whether the queue has room.
const CHECKS: u32 = 100;

/// The daemon's log. Dropping it waits until the lines in the queue are written, within the limits
/// of [`LAST_LINES`].
pub(super) struct Log {
    lines: NonBlocking,
    dropped: Arc<Dropped>,
    /// Receives a signal when the thread reaches the empty line that ends the log.
    end: mpsc::Receiver<()>,
}

/// Counts the lines that were not written.
#[derive(Default)]
struct Dropped {
    /// Number of lines for which the queue had no room; unset until the queue exists.
    no_room: OnceLock<ErrorCounter>,
    /// Number of lines that could not be written because of an error.
    failed: AtomicU64,
    /// Number of dropped lines that the log has already reported.
    reported: AtomicU64,
}

impl Dropped {
    /// Number of lines that were dropped so far.
    fn count(&self) -> u64 {
        let no_room = self.no_room.get().map_or(0, ErrorCounter::dropped_lines);
        no_room as u64 + self.failed.load(Ordering::Relaxed)
    }

    /// Logs the number of lines that were dropped since the last call, if there are any.
    fn report(&self) {
        let count = self.count();
        let lines = count.saturating_sub(self.reported.swap(count, Ordering::Relaxed));
        if lines > 0 {
            tracing::error!(
                lines,
                "lines of the log are missing here: the writer was too slow or failed; what rsm did meanwhile is in `rsmctl events` and `rsmctl history`"
            );
        }
    }
}

/// Writer of the log's thread.
struct Lines<W> {
    to: W,
    dropped: Arc<Dropped>,
    /// Whether the last line could not be written.
    is_failing: bool,
    /// Receives a signal for each empty line, behind all lines before it.
    reached: mpsc::Sender<()>,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.to.write(line)
    }

    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        if line.is_empty() {
            // An error means that the log has ended.
            let _ = self.reached.send(());
        } else {
            self.is_failing = self.to.write_all(line).is_err();
            let failed = u64::from(self.is_failing);
            self.dropped.failed.fetch_add(failed, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Called after the last line that waited, so the queue has room for a report. A report that
    /// cannot be written would itself be a dropped line, and cause the next report: on a full disk
    /// the thread would report without end.
    fn flush(&mut self) -> io::Result<()> {
        if !self.is_failing {
            self.dropped.report();
        }
        self.to.flush()
    }
}

impl Log {
    /// Starts to log the lines that the filter `wanted` admits, to the file of `config` or to
    /// standard error. Must be called only once.
    pub(super) fn start(wanted: &str, as_json: bool, config: &LogConfig) -> anyhow::Result<Log> {
        let filter = EnvFilter::try_new(directives(wanted)).with_context(|| {
            format!(
                "`{wanted}` is no log filter: expected a level, or a list such as rsm::daemon=debug,info"
            )
        })?;
        let is_terminal = config.file.is_none() && io::stderr().is_terminal();
        let (lines, log) = match &config.file {
            Some(path) => {
                let file = LogFile::open(path, config);
                queue(
                    QUEUE,
                    file.with_context(|| format!("cannot open the log {}", path.display()))?,
                )
            }
            None => queue(QUEUE, io::stderr()),
        };
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(lines);
        if as_json {
            subscriber.json().init();
        } else {
            subscriber.with_ansi(is_terminal).init();
        }
        Ok(log)
    }

    /// A function that returns the number of lines that were dropped so far.
    pub(super) fn dropped(&self) -> Arc<dyn Fn() -> u64 + Send + Sync> {
        let dropped = self.dropped.clone();
        Arc::new(move || dropped.count())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.dropped.report();
        for _ in 0..CHECKS {
            let before = self.dropped.count();
            let is_queued = self.lines.write_all(&[]).is_ok() && self.dropped.count() == before;
            if is_queued {
                // The process ends even after a timeout.
                let _ = self.end.recv_timeout(LAST_LINES);
                return;
            }
            thread::sleep(LAST_LINES / CHECKS);
        }
    }
}

/// Starts a thread that writes lines to `to`; at most `limit` lines wait for it.
fn queue(limit: usize, to: impl Write + Send + 'static) -> (NonBlocking, Log) {
    let dropped = Arc::new(Dropped::default());
    let builder = NonBlockingBuilder::default().lossy(true);
    let builder = builder.buffered_lines_limit(limit).thread_name("log");
    let (reached, end) = mpsc::channel();
    let (lines, guard) = builder.finish(Lines {
        to,
        dropped: dropped.clone(),
        is_failing: false,
        reached,
    });
    // Dropping the guard while the queue is full would print to standard output.
    std::mem::forget(guard);
    // The cell is new, so it takes the counter.
    let _ = dropped.no_room.set(lines.error_counter());
    let log = Log {
        lines: lines.clone(),
        dropped,
        end,
    };
    (lines, log)
}

/// Directives of the log filter `wanted`. A bare level applies to rsm; libraries then log only
/// warnings and errors. A list of directives stays unchanged.
fn directives(wanted: &str) -> String {
    let Ok(level) = wanted.trim().parse::<LevelFilter>() else {
        return wanted.to_owned();
    };
    // Targets match by prefix: `rsm` also matches rsm_api, rsm_mad and the other crates.
    format!("{},rsm={level}", level.min(LevelFilter::WARN))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// Writer that takes a line only when a test receives the line.
    struct Slow(SyncSender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let sent = self.0.send(line.to_vec());
            sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Starts a log with a slow writer; a test receives the lines.
    fn slow(limit: usize) -> (NonBlocking, Log, Receiver<Vec<u8>>) {
        let (sender, receiver) = sync_channel(0);
        let (lines, log) = queue(limit, Slow(sender));
        (lines, log, receiver)
    }

    #[test]
    fn blocked_writer_drops_only_the_lines_beyond_the_queue() {
        let (mut lines, log, receiver) = slow(2);
        for number in 0..10u8 {
            lines.write_all(&[number]).unwrap();
        }
        // The thread may hold one line beside those in the queue.
        let dropped = log.dropped()();
        assert!((7..=8).contains(&dropped), "{dropped}");
        let kept = (dropped..10).map(|_| receiver.recv().unwrap());
        let kept: Vec<Vec<u8>> = kept.collect();
        assert!(kept.is_sorted() && kept[..2] == [[0], [1]], "{kept:?}");
    }

    #[test]
    fn dropped_log_writes_the_waiting_lines_and_counts_failed_lines() {
        let (mut lines, log, receiver) = slow(8);
        for number in 0..4u8 {
            lines.write_all(&[number]).unwrap();
        }
        let reader = thread::spawn(move || receiver.iter().take(3).collect::<Vec<_>>());
        let dropped = log.dropped();
        drop(log);
        assert_eq!(reader.join().unwrap(), [[0], [1], [2]]);
        assert_eq!(dropped(), 1, "the reader has gone before the fourth line");
    }

    /// Writer that fails while `is_full`.
    struct Disk {
        is_full: bool,
    }

    impl Write for Disk {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            match self.is_full {
                true => Err(io::Error::from(io::ErrorKind::StorageFull)),
                false => Ok(line.len()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_lost_on_a_full_disk_are_reported_only_after_a_line_was_written() {
        let (reached, _end) = mpsc::channel();
        let dropped = Arc::new(Dropped::default());
        let mut lines = Lines {
            to: Disk { is_full: true },
            dropped: dropped.clone(),
            is_failing: false,
            reached,
        };
        let reported = || dropped.reported.load(Ordering::Relaxed);
        for _ in 0..3 {
            lines.write_all(b"line").unwrap();
            lines.flush().unwrap();
        }
        assert_eq!((dropped.count(), reported()), (3, 0));
        lines.to.is_full = false;
        lines.write_all(b"line").unwrap();
        lines.flush().unwrap();
        assert_eq!((dropped.count(), reported()), (3, 3));
    }

    #[test]
    fn bare_level_applies_to_rsm_and_lists_stay_unchanged() {
        for (wanted, expected) in [
            ("info", "warn,rsm=info"),
            ("DEBUG", "warn,rsm=debug"),
            ("error", "error,rsm=error"),
            ("off", "off,rsm=off"),
            ("rsm::daemon=debug,info", "rsm::daemon=debug,info"),
            ("h2=trace", "h2=trace"),
        ] {
            assert_eq!(directives(wanted), expected);
            assert!(EnvFilter::try_new(directives(wanted)).is_ok());
        }
        assert!(EnvFilter::try_new(directives("rsm=loud")).is_err());
    }
}
