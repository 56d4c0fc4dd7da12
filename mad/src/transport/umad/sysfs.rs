//! The state of a port in the kernel, from the few small files that change.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use rsm_ids::{Lid, PortNum};

use super::ffi::{self, PortAttributes};

/// The directory of channel adapters in sysfs.
const ROOT: &str = "/sys/class/infiniband";

/// The time between two readings of the files. With feature `verbs`, hardware reports changes at
/// once; without it, each poll costs the reading of five small files.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// The number of consecutive failed readings that are allowed before the device counts as removed.
const FAILURES_TOLERATED: u32 = 3;

/// The maximum number of states that wait for the receive thread, which checks every 50 ms.
const QUEUE_LEN: usize = 16;

/// The result of one reading of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reading {
    /// The present attributes of the port.
    Port(PortAttributes),
    /// The files no longer exist.
    Gone,
}

/// The files of one port.
#[derive(Debug, Clone)]
pub(super) struct PortFiles {
    directory: String,
    /// The attributes that do not change while the device exists.
    fixed: PortAttributes,
}

impl PortFiles {
    pub(super) fn new(ca: &str, port: PortNum, known: PortAttributes) -> PortFiles {
        PortFiles::below(ROOT, ca, port, known)
    }

    /// The files below `root`, which tests choose.
    fn below(root: &str, ca: &str, port: PortNum, known: PortAttributes) -> PortFiles {
        PortFiles {
            directory: format!("{root}/{ca}/ports/{port}"),
            fixed: known,
        }
    }

    /// Reads the present attributes of the port.
    pub(super) fn read(&self) -> io::Result<PortAttributes> {
        Ok(PortAttributes {
            // The file contains, for example, `4: ACTIVE`.
            state: self.number("state")? as u8,
            lid: Lid(self.number("lid")? as u16),
            lmc: self.number("lid_mask_count")? as u8,
            sm_lid: Lid(self.number("sm_lid")? as u16),
            sm_sl: self.number("sm_sl")? as u8,
            ..self.fixed.clone()
        })
    }

