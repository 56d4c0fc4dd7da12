//! A key of the SA for tests that ask as a trusted requester.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The SM_Key of trusted requesters, where a test configures one.
pub const SA_KEY: u64 = 0x5EC2_E75A_0C0F_FEE5;

/// As programs take it.
#[must_use]
pub fn text() -> String {
    format!("{SA_KEY:#018x}")
}

/// Puts [`SA_KEY`] beside the configuration `config`, where rsm takes it from.
///
/// # Panics
///
/// When it cannot be written.
pub fn put_beside(config: &Path) {
    let file = config.with_file_name("sa.key");
    fs::write(&file, format!("{}\n", text())).expect("there is room");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

/// A configuration of defaults in the new folder `folder`, with [`SA_KEY`] beside it.
///
/// # Panics
///
/// When it cannot be written.
#[must_use]
pub fn configuration(folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).expect("there is room");
    let config = folder.join("rsm.toml");
    fs::write(&config, "").expect("there is room");
    put_beside(&config);
    config
}
