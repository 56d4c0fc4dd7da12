//! Opens the database, and ensures that its contents are as committed, or are reported as damaged.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::codec::{self, SCHEMA, SENTINEL_KEY, Sentinel, StoredRecord};
use super::database::{Contents, Database, OpenFailure, RecordChange};
use super::export::{Export, ExportError};
use super::io::Disk;
use super::layout::Layout;
use super::sidecar::Sidecar;
use super::{LoadReport, Origin, Persisted, Quarantined, StoreError};

/// Number of successive attempts to open the database that ended the process (by a stack overflow
/// or an unbounded allocation) after which the database is quarantined unopened. A single attempt
/// may have been ended by a kill.
const OPEN_ATTEMPTS: u32 = 3;

/// Checksum of each record's value, by key.
pub(super) type Sums = BTreeMap<Vec<u8>, u64>;

/// An open database and its contents.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) sentinel: Sentinel,
    pub(super) sums: Sums,
    pub(super) state: Persisted,
    pub(super) report: LoadReport,
    /// Whether an export contains this state.
    pub(super) is_exported: bool,
}

/// The contents of the files next to the database: the sidecar and the exports.
struct SideFiles {
    /// `None` if the file is missing or damaged.
    sidecar: Option<Sidecar>,
    /// The newest readable export, and its path.
    export: Option<(PathBuf, Export)>,
    /// Exports that cannot be read, each with the reason.
    damaged: Vec<(PathBuf, ExportError)>,
    /// Sentences for the load report.
    notes: Vec<String>,
}

impl SideFiles {
    /// Minimum generation of a database that has lost no commit; zero if there is neither sidecar
    /// nor export.
    fn minimum_generation(&self) -> u64 {
        let sidecar = self.sidecar.map_or(0, |s| s.sentinel.generation);
        let export = self.export.as_ref().map_or(0, |(_, e)| e.generation);
        sidecar.max(export)
    }

    /// Whether the export contains the commit whose generation `marker` names.
    fn has_commit(&self, marker: &[u8]) -> bool {
        let generation = std::str::from_utf8(marker).ok();
        let generation = generation.and_then(|text| text.trim().parse::<u64>().ok());
        let export = self.export.as_ref().map(|(_, export)| export.generation);
        generation.is_some_and(|generation| export >= Some(generation))
    }
}

/// Opens the store, and restores it from the export if necessary.
pub(super) fn open(disk: &Disk, layout: &Layout) -> Result<Opened, StoreError> {
    let mut side_files = SideFiles::read(disk, layout)?;
    side_files.rename_damaged(disk)?;
    let path = layout.database();
    match disk.read(&layout.unfinished())?.as_deref() {
        None => {}
        Some([]) => disk.remove_dir(&path)?,
        Some(marker) if side_files.has_commit(marker) => {
            disk.remove_dir(&path)?;
            return create(disk, layout, side_files, Cause::Interrupted);
        }
        // The commit ended before its first batch, or the marker is damaged. In both cases the
        // database is checked like any other.
        Some(_) => disk.remove_file(&layout.unfinished())?,
    }
    let reason = if disk.list(&path)?.is_empty() {
        if side_files.minimum_generation() == 0 {
            return create(disk, layout, side_files, Cause::Fresh);
        }
        "the database is missing".to_owned()
    } else {
        match open_existing(disk, layout, &side_files)? {
            Ok(opened) => return Ok(opened),
            Err(reason) => reason,
        }
    };
    create(disk, layout, side_files, Cause::Unusable(reason))
}

/// Reason for creating a new database.
enum Cause {
    /// There is no database.
    Fresh,
    /// The database has a part of a commit, and the export has the whole commit.
    Interrupted,
    /// The database cannot be used, for the given reason.
    Unusable(String),
}

