use super::StoreError;
use super::io::Disk;
use super::layout::Layout;

/// The kind of fabric that a store belongs to.
///
/// The file `fabric` in the state directory, the mark, names the kind. A store whose mark is
/// missing or damaged counts as a store of hardware: a subnet manager must start with the store
/// that it had, whereas a simulation can start without a store. Earlier versions wrote no mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreFabric {
    /// A fabric that InfiniBand adapters of this host reach.
    Hardware,
    /// A simulated fabric.
    Simulation,
}

impl StoreFabric {
    /// Word for the kind in the mark.
    const fn word(self) -> &'static str {
        match self {
            StoreFabric::Hardware => "hardware",
            StoreFabric::Simulation => "simulation",
        }
    }

    /// The kind in a mark with the contents `bytes`; `None` if the mark is damaged.
    fn of_mark(bytes: &[u8]) -> Option<StoreFabric> {
        let word = bytes.trim_ascii();
        [StoreFabric::Hardware, StoreFabric::Simulation]
            .into_iter()
            .find(|fabric| fabric.word().as_bytes() == word)
    }
}

/// Checks that the store in `layout` is of the kind `wanted`, and writes the mark if it is absent
/// or damaged. The caller must hold the lock, and must not have read the store yet.
///
/// # Errors
/// Fails as [`check`] does, or if the mark of a simulation cannot be written.
pub(super) fn claim(disk: &Disk, layout: &Layout, wanted: StoreFabric) -> Result<(), StoreError> {
    if check(disk, layout, wanted)?.is_some() {
        return Ok(());
    }
    let mark = format!("{}\n", wanted.word());
    let written = disk.write(&layout.fabric(), mark.as_bytes());
    match wanted {
        // A store without the mark counts as a store of hardware: a full disk must not keep a
        // manager from running.
        StoreFabric::Hardware => Ok(()),
        StoreFabric::Simulation => written,
    }
}

/// Checks that the store in `layout` is of the kind `wanted`. Returns the kind in the mark; `None`
/// if the mark is absent or damaged.
///
/// # Errors
/// [`StoreError::OfHardware`] or [`StoreError::OfSimulation`] if the store is of the other kind; an
/// I/O error if the mark cannot be read.
pub(super) fn check(
    disk: &Disk,
    layout: &Layout,
    wanted: StoreFabric,
) -> Result<Option<StoreFabric>, StoreError> {
    let path = layout.fabric();
    let written = disk.read(&path)?;
    let marked = written.as_deref().and_then(StoreFabric::of_mark);
    let found = match marked {
        Some(marked) => marked,
        None if has_store(disk, layout)? => StoreFabric::Hardware,
        None => wanted,
    };
    if found != wanted {
        let dir = layout.dir().to_owned();
        return Err(match wanted {
            StoreFabric::Simulation => StoreError::OfHardware {
                dir,
                mark: path,
                is_marked: marked.is_some(),
            },
            StoreFabric::Hardware => StoreError::OfSimulation { dir },
        });
    }
    Ok(marked)
}

/// Whether the directory contains a store, or remains of one.
fn has_store(disk: &Disk, layout: &Layout) -> Result<bool, StoreError> {
    for path in [layout.sidecar(), layout.export(), layout.database()] {
        if disk.exists(&path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::SledStore;
    use super::*;

    fn open(dir: &Path, fabric: StoreFabric) -> Result<(), StoreError> {
        SledStore::open(dir, fabric).map(drop)
    }

    fn mark(dir: &Path) -> String {
        fs::read_to_string(dir.join("fabric")).unwrap()
    }

    /// All files of the folder except the lock, with their contents.
    fn files(dir: &Path) -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
        let mut files: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| !path.ends_with("lock"))
            .map(|path| (path.clone(), fs::read(path).ok()))
            .collect();
        files.sort();
        files
    }

    #[test]
    fn store_opens_only_for_its_kind_of_fabric_and_a_refusal_changes_nothing() {
        for (own, other, advice) in [
            (
                StoreFabric::Hardware,
                StoreFabric::Simulation,
                "--state-dir",
            ),
            (StoreFabric::Simulation, StoreFabric::Hardware, "remove"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            open(dir.path(), own).unwrap();
            open(dir.path(), own).unwrap();
            let before = files(dir.path());
            let refused = open(dir.path(), other).unwrap_err().to_string();
            assert!(refused.contains(advice), "{refused}");
            assert!(refused.contains(dir.path().to_str().unwrap()), "{refused}");
            assert_eq!(files(dir.path()), before);
        }
    }

    #[test]
    fn store_without_a_valid_mark_counts_as_a_store_of_hardware() {
        for damage in [None, Some("hard"), Some("")] {
            let dir = tempfile::tempdir().unwrap();
            open(dir.path(), StoreFabric::Simulation).unwrap();
            match damage {
                None => fs::remove_file(dir.path().join("fabric")).unwrap(),
                Some(text) => fs::write(dir.path().join("fabric"), text).unwrap(),
            }
            let refused = open(dir.path(), StoreFabric::Simulation).unwrap_err();
            let refused = refused.to_string();
            assert!(refused.contains("earlier version"), "{refused}");
            open(dir.path(), StoreFabric::Hardware).unwrap();
            assert_eq!(mark(dir.path()), "hardware\n");
        }
    }
}
