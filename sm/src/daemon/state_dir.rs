//! Checks that the state folder is writable: a full disk or a read-only file system becomes a
//! finding before the next commit needs the folder.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context as _;

use super::findings::{DaemonFindings, DaemonPart};

/// Time between two checks of a folder, which is also the time within which an operator learns of a
/// full disk. A check writes one small file.
pub(super) const CHECK_EVERY: Duration = Duration::from_secs(10);

/// Number of bytes that a check writes: one block of common file systems, which a full disk
/// refuses.
const CHECKED_BYTES: usize = 4096;

/// File that a check writes and removes.
const CHECK_FILE: &str = ".rsm-write-check";

/// Checks the state folder on its own thread, because a hanging disk must not delay other work.
pub(super) struct StateDir {
    /// The running thread, which ends when the sender is dropped; `None` without a folder.
    running: Option<(mpsc::Sender<()>, std::thread::JoinHandle<()>)>,
}

impl StateDir {
    /// Checks `dir` now and every [`CHECK_EVERY`]; if `dir` is `None`, checks nothing.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(dir: Option<&Path>, findings: DaemonFindings) -> anyhow::Result<StateDir> {
        let Some(dir) = dir.map(PathBuf::from) else {
            return Ok(StateDir { running: None });
        };
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("state-dir".to_owned())
            .spawn(move || {
                loop {
                    report(&dir, &findings);
                    if stopped.recv_timeout(CHECK_EVERY) != Err(RecvTimeoutError::Timeout) {
                        break;
                    }
                }
            })
            .context("cannot start the thread that checks the state folder")?;
        Ok(StateDir {
            running: Some((stop, thread)),
        })
    }

    /// Ends the checks.
    pub(super) fn finish(self) {
        if let Some((stop, thread)) = self.running {
            drop(stop);
            if thread.join().is_err() {
                tracing::error!("the thread that checks the state folder panicked");
            }
        }
    }
}

/// Checks the folder, and reports or clears the finding.
fn report(dir: &Path, findings: &DaemonFindings) {
    match check(dir) {
        Ok(()) => findings.clear(DaemonPart::StateDir),
        Err(error) => findings.fail(
            DaemonPart::StateDir,
            format!(
                "the state folder {} cannot be written ({error}): LIDs and registrations from now on are forgotten by a \
                 restart, traffic goes on; make room there, or mount it writable",
                dir.display()
            ),
        ),
    }
}

/// Writes a small file to `dir`, and removes it.
///
/// # Errors
/// The file system returns an error, for instance because it is full or read-only.
pub(super) fn check(dir: &Path) -> io::Result<()> {
    let path = dir.join(CHECK_FILE);
    let written = (|| {
        let mut file = File::create(&path)?;
        file.write_all(&[0; CHECKED_BYTES])?;
        // Some file systems allocate space only now.
        file.sync_all()
    })();
    match (written, fs::remove_file(&path)) {
        (Ok(()), removed) => removed,
        // After a failed write there may be no file to remove.
        (Err(error), _) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_folder_is_a_finding_until_it_exists_again() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("state");
        let findings = DaemonFindings::new();
        report(&dir, &findings);
        let [finding] = &findings.all()[..] else {
            panic!("one finding");
        };
        assert!(finding.text.contains("state"), "{}", finding.text);
        fs::create_dir(&dir).unwrap();
        report(&dir, &findings);
        assert_eq!(findings.all(), []);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn a_full_disk_fails_the_check() {
        // Every write to /dev/full fails as on a full disk.
        let full = Path::new("/dev/full");
        if !full.exists() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(full, dir.path().join(CHECK_FILE)).unwrap();
        let error = check(dir.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
