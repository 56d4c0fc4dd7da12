//! The structure of the workspace: module graphs without cycles, and arrows that must not be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rsm_tests::binaries;
use rsm_tests::structure::{Cycle, ModuleGraph, Source, Workspace};

/// Cycles that are known and wait to be untied, by crate, each with all of its modules. The list
/// only ever gets shorter: a module that joins a cycle fails the test, and so does one that left
/// and is still listed.
const KNOWN_CYCLES: &[(&str, &[&str])] = &[(
    "rsm",
    &[
        "avoid",
        "config",
        "congestion",
        "core",
        "counters",
        "diff",
        "expected",
        "fabric",
        "footprint",
        "habits",
        "health",
        "overlay",
        "plan",
        "push",
        "qos",
        "sweep",
        "vports",
    ],
)];

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
fn no_module_graph_has_a_cycle_but_the_known_ones() {
    let mut complaints = String::new();
    let mut known: Vec<&(&str, &[&str])> = KNOWN_CYCLES.iter().collect();
    for (name, graph) in &graphs() {
        for cycle in graph.cycles() {
            let place = known
                .iter()
                .position(|(of, modules)| of == name && cycle.modules == *modules);
            match place {
                Some(place) => drop(known.remove(place)),
                None => complain(&mut complaints, name, graph, &cycle),
            }
        }
    }
    for (name, modules) in known {
        let _ = writeln!(
            complaints,
            "{name} no longer has this cycle, which KNOWN_CYCLES lists: {}",
            modules.join(" ")
        );
    }
    assert!(complaints.is_empty(), "\n{complaints}");
}

/// Names a cycle, the modules that joined a known one, and the names behind its edges.
fn complain(complaints: &mut String, name: &str, graph: &ModuleGraph, cycle: &Cycle) {
    let of_crate = KNOWN_CYCLES.iter().filter(|(of, _)| *of == name);
    let known: BTreeSet<&str> = of_crate
        .flat_map(|(_, modules)| *modules)
        .copied()
        .collect();
    let new = cycle.modules.iter().map(String::as_str);
    let new: Vec<&str> = new.filter(|module| !known.contains(module)).collect();
    let _ = writeln!(complaints, "{name}: {}", graph.explain(cycle));
    if !known.is_empty() && !new.is_empty() {
        let _ = writeln!(complaints, "not in a known cycle: {}", new.join(" "));
    }
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
