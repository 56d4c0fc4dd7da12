//! Tests each kind of edge on a crate of a few lines, and the sizes of a crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{ModuleGraph, Sizes, Source, StructureError, Workspace};

fn source(text: &str) -> Source {
    Source::from_text(text, Path::new("lib.rs"), Path::new("/nowhere")).unwrap()
}

/// The edges of a crate as `from -> to: name, name`.
fn edges(text: &str) -> Vec<String> {
    let graph = ModuleGraph::new(&source(text));
    let line = |((from, to), edge): (&(String, String), &super::Edge)| {
        let names: Vec<&str> = edge.names.keys().map(String::as_str).collect();
        format!("{from} -> {to}: {}", names.join(", "))
    };
    graph.edges().iter().map(line).collect()
}

/// The one edge from `a` to `b`, through `b::B`.
const A_TO_B: [&str; 1] = ["a -> b: b::B"];

/// The edges of a crate whose module `a` has the content `a`, beside the module `b` with the type
/// `B`.
fn with_b(a: &str) -> Vec<String> {
    edges(&format!(
        "mod a {{ {a} }} mod b {{ pub struct B; impl B {{ pub fn new() {{}} }} }}"
    ))
}

#[test]
fn use_declarations_make_edges() {
    assert_eq!(with_b("use crate::b::B;"), A_TO_B);
    assert_eq!(with_b("use super::b::B;"), A_TO_B);
    assert_eq!(with_b("use crate::b::{B as Other};"), A_TO_B);
    assert_eq!(with_b("mod inner { use super::super::b::B; }"), A_TO_B);
    assert_eq!(with_b("fn f() { use crate::b::B; }"), A_TO_B);
    assert_eq!(with_b("use crate::b;"), ["a -> b: b"]);
    assert_eq!(with_b("use crate::b::*;"), ["a -> b: b"]);
}

#[test]
fn paths_in_expressions_types_and_patterns_make_edges() {
    for a in [
        "fn f() { crate::b::B::new(); }",
        "fn f(b: &[crate::b::B]) {}",
        "struct S { b: Option<crate::b::B> }",
        "fn f<T: Into<crate::b::B>>() {}",
        "impl From<S> for crate::b::B {}",
        "fn f(x: X) { match x { crate::b::B { .. } => {} } }",
        "#[serde(with = \"crate::b::B\")] struct S;",
        "#[derive(crate::b::B)] struct S;",
    ] {
        assert_eq!(with_b(a), A_TO_B, "{a}");
    }
}

#[test]
fn a_path_through_an_import_of_a_module_makes_an_edge_to_the_definition() {
    assert_eq!(
        with_b("use crate::b; fn f() { b::B::new(); }"),
        ["a -> b: b, b::B"]
    );
    assert_eq!(
        with_b("use crate::b as other; fn f(x: other::B) {}"),
        ["a -> b: b, b::B"]
    );
}

#[test]
fn names_imported_through_a_glob_make_edges() {
    assert_eq!(
        with_b("use crate::b::*; fn f(x: B) {}"),
        ["a -> b: b, b::B"]
    );
    let inner = "use crate::b::B; mod inner { use super::*; fn f(x: B) {} }";
    assert_eq!(with_b(inner), A_TO_B);
}

#[test]
fn re_exports_are_followed_to_the_definition() {
    let at_root = "pub use b::B; mod a { use crate::B; } mod b { pub struct B; }";
    assert_eq!(edges(at_root), A_TO_B);
    let nested = "mod a { use crate::b::B; } mod b { pub use self::inner::B; \
                  mod inner { pub struct B; } }";
    assert_eq!(edges(nested), ["a -> b: b::inner::B"]);
    let renamed = "mod a { use crate::c::C; } mod b { pub struct B; } \
                   mod c { pub use crate::b::B as C; }";
    assert_eq!(edges(renamed), ["a -> b: b::B", "c -> b: b::B"]);
    let by_glob = "mod a { use crate::c::B; } mod b { pub struct B; } \
                   mod c { pub use crate::b::*; }";
    assert_eq!(edges(by_glob), ["a -> b: b::B", "c -> b: b"]);
    let in_code = "mod a { fn f() { crate::c::B::new(); } } mod b { pub struct B; } \
                   mod c { pub use crate::b::B; }";
    assert_eq!(edges(in_code), ["a -> b: b::B", "c -> b: b::B"]);
}

#[test]
fn cyclic_re_exports_end() {
    let cyclic = "mod a { pub use crate::b::*; fn f(x: Lost) {} } mod b { pub use crate::a::*; \
                  use crate::a::Missing; }";
    assert_eq!(edges(cyclic), ["a -> b: b", "b -> a: a, a::Missing"]);
}