impl SideFiles {
    /// Reads the sidecar and the exports.
    ///
    /// # Errors
    /// [`StoreError::Schema`] if another version wrote a file, or an I/O error.
    fn read(disk: &Disk, layout: &Layout) -> Result<SideFiles, StoreError> {
        let mut notes = Vec::new();
        let path = layout.sidecar();
        let mut sidecar = None;
        if let Some(bytes) = disk.read(&path)? {
            sidecar = Sidecar::from_bytes(&bytes);
            match sidecar {
                Some(s) => check_schema(s.sentinel.schema, path)?,
                None => notes.push(format!("{} is damaged", path.display())),
            }
        }
        let mut export: Option<(PathBuf, Export)> = None;
        let mut damaged = Vec::new();
        for path in [layout.export(), layout.export_before()] {
            let Some(bytes) = disk.read(&path)? else {
                continue;
            };
            match Export::from_bytes(&bytes) {
                Ok(found) => {
                    if found.cut_off > 0 {
                        notes.push(format!(
                            "the last {} bytes of {} are no whole commit, and do not count",
                            found.cut_off,
                            path.display()
                        ));
                    }
                    if export
                        .as_ref()
                        .is_none_or(|(_, best)| best.generation < found.generation)
                    {
                        export = Some((path, found));
                    }
                }
                Err(ExportError::Schema(found)) => check_schema(found, path)?,
                Err(error) => damaged.push((path, error)),
            }
        }
        Ok(SideFiles {
            sidecar,
            export,
            damaged,
            notes,
        })
    }

    /// Renames the damaged exports, so that the next export does not replace a good one with them.
    fn rename_damaged(&mut self, disk: &Disk) -> Result<(), StoreError> {
        for (path, error) in self.damaged.drain(..) {
            let aside = path.with_extension("damaged");
            disk.rename(&path, &aside)?;
            let (path, aside) = (path.display(), aside.display());
            self.notes
                .push(format!("{path} {error}: it is kept as {aside}"));
        }
        Ok(())
    }
}

/// Reads the contents without writing anything, for a directory that is not writable and whose
/// database therefore cannot be opened. A commit reaches the export before the journal drops its
/// entries, so that export and journal together contain every registration.
///
/// # Errors
/// [`StoreError::Schema`] if another version wrote the store, or an I/O error.
pub(super) fn read_unopened(
    disk: &Disk,
    layout: &Layout,
) -> Result<(Persisted, LoadReport), StoreError> {
    let SideFiles {
        sidecar,
        export,
        damaged,
        mut notes,
    } = SideFiles::read(disk, layout)?;
    let damaged = damaged.into_iter();
    notes.extend(damaged.map(|(path, error)| format!("{} {error}", path.display())));
    let committed = sidecar.map_or(0, |sidecar| sidecar.sentinel.generation);
    let Some((path, export)) = export else {
        let is_fresh = committed == 0 && disk.list(&layout.database())?.is_empty();
        let report = match is_fresh {
            true => LoadReport::default(),
            false => LoadReport::unreadable("it cannot be opened, and has no text copy".to_owned()),
        };
        return Ok((Persisted::default(), LoadReport { notes, ..report }));
    };
    let mut state = export.state;
    if let Some(sidecar) = sidecar {
        state.plan_generation = state.plan_generation.max(sidecar.sentinel.plan_generation);
    }
    if export.generation < committed {
        notes.push(format!(
            "{} is at generation {}, and {committed} was committed",
            path.display(),
            export.generation
        ));
    }
    let report = LoadReport {
        origin: Origin::Unopened(path),
        generation: export.generation,
        quarantined: None,
        notes,
    };
    Ok((state, report))
}

/// Checks that `found`, the schema that the file at `path` names, is [`SCHEMA`].
fn check_schema(found: u16, path: PathBuf) -> Result<(), StoreError> {
    if found == SCHEMA {
        return Ok(());
    }
    Err(StoreError::Schema {
        path,
        found,
        supported: SCHEMA,
    })
}

