//! Finds the preload library that simulates umad devices for a program.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// File name of the library.
const FILE: &str = "librsm_sim_preload.so";

/// Folders to search for the library, relative to the folder of rsm: Cargo's build folder, and the
/// folder of packages.
const FOLDERS: [&str; 2] = ["", "../lib/rsm"];

/// Characters that end a path in `LD_PRELOAD` (ld.so(8)).
const SEPARATORS: [char; 2] = [':', ' '];

/// Absolute path of the library: `given`, or the library in the first of [`FOLDERS`] that has it.
///
/// # Errors
/// The library does not exist, or its path contains a character that ends a path in `LD_PRELOAD`.
pub(super) fn find(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => beside_rsm()?,
    };
    let library = path.canonicalize().with_context(|| {
        format!(
            "--preload {}: without this library a program would run on the umad devices of this machine",
            path.display()
        )
    })?;
    if library.to_string_lossy().contains(SEPARATORS) {
        anyhow::bail!(
            "{}: the system's loader takes no path with a space or a colon, so that the program would run on \
             the umad devices of this machine; move the library, and name it with --preload",
            library.display()
        );
    }
    Ok(library)
}

/// Path of the library in the first of [`FOLDERS`] that has it; an error if no folder has it.
fn beside_rsm() -> anyhow::Result<PathBuf> {
    let rsm = std::env::current_exe().context("the path of rsm is not known")?;
    let folder = rsm.parent().unwrap_or(Path::new("/"));
    let candidates = FOLDERS.map(|subfolder| folder.join(subfolder).join(FILE));
    let library = candidates.iter().find(|path| path.is_file());
    library.cloned().with_context(|| {
        format!(
            "{FILE} is neither {} nor {}: without it the program would run on the umad devices of this machine, \
             so that it was not started; `cargo build --release` builds the library, the package of rsm has it, and \
             --preload names another place",
            candidates[0].display(),
            candidates[1].display()
        )
    })
}