#[test]
fn macros_make_edges_by_their_tokens() {
    assert_eq!(
        with_b("fn f() { println!(\"{}\", crate::b::B::new()); }"),
        A_TO_B
    );
    assert_eq!(with_b("fn f() { vec![(1, [crate::b::B])]; }"), A_TO_B);
    assert_eq!(
        with_b("macro_rules! m { () => { $crate::b::B::new() }; }"),
        A_TO_B
    );
    let imported = "use crate::b; fn f() { assert!(b::B::new()); }";
    assert_eq!(with_b(imported), ["a -> b: b, b::B"]);
    let of_callers = "macro_rules! m { () => { b::B::new() }; }";
    assert_eq!(with_b(of_callers), [""; 0]);
    let called = "mod a { fn f() { m!(); } } #[macro_use] mod b { macro_rules! m { () => {}; } }";
    assert_eq!(edges(called), ["a -> b: b::m"]);
    let made = "mod a { use crate::b::Made; } mod b { make! { Made } }";
    assert_eq!(edges(made), ["a -> b: b::Made"]);
}

#[test]
fn a_function_and_a_module_of_one_name_are_distinguished() {
    let text = "pub use b::b; mod a { fn f() { crate::b::b(); } } mod b { pub fn b() {} }";
    assert_eq!(edges(text), ["a -> b: b::b"]);
}

#[test]
fn definitions_in_the_root_make_edges_to_it() {
    let text = "mod a; mod b; pub struct Own;".replace("mod a;", "mod a { use crate::Own; }");
    let text = text.replace("mod b;", "mod b {} use a::A;");
    assert_eq!(edges(&text), ["a -> crate: Own", "crate -> a: a::A"]);
}

#[test]
fn test_only_code_makes_no_edge() {
    for a in [
        "#[cfg(test)] use crate::b::B;",
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "#[cfg(all(test, unix))] mod tests { use crate::b::B; }",
        "#[test] fn f() { crate::b::B::new(); }",
        "impl S { #[cfg(test)] fn f() { crate::b::B::new(); } }",
        "struct S { #[cfg(test)] b: crate::b::B }",
        "fn f() { #[cfg(test)] let b = crate::b::B; }",
    ] {
        assert_eq!(with_b(a), [""; 0], "{a}");
    }
    for a in [
        "#[cfg(not(test))] use crate::b::B;",
        "#[cfg(any(test, unix))] use crate::b::B;",
        "#[cfg(feature = \"verbs\")] use crate::b::B;",
    ] {
        assert_eq!(with_b(a), A_TO_B, "{a}");
    }
}

#[test]
fn text_and_names_of_other_crates_make_no_edge() {
    for a in [
        "/// [`crate::b::B`]\nfn f() {}",
        "// crate::b::B\nfn f() { let x = \"crate::b::B\"; }",
        "use ::b::B;",
        "use other::b::B; fn f(x: other::b::B) {}",
        "pub(in crate::b) fn f() {}",
        "fn f(b: u8) -> u8 { b }",
    ] {
        assert_eq!(with_b(a), [""; 0], "{a}");
    }
}

#[test]
fn cycles_name_their_modules_and_the_names_behind_each_edge() {
    let text = "mod a { use crate::b::B; pub struct A; } mod b { use crate::c::C; pub struct B; } \
                mod c { use crate::a::A; pub struct C; } mod d { use crate::a::A; }";
    let graph = ModuleGraph::new(&source(text));
    let cycles = graph.cycles();
    assert_eq!(cycles.len(), 1);
    assert_eq!(cycles[0].modules, ["a", "b", "c"]);
    let explained = graph.explain(&cycles[0]).to_string();
    let lines: Vec<&str> = explained.lines().collect();
    assert_eq!(
        lines,
        [
            "cycle of 3: a b c",
            "  a -> b",
            "    b::B  (in a)",
            "  b -> c",
            "    c::C  (in b)",
            "  c -> a",
            "    a::A  (in c)",
        ]
    );
}

#[test]
fn shortest_path_follows_edges_and_is_none_without_a_path() {
    let text = "mod a { use crate::b::B; } mod b { use crate::c::C; pub struct B; } \
                mod c { pub struct C; } mod d { use crate::a; use crate::c::C; }";
    let graph = ModuleGraph::new(&source(text));
    assert_eq!(graph.shortest_path("a", "c").unwrap(), ["a", "b", "c"]);
    assert_eq!(graph.shortest_path("d", "c").unwrap(), ["d", "c"]);
    assert_eq!(graph.shortest_path("c", "a"), None);
    assert_eq!(graph.shortest_path("a", "a"), None);
}

#[test]
fn lines_of_tests_are_counted_separately() {
    let text = "fn f() {\n}\n\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nimpl S {\n    \
                #[cfg(test)]\n    fn h() {}\n}\n";
    let sizes = Sizes::of(&source(text));
    assert_eq!((sizes.lines.production, sizes.lines.test), (5, 6));
}