/// Opens an existing database. The inner error is the reason why the database cannot be trusted.
fn open_existing(
    disk: &Disk,
    layout: &Layout,
    side_files: &SideFiles,
) -> Result<Result<Opened, String>, StoreError> {
    let path = layout.database();
    let clean = side_files.sidecar.is_some_and(|s| s.clean);
    if !clean {
        // Opening truncates parts that sled does not recognise, so that the files are copied first.
        disk.copy_dir(&path, &layout.as_found())?;
    }
    let attempts = read_attempts(disk, layout)?;
    if attempts >= OPEN_ATTEMPTS {
        return Ok(Err(format!(
            "opening the database ended the process {attempts} times"
        )));
    }
    write_attempts(disk, layout, attempts + 1)?;
    let (database, contents) = match Database::open(&path) {
        Ok(opened) => opened,
        Err(OpenFailure::Damaged(why)) => return Ok(Err(why)),
        Err(OpenFailure::System(error)) => {
            write_attempts(disk, layout, 0)?;
            return Err(error);
        }
    };
    write_attempts(disk, layout, 0)?;
    let checked = match verify(contents, side_files.minimum_generation()) {
        Ok(checked) => checked,
        Err(Untrusted::Schema(found)) => {
            return check_schema(found, path).map(|()| Err("names no schema".to_owned()));
        }
        Err(Untrusted::Damaged(why)) => return Ok(Err(why)),
    };
    let origin = if clean {
        Origin::Clean
    } else {
        Origin::Unclean
    };
    let is_exported = side_files.export.as_ref().is_some_and(|(_, export)| {
        export.state.claims == checked.state.claims && export.state.records == checked.state.records
    });
    let opened = Opened {
        database,
        is_exported,
        report: LoadReport {
            origin,
            generation: checked.sentinel.generation,
            quarantined: None,
            notes: side_files.notes.clone(),
        },
        sentinel: checked.sentinel,
        sums: checked.sums,
        state: checked.state,
    };
    Ok(Ok(opened))
}

/// Creates a database from the newest readable export, or an empty database if there is none.
fn create(
    disk: &Disk,
    layout: &Layout,
    side_files: SideFiles,
    cause: Cause,
) -> Result<Opened, StoreError> {
    let path = layout.database();
    let minimum_generation = side_files.minimum_generation();
    let is_resumed = matches!(cause, Cause::Interrupted);
    let quarantined = match cause {
        // An empty directory is not kept.
        Cause::Unusable(reason) if disk.list(&path)?.is_empty() => {
            Some(Quarantined { path: None, reason })
        }
        Cause::Unusable(reason) => Some(Quarantined {
            path: Some(layout.quarantine(disk)?),
            reason,
        }),
        Cause::Fresh | Cause::Interrupted => None,
    };
    write_attempts(disk, layout, 0)?;
    let (origin, mut state) = match side_files.export {
        Some((path, export)) if is_resumed => (Origin::Resumed(path), export.state),
        Some((path, export)) => (Origin::Export(path), export.state),
        None => (Origin::Fresh, Persisted::default()),
    };
    if let Some(sidecar) = side_files.sidecar {
        // The export may be older than the last plan, and no generation may be used twice.
        state.plan_generation = state.plan_generation.max(sidecar.sentinel.plan_generation);
    }
    let wanted = codec::encode_all(&state);
    let sums = sums_of(&wanted);
    let sentinel = sentinel_for(&sums, minimum_generation + 1, state.plan_generation);
    let database = build(disk, layout, &wanted, &sentinel)?;
    Ok(Opened {
        database,
        is_exported: true,
        report: LoadReport {
            origin,
            generation: sentinel.generation,
            quarantined,
            notes: side_files.notes,
        },
        sentinel,
        sums,
        state,
    })
}

/// Writes the marker for a commit of `generation` that is applied in several batches. The caller
/// writes the export of that generation before the first batch.
pub(super) fn write_marker(
    disk: &Disk,
    layout: &Layout,
    generation: u64,
) -> Result<(), StoreError> {
    disk.write(&layout.unfinished(), format!("{generation}\n").as_bytes())
}

/// Creates a database with `contents`.
///
/// A marker file exists until the database is complete. A database without marker and without
/// sentinel is therefore damaged, not interrupted.
pub(super) fn build(
    disk: &Disk,
    layout: &Layout,
    contents: &Contents,
    sentinel: &Sentinel,
) -> Result<Database, StoreError> {
    let (path, marker) = (layout.database(), layout.unfinished());
    disk.write(&marker, b"")?;
    disk.remove_dir(&path)?;
    disk.create_dir(&path)?;
    let (database, found) = Database::open(&path).map_err(|failure| match failure {
        OpenFailure::System(error) => error,
        OpenFailure::Damaged(message) => StoreError::Panicked {
            path: path.clone(),
            message,
        },
    })?;
    database.apply(disk, difference(&found, contents, sentinel))?;
    disk.sync(&path)?;
    disk.remove_file(&marker)?;
    Ok(database)
}

