//! The files in which inventories survive a restart.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use rsm_gdr::hosts::HostError;
use rsm_gdr::import::{InventoryFormat, MAX_BYTES, import, to_json};
use rsm_gdr::inventory::HostInventory;

/// The folder of inventories; without one they do not survive a restart.
pub(super) struct Files(pub(super) Option<PathBuf>);

impl Files {
    /// Writes inventories: after an error, or a loss of power, each file is an old or a new one.
    pub(super) fn keep<'a>(
        &self,
        folder: &str,
        hosts: impl Iterator<Item = (&'a str, &'a HostInventory)>,
    ) -> io::Result<()> {
        let Some(dir) = &self.0 else { return Ok(()) };
        let folder = dir.join(folder);
        fs::create_dir_all(&folder)?;
        let mut written = Vec::new();
        let outcome = write_all(&folder, hosts, &mut written).and_then(|()| {
            for (new, old) in &written {
                fs::rename(new, old)?;
            }
            File::open(&folder)?.sync_all()
        });
        if outcome.is_err() {
            // Those that were renamed are gone already.
            written
                .iter()
                .for_each(|(new, _)| drop(fs::remove_file(new)));
        }
        outcome
    }

    /// Notes in the files that inventories hold at `seen`, in seconds since the Unix epoch. A
    /// failure only makes an inventory look older after a restart.
    pub(super) fn touch(&self, folder: &str, name: &str, seen: u64) {
        let Some(dir) = &self.0 else { return };
        let path = dir.join(folder).join(format!("{name}.json"));
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seen);
        let touched = File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(time));
        if let Err(error) = touched {
            tracing::debug!("{}: its time cannot be set: {error}", path.display());
        }
    }

    /// Removes the file of an inventory, if there is one.
    pub(super) fn remove(&self, folder: &str, name: &str) -> io::Result<()> {
        let Some(dir) = &self.0 else { return Ok(()) };
        match fs::remove_file(dir.join(folder).join(format!("{name}.json"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes all other files of a folder.
    pub(super) fn remove_all_but(&self, folder: &str, name: &str) -> io::Result<()> {
        let Some(dir) = &self.0 else { return Ok(()) };
        let kept = dir.join(folder).join(format!("{name}.json"));
        for entry in fs::read_dir(dir.join(folder))? {
            let path = entry?.path();
            if path != kept {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Writes each inventory beside its file, and waits until all are on the disk.
fn write_all<'a>(
    folder: &Path,
    hosts: impl Iterator<Item = (&'a str, &'a HostInventory)>,
    written: &mut Vec<(PathBuf, PathBuf)>,
) -> io::Result<()> {
    let mut last = None;
    for (name, host) in hosts {
        let new = folder.join(format!(".{name}.new"));
        written.push((new.clone(), folder.join(format!("{name}.json"))));
        let mut file = File::create(&new)?;
        file.write_all(to_json(host).as_bytes())?;
        last = Some(file);
    }
    match (last, written.len()) {
        (None, _) => Ok(()),
        (Some(file), 1) => file.sync_all(),
        // One wait for all files, rather than one for each.
        (Some(file), _) => Ok(rustix::fs::syncfs(&file)?),
    }
}

/// Loads every inventory file of a folder, with its modification time.
pub(super) fn load(
    folder: &Path,
    mut take: impl FnMut(&str, HostInventory, u64) -> Result<(), HostError>,
) -> anyhow::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| format!("cannot read {}", folder.display()))?,
    };
    let mut files = BTreeMap::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot read {}", folder.display()))?
            .path();
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .map(str::to_owned);
        if let (Some(name), Some("json")) = (name, path.extension().and_then(|end| end.to_str())) {
            files.insert(name, path);
        }
    }
    for (name, path) in files {
        let taken = read(&path).and_then(|(host, seen)| Ok(take(&name, host, seen)?));
        if let Err(error) = taken {
            tracing::warn!("{} is passed over: {error:#}", path.display());
        }
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<(HostInventory, u64)> {
    let about = fs::metadata(path)?;
    anyhow::ensure!(
        about.len() <= MAX_BYTES as u64,
        "{} bytes, expected at most {MAX_BYTES}",
        about.len()
    );
    let written = about
        .modified()?
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Ok((
        import(InventoryFormat::Json, &fs::read(path)?)?,
        written.as_secs(),
    ))
}
