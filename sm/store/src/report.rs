use std::fmt;
use std::path::PathBuf;

/// Source of the contents of an opened store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The directory contained no store.
    #[default]
    Fresh,
    /// The database, which was closed properly.
    Clean,
    /// The database, which a killed process or a failed machine left behind. All of its records
    /// were checked.
    Unclean,
    /// The named export, because the database could not be used.
    Export(PathBuf),
    /// The named export, which has the whole last commit, because the database had only a part of
    /// it.
    Resumed(PathBuf),
    /// The named export, because the directory is not writable, so that the database could not be
    /// opened.
    Unopened(PathBuf),
}

/// A database that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Path to which the database was moved; `None` if there was nothing to move.
    pub path: Option<PathBuf>,
    /// Reason why the database could not be used.
    pub reason: String,
}

/// The report of opening the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Source of the contents.
    pub origin: Origin,
    /// Number of the last commit, counted over the store's whole life.
    pub generation: u64,
    /// The former database, if it could not be used; `None` otherwise. If the origin is
    /// [`Origin::Fresh`], nothing could be restored, and only the ports still have their LIDs.
    pub quarantined: Option<Quarantined>,
    /// Descriptions of other damaged files, one sentence each.
    pub notes: Vec<String>,
}

impl LoadReport {
    /// The report about a store whose contents cannot be read.
    pub(super) fn unreadable(reason: String) -> LoadReport {
        LoadReport {
            quarantined: Some(Quarantined { path: None, reason }),
            ..LoadReport::default()
        }
    }

    /// Whether committed records may be missing. Damage of other files than the database does not
    /// count, because the count and the digest in the database show that it is complete.
    pub fn may_lack_records(&self) -> bool {
        self.quarantined.is_some() || matches!(self.origin, Origin::Export(_))
    }

    /// Whether the report requires an operator's attention.
    pub fn is_alarming(&self) -> bool {
        self.quarantined.is_some() || !self.notes.is_empty()
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Fresh => write!(f, "new store")?,
            Origin::Clean => write!(f, "store of generation {}", self.generation)?,
            Origin::Unclean => write!(
                f,
                "store of generation {}, complete after an unclean stop",
                self.generation
            )?,
            Origin::Export(path) => write!(f, "store restored from {}", path.display())?,
            Origin::Resumed(path) => write!(
                f,
                "store of generation {}, its last commit completed from {}",
                self.generation,
                path.display()
            )?,
            Origin::Unopened(path) => write!(
                f,
                "store of generation {}, read from {} because its folder cannot be written",
                self.generation,
                path.display()
            )?,
        }
        if let Some(quarantined) = &self.quarantined {
            write!(
                f,
                "; the database before it was unusable: {}",
                quarantined.reason
            )?;
            if let Some(path) = &quarantined.path {
                write!(f, " (moved to {})", path.display())?;
            }
        }
        for note in &self.notes {
            write!(f, "; {note}")?;
        }
        Ok(())
    }
}
