//! Writes the configuration, the key of the SA, and the store.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};

use rsm_config::{ConfigError, ConfigFinding, KNOWN_KEY, SA_KEY_FILE};

use super::Migration;
use crate::daemon::{ImportError, Imported, import};

/// File mode of a configuration without keys.
const READABLE_MODE: u32 = 0o644;

/// File mode of a configuration with keys.
const SECRET_MODE: u32 = 0o640;

/// File mode of the SA's key.
const OWNER_ONLY_MODE: u32 = 0o600;

/// Source of the system's random numbers.
const RANDOM: &str = "/dev/urandom";

/// Paths of the results.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// Configuration file.
    pub config: PathBuf,
    /// State folder.
    pub state_dir: PathBuf,
}

/// Reason why nothing, or only a part, was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file of OpenSM has errors.
    #[error(
        "nothing is written: correct {}, or delete the line, and run rsm migrate again",
        match errors { 1 => "the error".to_owned(), _ => format!("the {errors} errors") }
    )]
    Errors {
        /// Number of errors.
        errors: usize,
    },
    /// The configuration file exists.
    #[error(
        "{} exists, and rsm migrate overwrites no file: nothing is written; move it away, or name another with --output",
        path.display()
    )]
    Exists {
        /// Path of the file.
        path: PathBuf,
    },
    /// The store cannot be created.
    #[error("no store is made in {}, and no configuration written; name another folder with --state-dir", dir.display())]
    Store {
        /// State folder.
        dir: PathBuf,
        /// Cause of the failure.
        #[source]
        source: ImportError,
    },
    /// No random number could be read for the SA's key.
    #[error("no key of the SA is made, and nothing written: cannot read {RANDOM}")]
    Random {
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The text does not read back as the same configuration.
    #[error(
        "the configuration to write does not read back as the one to write: this is a defect of rsm"
    )]
    Unfaithful,
    /// The values contradict each other.
    #[error("the values contradict each other: nothing is written")]
    Refused {
        /// Contradiction between the values.
        #[source]
        source: ConfigError,
    },
}

impl Migration {
    /// Writes the store, then the configuration. Returns what the store lacks.
    ///
    /// # Errors
    /// A file of OpenSM has errors, a configuration or a store exists already, or the disk fails.
    pub fn write(&self, to: &Outputs) -> Result<Imported, WriteError> {
        let text = self.checked(to)?;
        let draft = Draft::write(&to.config, text.as_bytes(), self.mode())?;
        let key = match self.new_sa_key(to) {
            Some(path) => Some(Draft::write(
                &path,
                sa_key_text()?.as_bytes(),
                OWNER_ONLY_MODE,
            )?),
            None => None,
        };
        let imported = import(&to.state_dir, &self.claims, self.registrations.clone());
        // Even a store that cannot be filled has created files, which belong to the user of this
        // process.
        own_files(&to.state_dir).map_err(|source| WriteError::Write {
            path: to.state_dir.clone(),
            source,
        })?;
        let imported = imported.map_err(|source| WriteError::Store {
            dir: to.state_dir.clone(),
            source,
        })?;
        if let Some(key) = key {
            key.own_like(&to.state_dir)?;
            key.publish()?;
        }
        draft.publish()?;
        Ok(imported)
    }

    /// Path of a new key of the SA, beside the configuration; `None` if the configuration has a key
    /// or states that the SA trusts no request, or if such a file exists.
    pub(super) fn new_sa_key(&self, to: &Outputs) -> Option<PathBuf> {
        let path = to.config.with_file_name(SA_KEY_FILE);
        let is_wanted = self.config.sm.sa_key.is_none() && fs::symlink_metadata(&path).is_err();
        is_wanted.then_some(path)
    }

    /// Text of the configuration, if it may be written.
    ///
    /// # Errors
    /// Fails as [`Migration::write`] does, except for failures of the store and the disk.
    pub fn checked(&self, to: &Outputs) -> Result<String, WriteError> {
        use rsm_config::ConfigSeverity::Error;
        let errors = self.findings.iter();
        let errors = errors
            .filter(|ConfigFinding { severity, .. }| *severity == Error)
            .count();
        if errors > 0 {
            return Err(WriteError::Errors { errors });
        }
        // A symbolic link to a missing file also counts as present.
        if fs::symlink_metadata(&to.config).is_ok() {
            let path = to.config.clone();
            return Err(WriteError::Exists { path });
        }
        self.text()
    }

