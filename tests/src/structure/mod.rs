//! The structure of the workspace, read from its parsed sources.
//!
//! Input: the manifests of the workspace and the sources of its crates. Output:
//!
//! * [`Workspace`]: the packages, with the crates (library and programs) of each, and the packages
//!   that each depends on;
//! * [`ModuleGraph`]: for each top-level module of a crate, the other modules whose definitions it
//!   names, and the cycles among the modules;
//! * [`Sizes`]: lines, long functions, wide structs, and types whose methods lie in many files.
//!
//! Invariants:
//!
//! * Code is parsed, never searched as text: comments, strings and documentation make no edge.
//!   Edges come from declarations (`use`), from paths in expressions, types, patterns and bounds,
//!   from attributes with paths (`#[serde(with = "…")]`), and from paths in the tokens of macros.
//! * A name counts for the module that *defines* it: re-exports (`pub use`, also of globs and under
//!   another name) are followed. A re-export is a dependency of its module like any other use; only
//!   the crate's root may re-export freely, because it is the crate's border.
//! * Code that only tests compile (`#[cfg(test)]`, and the files of such modules) makes no edge and
//!   counts as lines of tests.
//! * Names from other crates make no edge, even if a module re-exports them: Cargo refuses cycles
//!   between crates.
//! * Method calls on a value make no edge: the caller names the value's type somewhere, or gets
//!   the value from a module that names the type.
//!
//! `cargo run -p rsm-tests --bin structure` prints the whole structure;
//! `tests/tests/system/structure.rs` requires that no module graph has a cycle.

mod cfg;
mod graph;
mod references;
mod scope;
mod sizes;
mod source;
#[cfg(test)]
mod tests;
mod workspace;

pub use graph::{Cycle, Edge, ModuleGraph};
pub use sizes::{
    LONG_FUNCTION, Lines, LongFunction, MANY_FILES, Sizes, SpreadType, WIDE_STRUCT, WideStruct,
};
pub use source::Source;
pub use workspace::{Package, Target, Workspace};

use std::path::PathBuf;

/// The reason why a source or manifest cannot be analysed.
#[derive(Debug, thiserror::Error)]
pub enum StructureError {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The parser does not accept a source as Rust.
    #[error("cannot parse {}, line {line}: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line of the error, from 1.
        line: usize,
        /// The parser's message.
        reason: String,
    },
    /// The module of a `mod name;` is neither in `name.rs` nor in `name/mod.rs`.
    #[error("{}: the file of module `{module}` is missing", declared.display())]
    MissingModule {
        /// The file with the declaration.
        declared: PathBuf,
        /// The module's name.
        module: String,
    },
    /// A manifest lacks required data, or is not TOML.
    #[error("{}: {reason}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The fault of the manifest.
        reason: String,
    },
}
