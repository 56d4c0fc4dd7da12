//! Prints the structure of the workspace: packages, sizes, and the modules of each crate.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use rsm_tests::binaries;
use rsm_tests::structure::{
    LONG_FUNCTION, Lines, MANY_FILES, ModuleGraph, Sizes, Source, WIDE_STRUCT, Workspace,
};

/// The directories of a package that contain tests, benches and examples.
const TEST_DIRECTORIES: [&str; 3] = ["tests", "benches", "examples"];

/// A crate and the results of its analysis.
struct Crate {
    name: String,
    sizes: Sizes,
    graph: ModuleGraph,
}

fn main() -> ExitCode {
    match print(&mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "structure: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let root = binaries::workspace();
    let workspace = Workspace::load(&root)?;
    writeln!(out, "## Packages\n\n{}", workspace.diagram())?;
    let mut crates = Vec::new();
    let mut rows = Vec::new();
    let mut sum = Lines::default();
    for (name, package) in &workspace.packages {
        let mut lines = Lines::default();
        for target in &package.targets {
            let source = Source::load(&target.root)?;
            let analysed = Crate {
                name: target.name.clone(),
                sizes: Sizes::of(&source),
                graph: ModuleGraph::new(&source),
            };
            lines += analysed.sizes.lines;
            crates.push(analysed);
        }
        for directory in TEST_DIRECTORIES {
            lines += Lines::of_tests(&root.join(&package.directory).join(directory))?;
        }
        // The harness drives rsm but is not part of rsm: all its lines count as tests.
        if package.directory.starts_with("tests") {
            lines = Lines {
                production: 0,
                test: lines.production + lines.test,
            };
        }
        rows.push((name.as_str(), lines));
        sum += lines;
    }
    rows.push(("sum", sum));
    writeln!(out, "## Lines\n")?;
    writeln!(out, "{:24} {:>10} {:>10}", "package", "production", "tests")?;
    for (name, lines) in rows {
        writeln!(out, "{name:24} {:>10} {:>10}", lines.production, lines.test)?;
    }
    print_sizes(out, &crates)?;
    print_modules(out, &crates)?;
    Ok(())
}

fn print_sizes(out: &mut impl Write, crates: &[Crate]) -> io::Result<()> {
    let root = binaries::workspace();
    writeln!(out, "\n## The longest function of each crate\n")?;
    for Crate { name, sizes, .. } in crates {
        if let Some(longest) = &sizes.longest {
            let file = longest
                .file
                .strip_prefix(&root)
                .unwrap_or(&longest.file)
                .display();
            let (function, line, lines) = (&longest.name, longest.line, longest.lines);
            writeln!(out, "{name:24} {lines:>5}  {function} ({file}:{line})")?;
        }
    }
    writeln!(out, "\n## Functions of more than {LONG_FUNCTION} lines\n")?;
    for long in crates.iter().flat_map(|one| &one.sizes.long_functions) {
        let file = long
            .file
            .strip_prefix(&root)
            .unwrap_or(&long.file)
            .display();
        writeln!(
            out,
            "{:>5}  {} ({file}:{})",
            long.lines, long.name, long.line
        )?;
    }
    writeln!(
        out,
        "\n## Structs of more than {WIDE_STRUCT} named fields\n"
    )?;
    for wide in crates.iter().flat_map(|one| &one.sizes.wide_structs) {
        let file = wide
            .file
            .strip_prefix(&root)
            .unwrap_or(&wide.file)
            .display();
        writeln!(out, "{:>5}  {} ({file})", wide.fields, wide.name)?;
    }
    writeln!(
        out,
        "\n## Types with methods in more than {MANY_FILES} files\n"
    )?;
    for Crate { name, sizes, .. } in crates {
        for spread in &sizes.spread_types {
            let (of, files, methods) = (&spread.name, spread.files, spread.methods);
            writeln!(out, "{files:>5} files, {methods:>4} methods  {of} ({name})")?;
        }
    }
    Ok(())
}

fn print_modules(out: &mut impl Write, crates: &[Crate]) -> io::Result<()> {
    writeln!(out, "\n## Modules\n")?;
    for Crate { name, graph, .. } in crates {
        let (modules, edges) = (graph.modules().len(), graph.edges().len());
        let cycles = graph.cycles();
        writeln!(
            out,
            "{name}: {modules} modules, {edges} edges, {} cycles",
            cycles.len()
        )?;
        for (from, to) in graph.edges().keys() {
            writeln!(out, "  {from} -> {to}")?;
        }
        for cycle in &cycles {
            writeln!(out, "{}", graph.explain(cycle))?;
        }
    }
    Ok(())
}