/// The changes that turn `found` into `wanted` with `sentinel`.
pub(super) fn difference(
    found: &Contents,
    wanted: &Contents,
    sentinel: &Sentinel,
) -> Vec<RecordChange> {
    let wanted: BTreeMap<&[u8], &[u8]> = wanted
        .iter()
        .map(|(key, value)| (key.as_slice(), value.as_slice()))
        .collect();
    let found: BTreeMap<&[u8], &[u8]> = found
        .iter()
        .map(|(key, value)| (key.as_slice(), value.as_slice()))
        .collect();
    let mut changes: Vec<RecordChange> = found
        .keys()
        .filter(|&&key| key != SENTINEL_KEY && !wanted.contains_key(key))
        .map(|key| (key.to_vec(), None))
        .collect();
    changes.extend(
        wanted
            .iter()
            .filter(|&(key, value)| found.get(key) != Some(value))
            .map(|(key, value)| (key.to_vec(), Some(value.to_vec()))),
    );
    changes.push((SENTINEL_KEY.to_vec(), Some(codec::sentinel_value(sentinel))));
    changes
}

/// The checksum of each record in `contents`, by key.
pub(super) fn sums_of(contents: &Contents) -> Sums {
    contents
        .iter()
        .map(|(key, value)| (key.clone(), codec::sum_of(value)))
        .collect()
}

/// The sentinel for records with the checksums `sums`.
pub(super) fn sentinel_for(sums: &Sums, generation: u64, plan_generation: u64) -> Sentinel {
    Sentinel {
        schema: SCHEMA,
        generation,
        count: sums.len() as u64,
        digest: sums.values().fold(0, |all, &sum| all.wrapping_add(sum)),
        plan_generation,
    }
}

/// Reason why a database cannot be used.
enum Untrusted {
    /// The database has this schema, which is not [`SCHEMA`].
    Schema(u16),
    /// The database is damaged, for the given reason.
    Damaged(String),
}

/// The contents of a database without damage.
struct Checked {
    sentinel: Sentinel,
    sums: Sums,
    state: Persisted,
}

/// Checks that the database contains exactly the records of one commit, whose generation is at
/// least `minimum`.
fn verify(mut contents: Contents, minimum: u64) -> Result<Checked, Untrusted> {
    let damaged = |why: String| Err(Untrusted::Damaged(why));
    let Some(at) = contents.iter().position(|(key, _)| *key == SENTINEL_KEY) else {
        let count = contents.len();
        return damaged(format!("its sentinel is missing; it holds {count} records"));
    };
    let (_, value) = contents.remove(at);
    let sentinel = match codec::decode_sentinel(&value) {
        Ok(sentinel) if sentinel.schema == SCHEMA => sentinel,
        Ok(sentinel) => return Err(Untrusted::Schema(sentinel.schema)),
        Err(error) => return damaged(error.to_string()),
    };
    let generation = sentinel.generation;
    if generation < minimum {
        return damaged(format!(
            "it is at generation {generation}, but {minimum} was committed"
        ));
    }
    let mut state = Persisted {
        plan_generation: sentinel.plan_generation,
        ..Persisted::default()
    };
    for (key, value) in &contents {
        match codec::decode(key, value) {
            Ok(StoredRecord::Claim(guid, claim)) => {
                state.claims.insert(guid, claim);
            }
            Ok(StoredRecord::Generic(namespace, key, value)) => {
                let table = state.records.entry(namespace).or_default();
                table.insert(key, value);
            }
            Err(error) => return damaged(error.to_string()),
        }
    }
    let sums = sums_of(&contents);
    let actual = sentinel_for(&sums, generation, sentinel.plan_generation);
    if actual != sentinel {
        return damaged(format!(
            "it holds {} records that are not the {} of generation {generation}",
            actual.count, sentinel.count
        ));
    }
    Ok(Checked {
        sentinel,
        sums,
        state,
    })
}

/// Number of attempts to open the database since the last attempt that returned.
fn read_attempts(disk: &Disk, layout: &Layout) -> Result<u32, StoreError> {
    let bytes = disk.read(&layout.attempts())?;
    let text = bytes.as_deref().and_then(|b| std::str::from_utf8(b).ok());
    Ok(text.and_then(|t| t.trim().parse().ok()).unwrap_or(0))
}

/// Records the number of attempts to open the database; removes the file for zero.
fn write_attempts(disk: &Disk, layout: &Layout, attempts: u32) -> Result<(), StoreError> {
    let path = layout.attempts();
    if attempts == 0 {
        return disk.remove_file(&path);
    }
    disk.write(&path, format!("{attempts}\n").as_bytes())
}