#[test]
fn long_functions_and_wide_structs_are_found() {
    let body = "    let _ = 0;\n".repeat(79);
    let fields: String = (0..26).map(|field| format!("f{field}: u8, ")).collect();
    let text = format!(
        "/// Documented.\n#[inline]\nfn long() {{\n{body}}}\nfn short() {{}}\n\
         struct Wide {{ {fields} }}\nstruct Narrow {{ f: u8 }}\n"
    );
    let sizes = Sizes::of(&source(&text));
    let long: BTreeMap<&str, (usize, usize)> = sizes
        .long_functions
        .iter()
        .map(|long| (long.name.as_str(), (long.line, long.lines)))
        .collect();
    assert_eq!(long, BTreeMap::from([("long", (3, 81))]));
    assert_eq!(
        sizes.longest.map(|longest| longest.name).as_deref(),
        Some("long")
    );
    let wide: Vec<(&str, usize)> = sizes
        .wide_structs
        .iter()
        .map(|wide| (wide.name.as_str(), wide.fields))
        .collect();
    assert_eq!(wide, [("Wide", 26)]);
}

/// Writes files, given by path and text, to a new directory.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

#[test]
fn modules_are_read_from_their_files() {
    let directory = directory(&[
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "mod inner;\n#[cfg(test)]\nmod tests;\n"),
        ("a/inner.rs", "use crate::b::deep::B;\n"),
        ("a/tests.rs", "mod more;\nuse crate::b::Other;\n"),
        ("a/tests/more.rs", "fn f() {}\n\n"),
        ("b/mod.rs", "pub mod deep;\n"),
        ("b/deep.rs", "pub struct B;\n"),
    ]);
    let source = Source::load(&directory.path().join("lib.rs")).unwrap();
    let graph = ModuleGraph::new(&source);
    let edges: Vec<_> = graph.edges().values().map(|edge| &edge.names).collect();
    assert_eq!(edges.len(), 1);
    assert_eq!(edges[0].keys().collect::<Vec<_>>(), ["b::deep::B"]);
    assert_eq!(
        edges[0]["b::deep::B"].iter().collect::<Vec<_>>(),
        ["a::inner"]
    );
    let lines = Sizes::of(&source).lines;
    assert_eq!((lines.production, lines.test), (6, 6));
}

#[test]
fn a_missing_file_and_an_invalid_file_are_errors() {
    let missing = directory(&[("lib.rs", "mod a;")]);
    let error = Source::load(&missing.path().join("lib.rs")).err().unwrap();
    assert!(matches!(error, StructureError::MissingModule { module, .. } if module == "a"));
    let wrong = directory(&[("lib.rs", "mod a;"), ("a.rs", "fn f() {}\nfn (")]);
    let error = Source::load(&wrong.path().join("lib.rs")).err().unwrap();
    assert!(
        matches!(error, StructureError::Parse { line: 2, .. }),
        "{error}"
    );
}

#[test]
fn types_with_methods_in_many_files_are_found() {
    let mut files = vec![("lib.rs".to_owned(), "mod a;".to_owned())];
    let modules: String = (0..6).map(|part| format!("mod p{part};")).collect();
    files.push((
        "a/mod.rs".to_owned(),
        format!("struct A; impl A {{ fn f() {{}} }} {modules}"),
    ));
    for part in 0..6 {
        let text = "impl super::A { fn g() {} #[cfg(test)] fn h() {} } impl Clone for super::A {}";
        files.push((format!("a/p{part}.rs"), text.to_owned()));
    }
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let directory = directory(&files);
    let sizes = Sizes::of(&Source::load(&directory.path().join("lib.rs")).unwrap());
    let spread: Vec<_> = sizes
        .spread_types
        .iter()
        .map(|spread| (spread.name.as_str(), spread.files, spread.methods))
        .collect();
    assert_eq!(spread, [("A", 7, 7)]);
}

#[test]
fn the_diagram_leaves_out_dependencies_that_follow_from_others() {
    let package = |name: &str, dependencies: &str| {
        format!("[package]\nname = \"{name}\"\n[dependencies]\n{dependencies}")
    };
    let directory = directory(&[
        (
            "Cargo.toml",
            "[workspace]\nmembers = [\"top\", \"middle\", \"base\"]\n",
        ),
        (
            "top/Cargo.toml",
            &package("top", "middle = \"1\"\nbase = \"1\"\nserde = \"1\"\n"),
        ),
        (
            "middle/Cargo.toml",
            &package("middle", "base.workspace = true\n"),
        ),
        ("base/Cargo.toml", &package("base", "")),
        ("base/src/lib.rs", ""),
        ("top/src/main.rs", ""),
        ("top/src/bin/tool.rs", ""),
    ]);
    let workspace = Workspace::load(directory.path()).unwrap();
    assert_eq!(
        workspace.diagram(),
        "base\nmiddle ─▶ base\ntop    ─▶ middle\n"
    );
    let targets = workspace.packages["top"].targets.iter();
    let targets: Vec<&str> = targets.map(|target| target.name.as_str()).collect();
    assert_eq!(targets, ["tool", "top (program)"]);
}
