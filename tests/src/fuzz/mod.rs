//! Fuzz targets: functions that accept arbitrary bytes, and panic if an invariant does not hold.
//!
//! Each target has a corpus of files below `tests/fuzz/corpus`. `cargo test` replays all files of
//! the corpus, and seeded mutants of them ([`mutant`]); the crate in `tests/fuzz` passes the same
//! functions to cargo-fuzz. An input that failed is added to the corpus in the commit that repairs
//! the fault.

mod bytes;
mod mutant;
mod records;
mod rmpp;
mod rmpp_link;
mod sa;

use std::path::PathBuf;

pub use mutant::mutant;

/// The maximum useful length of an input in bytes: dozens of datagrams. Targets ignore the rest.
pub const MAX_INPUT: usize = 16 << 10;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the target, and of its corpus folder.
    pub name: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Seed>,
}

/// A well-formed initial input, from which mutants start.
#[derive(Clone, Debug)]
pub struct Seed {
    /// The name of the input's file.
    pub name: String,
    /// The bytes of the input.
    pub bytes: Vec<u8>,
}

impl Seed {
    fn new(name: impl Into<String>, bytes: Vec<u8>) -> Seed {
        let name = name.into();
        Seed { name, bytes }
    }
}

/// The views of every SA record.
pub const RECORDS: Target = Target {
    name: "records",
    run: records::run,
    seeds: records::seeds,
};

/// Requests to the SA.
pub const SA: Target = Target {
    name: "sa",
    run: sa::run,
    seeds: sa::seeds,
};

/// Arbitrary packets to one end of RMPP.
pub const RMPP: Target = Target {
    name: "rmpp",
    run: rmpp::run,
    seeds: rmpp::seeds,
};

/// Both ends of RMPP, with an arbitrary fate for each packet between them.
pub const RMPP_LINK: Target = Target {
    name: "rmpp_link",
    run: rmpp_link::run,
    seeds: rmpp_link::seeds,
};

/// All targets.
pub const TARGETS: [Target; 4] = [RECORDS, SA, RMPP, RMPP_LINK];

impl Target {
    /// Runs the target on an arbitrary input.
    ///
    /// # Panics
    ///
    /// An invariant of the target does not hold.
    pub fn run(&self, input: &[u8]) {
        (self.run)(&input[..input.len().min(MAX_INPUT)]);
    }

    /// The initial inputs of the corpus.
    #[must_use]
    pub fn seeds(&self) -> Vec<Seed> {
        (self.seeds)()
    }

    /// The directory of the corpus.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus");
        PathBuf::from(corpus).join(self.name)
    }

    /// The inputs of the corpus, with the names of their files.
    ///
    /// # Panics
    ///
    /// The corpus cannot be read.
    #[must_use]
    pub fn corpus(&self) -> Vec<Seed> {
        let folder = self.folder();
        let entries = std::fs::read_dir(&folder);
        let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut corpus: Vec<Seed> = entries
            .map(|entry| {
                let path = entry.expect("the folder can be read").path();
                let bytes = std::fs::read(&path);
                let bytes = bytes.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                Seed::new(name, bytes)
            })
            .collect();
        corpus.sort_by(|a, b| a.name.cmp(&b.name));
        corpus
    }
}