    /// The number at the start of a file, decimal, or hexadecimal after `0x`.
    fn number(&self, name: &str) -> io::Result<u32> {
        let text = ffi::read_file(&format!("{}/{name}", self.directory))?;
        parse(&text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }
}

/// The number at the start of a text; `None` if the text does not start with a number.
fn parse(text: &str) -> Option<u32> {
    let word = text.split([':', '\n', ' ']).next()?;
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

/// Reads the files of a port repeatedly on a separate thread, because the driver of a faulty device
/// may block the reading thread.
#[derive(Debug)]
pub(super) struct PortWatch {
    readings: Receiver<Reading>,
    /// Dropping the sender ends the thread; the thread is not joined, because a driver may block
    /// it.
    _running: Sender<()>,
    gone: Arc<AtomicBool>,
}

impl PortWatch {
    /// Starts the thread.
    pub(super) fn start(device: &str, files: PortFiles) -> io::Result<PortWatch> {
        PortWatch::start_every(READ_INTERVAL, device, files)
    }

    /// Starts the thread with an interval between readings, which tests choose.
    fn start_every(interval: Duration, device: &str, files: PortFiles) -> io::Result<PortWatch> {
        let (running, stop) = channel::<()>();
        let (sender, readings) = sync_channel(QUEUE_LEN);
        let gone = Arc::new(AtomicBool::new(false));
        let gone_for_thread = Arc::clone(&gone);
        std::thread::Builder::new()
            .name(format!("state of {device}"))
            .spawn(move || watch(interval, &files, &stop, &sender, &gone_for_thread))?;
        Ok(PortWatch {
            readings,
            _running: running,
            gone,
        })
    }

    /// The next reading; `None` if no reading waits.
    pub(super) fn poll(&self) -> Option<Reading> {
        if self.gone.load(Ordering::Acquire) {
            return Some(Reading::Gone);
        }
        self.readings.try_recv().ok()
    }
}

/// Reads the files at intervals until `stop` is closed, or until too many consecutive readings
/// failed.
fn watch(
    interval: Duration,
    files: &PortFiles,
    stop: &Receiver<()>,
    readings: &SyncSender<Reading>,
    gone: &AtomicBool,
) {
    let mut failures = 0;
    while stop.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        match files.read() {
            Ok(attributes) => {
                failures = 0;
                // If the queue is full, because the receive thread waits for its sink, the state is
                // dropped: a later state follows.
                drop(readings.try_send(Reading::Port(attributes)));
            }
            Err(error) => {
                failures += 1;
                tracing::debug!(directory = files.directory, %error, "cannot read the port's state");
                if failures == FAILURES_TOLERATED {
                    gone.store(true, Ordering::Release);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsm_ids::Guid;
    use std::path::Path;
    use std::time::Instant;

    fn known() -> PortAttributes {
        PortAttributes {
            port_guid: Guid(0x10),
            lid: Lid(0),
            lmc: 0,
            sm_lid: Lid(0),
            sm_sl: 0,
            state: 1,
            link_layer: "InfiniBand".to_owned(),
        }
    }

    /// A directory with the files of one port.
    fn tree(name: &str) -> String {
        let root = std::env::temp_dir().join(format!("rsm-sysfs-{}-{name}", std::process::id()));
        let ports = root.join("mlx5_0/ports/1");
        std::fs::create_dir_all(&ports).unwrap();
        for (file, text) in [
            ("state", "4: ACTIVE\n"),
            ("lid", "0x1c\n"),
            ("lid_mask_count", "2\n"),
            ("sm_lid", "0x1\n"),
            ("sm_sl", "3\n"),
        ] {
            std::fs::write(ports.join(file), text).unwrap();
        }
        root.to_str().unwrap().to_owned()
    }

    fn files(root: &str) -> PortFiles {
        PortFiles::below(root, "mlx5_0", PortNum(1), known())
    }

    #[test]
    fn a_reading_takes_five_files_and_keeps_the_fixed_attributes() {
        let root = tree("read");
        let read = files(&root).read().unwrap();
        let expected = PortAttributes {
            lid: Lid(0x1c),
            lmc: 2,
            sm_lid: Lid(1),
            sm_sl: 3,
            state: 4,
            ..known()
        };
        assert_eq!(read, expected);
        std::fs::write(Path::new(&root).join("mlx5_0/ports/1/state"), "what\n").unwrap();
        assert_eq!(
            files(&root).read().unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        std::fs::remove_dir_all(root).unwrap();
    }

    /// Waits for the first reading that `wanted` accepts.
    #[expect(clippy::disallowed_methods, reason = "the watch runs in real time")]
    fn wait(watch: &PortWatch, wanted: impl Fn(&Reading) -> bool) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            if watch.poll().is_some_and(|reading| wanted(&reading)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    #[test]
    fn changes_of_the_state_are_read_and_a_vanished_device_is_gone_for_good() {
        let root = tree("watch");
        let watch =
            PortWatch::start_every(Duration::from_millis(2), "mlx5_0:1", files(&root)).unwrap();
        let state = |wanted: u8| move |reading: &Reading| matches!(reading, Reading::Port(port) if port.state == wanted);
        assert!(wait(&watch, state(4)));
        let file = Path::new(&root).join("mlx5_0/ports/1/state");
        let other = Path::new(&root).join("state");
        std::fs::write(&other, "2: INIT\n").unwrap();
        std::fs::rename(&other, &file).unwrap();
        assert!(wait(&watch, state(2)));
        std::fs::remove_dir_all(root).unwrap();
        assert!(wait(&watch, |reading| *reading == Reading::Gone));
        assert_eq!(watch.poll(), Some(Reading::Gone), "for good");
    }
}
