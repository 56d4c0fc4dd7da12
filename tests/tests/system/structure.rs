//! The structure of the workspace: module graphs without cycles, and arrows that must not be.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rsm_tests::binaries;
use rsm_tests::structure::{ModuleGraph, Source, Workspace};

/// Modules that must not depend on others, not even by way of further ones: (crate, module, other
/// module, reason).
const FORBIDDEN: &[(&str, &str, &str, &str)] = &[
    (
        "rsm-routing",
        "verify",
        "engine",
        "proofs are code independent of the engines",
    ),
    (
        "rsm-routing",
        "verify",
        "mcast",
        "proofs are code independent of the trees' planner",
    ),
    (
        "rsm-routing",
        "topology",
        "tables",
        "everything else works on the topology",
    ),
    (
        "rsm",
        "fabric",
        "config",
        "the model is below the configuration",
    ),
    (
        "rsm",
        "model",
        "config",
        "the model is below the configuration",
    ),
    ("rsm", "config", "plan", "the configuration makes policies"),
    (
        "rsm",
        "overlay",
        "plan",
        "the overlay belongs to the configuration",
    ),
    ("rsm", "plan", "sweep", "a plan is made from the model"),
    ("rsm", "push", "core", "the hardware's stages know no core"),
    ("rsm", "state", "core", "readers need no core"),
    ("rsm", "sa", "core", "the SA reads the published snapshot"),
    ("rsm", "congestion", "plan", "monitors know no plan"),
    ("rsm", "counters", "plan", "monitors know no plan"),
    ("rsm", "health", "plan", "monitors know no plan"),
];

/// The module graphs of all crates of the workspace, by crate.
fn graphs() -> BTreeMap<String, ModuleGraph> {
    let workspace = Workspace::load(&binaries::workspace()).unwrap();
    let targets = workspace
        .packages
        .values()
        .flat_map(|package| &package.targets);
    let graph = |target: &rsm_tests::structure::Target| {
        let source = Source::load(&target.root).unwrap();
        (target.name.clone(), ModuleGraph::new(&source))
    };
    targets.map(graph).collect()
}

#[test]
fn no_module_graph_has_a_cycle() {
    let mut complaints = String::new();
    for (name, graph) in &graphs() {
        for cycle in graph.cycles() {
            let _ = writeln!(complaints, "{name}: {}", graph.explain(&cycle));
        }
    }
    assert!(complaints.is_empty(), "\n{complaints}");
}

#[test]
fn no_module_depends_on_one_that_it_must_not_know() {
    let graphs = graphs();
    for (name, module, other, reason) in FORBIDDEN {
        let graph = &graphs[*name];
        for module in [module, other] {
            assert!(
                graph.modules().contains(*module),
                "{name} has no module {module}"
            );
        }
        let way = graph.way(module, other);
        assert!(
            way.is_none(),
            "{name}: {}: {reason}",
            way.unwrap_or_default().join(" -> ")
        );
    }
}

#[test]
fn the_diagram_in_architecture_is_that_of_the_manifests() {
    let root = binaries::workspace();
    let diagram = Workspace::load(&root).unwrap().diagram();
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    assert!(page.contains(&diagram), "ARCHITECTURE.md lacks:\n{diagram}");
}
