//! The audit log: refused requests, and requests that may change something, with their identity and
//! outcome, one JSON object per line.
//!
//! A separate thread writes the file, so that neither a request nor the fabric waits for a disk.
//! Lines that cannot be written are counted, and the next written line states the count.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use serde::Serialize;

/// The maximum number of entries that wait for the disk: at some 500 bytes each, half a megabyte.
const QUEUE: usize = 1024;

/// The number of full files that are kept beside the current one.
pub const OLD_FILES: usize = 4;

/// The name of the file in its folder; older files have the suffixes `.1` to `.4`.
pub const FILE_NAME: &str = "audit.jsonl";

/// The maximum length of a reason in an entry, in bytes.
const MAX_REASON_BYTES: usize = 512;

/// One line of the audit log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AuditEntry {
    /// The time, RFC 3339 in UTC.
    pub time: String,
    /// The number of the request since the start of the process. A call that changes something has
    /// an entry with the verdict `begun`, and a later one with the same number for its end.
    pub request: u64,
    /// The name of the identity, as in [`Caller::name`](super::Caller::name); `unproved` if the
    /// proof was wrong.
    pub identity: String,
    /// The name of the proof of the identity, by [`Proof::name`](super::Proof::name).
    pub proof: &'static str,
    /// The other end of the connection.
    pub peer: String,
    /// The call, such as `rsm.v1.MaintenanceService/Drain`.
    pub call: String,
    /// The SHA-256 of the request's message, in hexadecimal; empty if the message was not read.
    pub digest: String,
    /// The outcome: `refused`, `begun`, `done`, `failed` or `cancelled`.
    pub verdict: &'static str,
    /// The reason why the request was refused, failed or was cancelled; in an entry `done`, the
    /// effect beyond the requested one. Often empty.
    pub reason: String,
    /// The generation of the subnet when the request arrived; 0 in an entry `refused`.
    pub generation_before: u64,
    /// The generation when the request ended; `None` in an entry `begun` or `refused`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation_after: Option<u64>,
    /// The number of refusals, of any identity, since the last entry `refused` that have no entry
    /// of their own.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_refused: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// `text`, cut to the maximum length of a reason.
pub(super) fn reason(text: &str) -> String {
    let mut end = text.len().min(MAX_REASON_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// A sink of audit entries, which never waits.
pub trait AuditSink: Send + Sync + 'static {
    /// Takes an entry.
    fn put(&self, entry: AuditEntry);
}

/// A sink that keeps nothing; entries are in the log of the process in any case.
#[derive(Debug)]
pub struct NoAudit;

impl AuditSink for NoAudit {
    fn put(&self, _entry: AuditEntry) {}
}

/// A function that is informed about the file: `Some` with a reason when lines are lost, `None`
/// when they are written again.
pub type AuditHealth = Box<dyn Fn(Option<String>) + Send>;

/// The audit log in a folder.
pub struct AuditFile {
    /// The entries for the thread; `None` ends it.
    queue: SyncSender<Option<AuditEntry>>,
    /// The number of entries that were not written and are not reported in the file yet.
    lost: Arc<AtomicU64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl AuditFile {
    /// Starts the thread that appends to [`FILE_NAME`] in `folder`, and begins a new file at
    /// `max_bytes`.
    ///
    /// # Errors
    /// The thread cannot be started. A file that cannot be opened is reported to `health`, and
    /// opening it is retried with each entry.
    pub fn start(folder: &Path, max_bytes: u64, health: AuditHealth) -> io::Result<AuditFile> {
        let (queue, entries) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let mut writer = Writer {
            path: folder.join(FILE_NAME),
            max_bytes,
            open: None,
            lost: lost.clone(),
            health,
            failing: false,
        };
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run(&entries))?;
        Ok(AuditFile {
            queue,
            lost,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Writes the waiting entries, and ends the thread. Later entries are lost.
    pub fn finish(&self) {
        // A thread that has already ended receives nothing.
        drop(self.queue.send(None));
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the audit log panicked");
        }
    }
}

impl AuditSink for AuditFile {
    fn put(&self, entry: AuditEntry) {
        match self.queue.try_send(Some(entry)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

struct Writer {
    path: PathBuf,
    max_bytes: u64,
    /// The open file and its length in bytes.
    open: Option<(File, u64)>,
    lost: Arc<AtomicU64>,
    health: AuditHealth,
    failing: bool,
}

/// The line that reports lost entries.
#[derive(Serialize)]
struct Lost {
    lost_entries: u64,
}

impl Writer {
    fn run(&mut self, entries: &Receiver<Option<AuditEntry>>) {
        while let Ok(Some(entry)) = entries.recv() {
            let mut lines = line(&entry);
            let lost = self.lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                let lost = Lost { lost_entries: lost };
                lines.splice(0..0, line(&lost));
            }
            match self.append(&lines) {
                Ok(()) => self.report_success(),
                Err(error) => {
                    self.open = None;
                    self.lost.fetch_add(lost + 1, Ordering::Relaxed);
                    self.report_failure(&error);
                }
            }
        }
    }

    /// Appends whole lines, which are on the disk when this returns.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let full = self.open.as_ref().map(|(_, length)| *length);
        if full.is_some_and(|length| length + lines.len() as u64 > self.max_bytes) {
            self.open = None;
            rotate(&self.path)?;
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => open_file(&self.path)?,
        };
        let (file, length) = &mut open;
        if let Err(error) = file.write_all(lines).and_then(|()| file.sync_data()) {
            // Removes a partial line, as far as the disk permits.
            drop(file.set_len(*length));
            return Err(error);
        }
        *length += lines.len() as u64;
        self.open = Some(open);
        Ok(())
    }

    fn report_success(&mut self) {
        if self.failing {
            self.failing = false;
            (self.health)(None);
        }
    }

    fn report_failure(&mut self, error: &io::Error) {
        self.failing = true;
        (self.health)(Some(format!(
            "the audit log {} cannot be written ({error}): calls are served and the fabric is managed, but their entries \
             are only in the log of the daemon; make room in the state folder, or mount it writable",
            self.path.display()
        )));
    }
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Opens the file for appending; returns it with its length in bytes. Ends the last line if a crash
/// has cut it off.
fn open_file(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let mut length = file.metadata()?.len();
    if length > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
            length += 1;
        }
    }
    Ok((file, length))
}

/// Renames the file to `.1`, and each older one to the next number; the oldest is deleted.
fn rotate(path: &Path) -> io::Result<()> {
    let old = |number: usize| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    for number in (1..OLD_FILES).rev() {
        match fs::rename(old(number), old(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, old(1))
}

#[cfg(test)]
mod tests;
