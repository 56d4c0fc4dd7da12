use std::fmt;
use std::path::PathBuf;

/// Where the contents of an opened store came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The directory contained no store.
    #[default]
    Fresh,
    /// The database, which was closed properly.
    Clean,
    /// The database, left behind by a process that was killed or a machine that went down. All of
    /// it was checked.
    Unclean,
    /// This export, because the database could not be used.
    Export(PathBuf),
    /// This export, because the database had only a part of the last commit. The export has all of
    /// it.
    Resumed(PathBuf),
    /// This export, because the directory cannot be written, so that the database could not be
    /// opened.
    Unopened(PathBuf),
}

/// A database that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Where the database was moved to; `None` if nothing of it was left.
    pub path: Option<PathBuf>,
    /// Why the database could not be used.
    pub reason: String,
}

/// The report of opening the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Where the contents come from.
    pub origin: Origin,
    /// Number of the last commit, counted over the store's whole life.
    pub generation: u64,
    /// The former database, if it could not be used. With [`Origin::Fresh`] nothing could be
    /// restored: the only claims are those that ports still hold.
    pub quarantined: Option<Quarantined>,
    /// Other files that were damaged, one sentence each.
    pub notes: Vec<String>,
}

impl LoadReport {
    /// The report about a store of which nothing can be read.
    pub(super) fn unreadable(reason: String) -> LoadReport {
        LoadReport {
            quarantined: Some(Quarantined { path: None, reason }),
            ..LoadReport::default()
        }
    }

    /// Whether committed records may be missing. Damage to a file beside the database does not
    /// count: the database has all of one commit, by its own count and digest.
    pub fn may_lack_records(&self) -> bool {
        self.quarantined.is_some() || matches!(self.origin, Origin::Export(_))
    }

    /// Whether an operator should know about it.
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