    /// File mode of the configuration.
    fn mode(&self) -> u32 {
        let sm = &self.config.sm;
        let defaults = rsm_config::SmConfig::default();
        let has_keys = sm.m_key != 0 || sm.sm_key != defaults.sm_key || sm.sa_key.is_some();
        if has_keys { SECRET_MODE } else { READABLE_MODE }
    }
}

/// File under a temporary name. Dropping the draft removes this name.
struct Draft {
    /// Temporary path.
    draft: PathBuf,
    /// Final path.
    path: PathBuf,
}

impl Draft {
    /// Writes the file under a temporary name beside `path`, and flushes it.
    fn write(path: &Path, text: &[u8], mode: u32) -> Result<Draft, WriteError> {
        let mut draft = path.to_owned().into_os_string();
        draft.push(format!(".{}.new", std::process::id()));
        let this = Draft {
            draft: PathBuf::from(draft),
            path: path.to_owned(),
        };
        let written = (|| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(mode);
            let mut file = options.open(&this.draft)?;
            file.write_all(text)?;
            // The file gets the group of its folder: the folder /etc/rsm belongs to the daemon's
            // group, which must be able to read the file.
            let folder = fs::metadata(folder_of(path))?;
            if folder.gid() != file.metadata()?.gid() {
                chown(&this.draft, None, Some(folder.gid())).or_else(ignore_denial)?;
            }
            file.sync_all()
        })();
        written.map_err(|source| WriteError::Write {
            path: path.to_owned(),
            source,
        })?;
        Ok(this)
    }

    /// Gives the file the owner of `folder`, which is the daemon's user for the state folder.
    fn own_like(&self, folder: &Path) -> Result<(), WriteError> {
        let owned = fs::metadata(folder).and_then(|owner| {
            chown(&self.draft, Some(owner.uid()), Some(owner.gid())).or_else(ignore_denial)
        });
        owned.map_err(|source| WriteError::Write {
            path: self.path.clone(),
            source,
        })
    }

    /// Gives the file its final name, unless a file with this name exists.
    fn publish(self) -> Result<(), WriteError> {
        let written = fs::hard_link(&self.draft, &self.path)
            .and_then(|()| File::open(folder_of(&self.path))?.sync_all());
        written.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => WriteError::Exists {
                path: self.path.clone(),
            },
            _ => WriteError::Write {
                path: self.path.clone(),
                source,
            },
        })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // A file that could not be written need not be removed.
        let _ = fs::remove_file(&self.draft);
    }
}

/// Text of a new key file of the SA.
///
/// # Errors
/// The system provides no random numbers.
fn sa_key_text() -> Result<String, WriteError> {
    let mut random = File::open(RANDOM).map_err(|source| WriteError::Random { source })?;
    loop {
        let mut bytes = [0; 8];
        let read = random.read_exact(&mut bytes);
        read.map_err(|source| WriteError::Random { source })?;
        let key = u64::from_be_bytes(bytes);
        if key > KNOWN_KEY {
            return Ok(format!("{key:#018x}\n"));
        }
    }
}

/// Folder of a file; the current folder for a bare file name.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Gives all files in a folder the folder's owner, because the daemon runs as its own user, and
/// `rsm migrate` as root.
fn own_files(folder: &Path) -> io::Result<()> {
    let owner = match fs::metadata(folder) {
        Ok(owner) => owner,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let found = fs::symlink_metadata(&path)?;
        if (found.uid(), found.gid()) != (owner.uid(), owner.gid()) && !found.is_symlink() {
            chown(&path, Some(owner.uid()), Some(owner.gid())).or_else(ignore_denial)?;
        }
        if found.is_dir() {
            own_files(&path)?;
        }
    }
    Ok(())
}

/// Ignores that only root may change a file's owner: any other user already owns the files that
/// this process has created.
fn ignore_denial(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Ok(()),
        _ => Err(error),
    }
}
