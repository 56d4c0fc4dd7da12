//! Checks of the style of the code that a machine can make. Each list of exceptions may only get
//! shorter, and each number in it only smaller.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rsm_tests::binaries;
use rsm_tests::structure::{Sizes, Source, Workspace};

/// Functions of more than 80 lines, each with its maximum: (function, lines).
const LONG_FUNCTIONS: &[(&str, usize)] = &[];

/// Structs of more than 25 fields: (struct, fields, why they stay). Wire formats, counters and
/// parsed options may have that many.
const WIDE_STRUCTS: &[(&str, usize, &str)] = &[
    ("PortInfo", 35, "wire format"),
    ("SimConfig", 30, "parsed options"),
    ("ClientStats", 26, "counters"),
];

/// Types with methods in more than six files: (type, files).
const SPREAD_TYPES: &[(&str, usize)] = &[
    ("Sweep", 7),
    ("Push", 14),
    ("Sim", 13),
    ("Query", 12),
    ("Request", 12),
    ("Migration", 7),
];

/// Openings of doc comments that lack a noun.
const OPENERS: &[&str] = &["By", "Its", "It", "The same", "Those", "What", "Of", "None"];

/// The maximum number of doc comments that begin with one of [`OPENERS`], by the first two folders
/// of their file; 0 for folders that are not listed.
const NOUNLESS: &[(&str, usize)] = &[
    ("api/src", 3),
    ("api/tests", 4),
    ("routing/benches", 1),
    ("routing/tests", 9),
    ("sm/config", 5),
    ("tests/benches", 8),
];

/// The sizes of all crates of the workspace. Parsing them takes seconds.
static SIZES: LazyLock<Vec<Sizes>> = LazyLock::new(|| {
    let workspace = Workspace::load(&binaries::workspace()).unwrap();
    let targets = workspace.packages.values().flat_map(|one| &one.targets);
    targets
        .map(|target| Sizes::of(&Source::load(&target.root).unwrap()))
        .collect()
});

/// Adds a complaint about `name` with `size`, unless `known` permits that size.
fn complain_if_larger(
    complaints: &mut String,
    known: Option<usize>,
    name: &str,
    size: usize,
    unit: &str,
) {
    if known.is_none_or(|most| size > most) {
        let most = known.map_or("none are listed".to_owned(), |most| {
            format!("{most} are listed")
        });
        let _ = writeln!(complaints, "{name}: {size} {unit}, {most}");
    }
}

#[test]
fn functions_have_at_most_80_lines_except_listed_functions() {
    let mut complaints = String::new();
    for long in SIZES.iter().flat_map(|sizes| &sizes.long_functions) {
        let file = long.file.strip_prefix(binaries::workspace());
        let name = format!("{}::{}", file.unwrap_or(&long.file).display(), long.name);
        let known = LONG_FUNCTIONS.iter().find(|(known, _)| *known == name);
        let known = known.map(|&(_, lines)| lines);
        complain_if_larger(&mut complaints, known, &name, long.lines, "lines");
    }
    assert!(complaints.is_empty(), "\n{complaints}");
}

#[test]
fn structs_have_at_most_25_fields_except_listed_structs() {
    let mut complaints = String::new();
    for wide in SIZES.iter().flat_map(|sizes| &sizes.wide_structs) {
        let known = WIDE_STRUCTS.iter().find(|(known, ..)| *known == wide.name);
        let known = known.map(|&(_, fields, _)| fields);
        complain_if_larger(&mut complaints, known, &wide.name, wide.fields, "fields");
    }
    assert!(complaints.is_empty(), "\n{complaints}");
}

#[test]
fn methods_of_a_type_are_in_at_most_six_files_except_listed_types() {
    let mut complaints = String::new();
    for spread in SIZES.iter().flat_map(|sizes| &sizes.spread_types) {
        let known = SPREAD_TYPES.iter().find(|(known, _)| *known == spread.name);
        let known = known.map(|&(_, files)| files);
        complain_if_larger(&mut complaints, known, &spread.name, spread.files, "files");
    }
    assert!(complaints.is_empty(), "\n{complaints}");
}

#[test]
fn doc_comments_begin_with_their_noun() {
    let root = binaries::workspace();
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for file in rust_files(&root) {
        let within = file.strip_prefix(&root).unwrap();
        let place: PathBuf = within.components().take(2).collect();
        let text = std::fs::read_to_string(&file).unwrap();
        let count = nounless(&text);
        if count > 0 {
            *found.entry(place.display().to_string()).or_default() += count;
        }
    }
    let mut complaints = String::new();
    for (place, count) in found {
        let known = NOUNLESS.iter().find(|(known, _)| *known == place);
        let known = known.map(|&(_, most)| most);
        complain_if_larger(&mut complaints, known, &place, count, "doc comments");
    }
    assert!(
        complaints.is_empty(),
        "begin with the thing or with a verb, not with one of {OPENERS:?}:\n{complaints}"
    );
}

/// The Rust files in a folder and below it, except in `target` and in hidden folders.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files.extend(rust_files(&path));
            }
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    files
}

/// The number of doc comments in `text` that begin with one of [`OPENERS`].
fn nounless(text: &str) -> usize {
    let is_doc = |line: &str| line.starts_with("///") || line.starts_with("//!");
    let mut before = "";
    let mut count = 0;
    for line in text.lines().map(str::trim_start) {
        if is_doc(line) && !is_doc(before) {
            let words = line[3..].trim_start();
            let opens = |opener: &&str| {
                let rest = words.strip_prefix(*opener);
                rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            };
            count += usize::from(OPENERS.iter().any(opens));
        }
        before = line;
    }
    count
}

#[test]
fn openers_count_only_as_words_at_the_beginning_of_a_doc_comment() {
    let text = "/// By it.\nfn a() {}\n    //! Its.\n\n/// Bypass.\n/// By.\n// By.\n";
    assert_eq!(nounless(text), 2);
}
