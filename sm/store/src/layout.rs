use std::path::{Path, PathBuf};

use super::StoreError;
use super::io::Disk;

/// Number of quarantined databases kept for inspection; the oldest are removed first.
pub(super) const QUARANTINE_KEEP: usize = 3;

/// Paths inside the state directory.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    dir: PathBuf,
}

impl Layout {
    /// The paths inside `dir`.
    pub(super) fn new(dir: &Path) -> Layout {
        Layout {
            dir: dir.to_owned(),
        }
    }

    /// The state directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// File with the kind of fabric.
    pub(super) fn fabric(&self) -> PathBuf {
        self.dir.join("fabric")
    }

    /// Directory of the database (sled's files).
    pub(super) fn database(&self) -> PathBuf {
        self.dir.join("db")
    }

    /// Marker that exists while the database is incomplete: empty while a new database is written,
    /// and with a generation while a commit is written in several batches.
    pub(super) fn unfinished(&self) -> PathBuf {
        self.dir.join("db.unfinished")
    }

    /// Copy of the database, made after the last unclean stop before the database was opened.
    pub(super) fn as_found(&self) -> PathBuf {
        self.dir.join("db.prev")
    }

    /// The sidecar: the state that the database must at least contain.
    pub(super) fn sidecar(&self) -> PathBuf {
        self.dir.join("store.meta")
    }

    /// The export.
    pub(super) fn export(&self) -> PathBuf {
        self.dir.join("export.jsonl")
    }

    /// The former export, which the last export that was written as a whole has replaced.
    pub(super) fn export_before(&self) -> PathBuf {
        self.dir.join("export.prev.jsonl")
    }

    /// File with the number of successive attempts to open the database that did not end.
    pub(super) fn attempts(&self) -> PathBuf {
        self.dir.join("opening")
    }

    /// Moves the database, and its copy from before it was opened, into a new directory in
    /// quarantine. Returns the path of that directory.
    pub(super) fn quarantine(&self, disk: &Disk) -> Result<PathBuf, StoreError> {
        let quarantine = self.dir.join("quarantine");
        disk.create_dir(&quarantine)?;
        let kept = disk.list(&quarantine)?;
        let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
        let next = kept
            .iter()
            .filter_map(number)
            .max()
            .map_or(1, |n| n.saturating_add(1));
        // Names have a fixed width, so that they sort by age.
        let path = quarantine.join(format!("{next:06}"));
        disk.create_dir(&path)?;
        disk.rename(&self.database(), &path.join("db"))?;
        let as_found = self.as_found();
        if !disk.list(&as_found)?.is_empty() {
            disk.rename(&as_found, &path.join("db.prev"))?;
        }
        let surplus = (kept.len() + 1).saturating_sub(QUARANTINE_KEEP);
        for old in kept.iter().take(surplus) {
            disk.remove_dir(old)?;
        }
        Ok(path)
    }
}
