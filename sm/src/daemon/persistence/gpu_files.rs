//! Moves GPU inventories from files of earlier versions into the store.
//!
//! ```text
//! DIR/gpu/hosts/NAME.json          a host; the file was written at the host's last report
//! DIR/gpu/machine-type/NAME.json   the machine type of the other hosts
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rsm_gdr::import::{InventoryFormat, MAX_BYTES, import};
use rsm_gdr::inventory::HostInventory;

use super::gpus::{StoredGpus, set_machine_type};

/// Files of an earlier version, to be removed once the store holds their inventories.
#[derive(Default)]
pub(super) struct OldFiles {
    /// Folder `gpu` of the state folder.
    folder: PathBuf,
    /// Files that were read without an error.
    read: Vec<PathBuf>,
}

/// Adds the inventories of the files below `dir` that `stored` lacks or has in an older version.
/// Logs a warning for an unreadable file, and keeps the file.
pub(super) fn load(dir: &Path, stored: &mut StoredGpus) -> OldFiles {
    let folder = dir.join("gpu");
    let mut old = OldFiles {
        folder: folder.clone(),
        read: Vec::new(),
    };
    for (name, path) in files(&folder.join("hosts")) {
        let result = read(&path).and_then(|(host, seen)| {
            let known = stored.inventory.hosts().get(&name);
            if known.is_none_or(|known| known.seen < seen) {
                stored.inventory.insert(&name, host, seen)?;
            }
            Ok(())
        });
        old.record(path, result);
    }
    for (name, path) in files(&folder.join("machine-type")) {
        let result = read(&path).and_then(|(host, _)| {
            if stored.inventory.default_machine_type().is_none() {
                set_machine_type(&mut stored.inventory, &name, &host)?;
            }
            Ok(())
        });
        old.record(path, result);
    }
    old
}

impl OldFiles {
    /// Schedules a file for removal, or logs why it cannot be used.
    fn record(&mut self, path: PathBuf, result: anyhow::Result<()>) {
        match result {
            Ok(()) => self.read.push(path),
            Err(error) => tracing::warn!("{} is not imported: {error:#}", path.display()),
        }
    }

    /// Whether there are no files to remove.
    pub(super) fn is_empty(&self) -> bool {
        self.read.is_empty()
    }

    /// Removes the files whose content the store now holds. A failure does no harm, because the
    /// next start finds the same inventories in the store.
    pub(super) fn remove(self) {
        for path in &self.read {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!("{} cannot be removed: {error}", path.display());
            }
        }
        // A folder stays if it holds unreadable files.
        for folder in [
            self.folder.join("hosts"),
            self.folder.join("machine-type"),
            self.folder,
        ] {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Inventory files of a folder, each with the name of its host.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::warn!("{} cannot be read: {error}", folder.display());
            return Vec::new();
        }
        Ok(entries) => entries,
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let named = paths.filter_map(|path| {
        let name = path.file_stem()?.to_str()?.to_owned();
        let is_inventory = path.extension().is_some_and(|end| end == "json");
        is_inventory.then_some((name, path))
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named
}

/// Inventory in a file, with the time when the file was written in seconds since the Unix epoch.
fn read(path: &Path) -> anyhow::Result<(HostInventory, u64)> {
    let about = fs::metadata(path)?;
    anyhow::ensure!(
        about.len() <= MAX_BYTES as u64,
        "{} bytes, expected at most {MAX_BYTES}",
        about.len()
    );
    let written = about.modified()?;
    let seen = written
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let text = fs::read(path).context("cannot read it")?;
    Ok((import(InventoryFormat::Json, &text)?, seen.as_secs()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    const HOST: &str = r#"{"version":1,"gpus":[{"index":0}],"hca_ports":[{"device":"mlx5_0","port":1}],"tiers":[["PIX"]]}"#;

    #[test]
    fn files_of_an_earlier_version_are_imported_once_and_unreadable_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str, seen: u64| {
            let path = dir.path().join("gpu").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seen);
            file.set_modified(time).unwrap();
        };
        put("hosts/gpu-1.json", HOST, 100);
        put("hosts/gpu-2.json", HOST, 100);
        put("hosts/gpu-3.json", "{", 100);
        put("hosts/.gpu-4.new", "{", 100);
        put("machine-type/dgx.json", HOST, 100);
        let mut stored = StoredGpus::default();
        let known = import(InventoryFormat::Json, HOST.as_bytes()).unwrap();
        stored.inventory.insert("gpu-2", known, 200).unwrap();
        let old = load(dir.path(), &mut stored);
        let hosts = stored.inventory.hosts();
        let seen: Vec<(&str, u64)> = (hosts.iter())
            .map(|(name, record)| (name.as_str(), record.seen))
            .collect();
        assert_eq!(seen, [("gpu-1", 100), ("gpu-2", 200)]);
        assert_eq!(stored.inventory.default_machine_type(), Some("dgx"));
        assert!(!old.is_empty());
        old.remove();
        let left = fs::read_dir(dir.path().join("gpu/hosts")).unwrap();
        let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".gpu-4.new", "gpu-3.json"]);
        assert!(load(dir.path(), &mut StoredGpus::default()).is_empty());
    }
}
