//! Contents of the programs: unsafe code with its reasons, and the bill of materials.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use rsm_tests::binaries;

/// Folders of a crate whose code no program contains.
const NOT_IN_PROGRAMS: [&str; 4] = ["tests", "benches", "fuzz", "target"];

/// Adds the Rust files below `folder` that are in programs.
fn sources(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        if path.is_dir() && !NOT_IN_PROGRAMS.contains(&name) && !name.starts_with('.') {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The number of unsafe blocks, functions, implementations, traits, extern blocks and attributes in
/// a source, without comments.
fn unsafe_places(text: &str) -> usize {
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line));
    let places = code.flat_map(|line| {
        let words = line.match_indices("unsafe");
        words.filter(move |&(at, word)| {
            let before = line[..at].chars().next_back();
            let rest = &line[at + word.len()..];
            let is_word = !before.is_some_and(|one| one.is_alphanumeric() || one == '_');
            let after = rest.trim_start();
            let kinds = ["fn ", "impl ", "extern ", "trait "];
            let is_kind =
                after.len() < rest.len() && kinds.iter().any(|kind| after.starts_with(kind));
            is_word && (after.starts_with('{') || rest.starts_with('(') || is_kind)
        })
    });
    places.count()
}

#[test]
fn unsafe_is_counted_in_code_and_not_in_comments_or_names() {
    for (text, places) in [
        ("unsafe { f() }", 1),
        ("unsafe fn f() {}\nunsafe impl Send for X {}", 2),
        (
            "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn f() { unsafe { g() } }",
            3,
        ),
        (
            "// unsafe { f() }\n#![deny(unsafe_code)] let not_unsafe = 1;",
            0,
        ),
    ] {
        assert_eq!(unsafe_places(text), places, "{text}");
    }
}

/// `docs/security.md` has a row for each file with unsafe code: the file, the number of places, and
/// the reason.
#[test]
fn files_with_unsafe_code_are_listed_with_their_reasons() {
    let workspace = binaries::workspace();
    let mut files = Vec::new();
    sources(&workspace, &mut files);
    assert!(files.len() > 500, "{} files", files.len());
    let found: BTreeMap<String, usize> = files
        .iter()
        .filter_map(|file| {
            let places = unsafe_places(&fs::read_to_string(file).unwrap());
            let name = file.strip_prefix(&workspace).unwrap().display().to_string();
            (places > 0).then_some((name, places))
        })
        .collect();
    let page = fs::read_to_string(workspace.join("docs/security.md")).unwrap();
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix(".rs`")?;
        let places: usize = cells.next()?.parse().ok()?;
        assert!(cells.next()?.len() > 20, "the reason of {name}");
        Some((format!("{name}.rs"), places))
    });
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), found);
}

/// The bill of materials that `packaging/sbom` prints: JSON in the format of CycloneDX.
fn bill() -> Vec<u8> {
    let run = Command::new(binaries::workspace().join("packaging/sbom"))
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    run.stdout
}

#[test]
fn bill_of_materials_lists_only_packages_of_the_lock_file_and_is_reproducible() {
    let first = bill();
    assert!(first == bill(), "two runs differ");
    let bill: serde_json::Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(
        (bill["bomFormat"].as_str(), bill["specVersion"].as_str()),
        (Some("CycloneDX"), Some("1.5"))
    );
    assert_eq!(bill["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
    let lock = fs::read_to_string(binaries::workspace().join("Cargo.lock")).unwrap();
    let components = bill["components"].as_array().unwrap();
    let mut linked = BTreeSet::new();
    for one in components {
        let text = |field: &str| one[field].as_str().unwrap();
        let entry = format!(
            "name = \"{}\"\nversion = \"{}\"\n",
            text("name"),
            text("version")
        );
        assert!(lock.contains(&entry), "{entry}");
        if let Some(hash) = one["hashes"][0]["content"].as_str() {
            assert!(lock.contains(&format!("checksum = \"{hash}\"")), "{entry}");
        }
        if text("scope") == "required" {
            linked.insert(text("name"));
        }
    }
    for name in ["rsm", "rsm-core", "rsm-sim-preload", "rustls", "tokio"] {
        assert!(linked.contains(name), "{name} is linked");
    }
    // Only a build runs these, or only tests use them.
    for name in ["serde_derive", "protox", "proptest", "criterion"] {
        assert!(!linked.contains(name), "{name} is not linked");
    }
    let references = bill["dependencies"].as_array().unwrap().len();
    assert_eq!(references, components.len() + 1);
}
