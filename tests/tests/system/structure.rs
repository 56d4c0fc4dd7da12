//! The structure of the workspace: module graphs, their cycles, and dependencies that are
//! forbidden.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rsm_tests::binaries;
use rsm_tests::structure::{ModuleGraph, Source, Workspace};

/// Dependencies that are forbidden between modules of a crate, direct and indirect: (crate, module,
/// module on which it must not depend, reason).
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

/// The packages under `sm/`, each with the packages of the workspace on which it depends. The wire
/// packages (`rsm-ids`, `rsm-mad`) are left out: all packages may depend on them.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    ("rsm-model", &["rsm-routing", "rsm-gdr"]),
    ("rsm-store", &["rsm-model", "rsm-proto"]),
    ("rsm-config", &["rsm-model", "rsm-routing"]),
    (
        "rsm-plan",
        &["rsm-config", "rsm-model", "rsm-routing", "rsm-gdr"],
    ),
    (
        "rsm-hardware",
        &["rsm-plan", "rsm-config", "rsm-model", "rsm-routing"],
    ),
    ("rsm-monitor", &["rsm-config", "rsm-model", "rsm-routing"]),
    ("rsm-past", &["rsm-store"]),
    (
        "rsm-state",
        &["rsm-plan", "rsm-config", "rsm-model", "rsm-routing"],
    ),
    (
        "rsm-mastership",
        &[
            "rsm-hardware",
            "rsm-state",
            "rsm-plan",
            "rsm-config",
            "rsm-store",
            "rsm-model",
            "rsm-gdr",
        ],
    ),
    (
        "rsm-core",
        &[
            "rsm-mastership",
            "rsm-hardware",
            "rsm-monitor",
            "rsm-state",
            "rsm-plan",
            "rsm-config",
            "rsm-store",
            "rsm-model",
            "rsm-routing",
            "rsm-gdr",
        ],
    ),
    (
        "rsm-sa",
        &[
            "rsm-state",
            "rsm-plan",
            "rsm-config",
            "rsm-model",
            "rsm-routing",
        ],
    ),
    ("rsm-notify", &["rsm-proto"]),
    (
        "rsm-view",
        &[
            "rsm-api",
            "rsm-sa",
            "rsm-state",
            "rsm-monitor",
            "rsm-past",
            "rsm-hardware",
            "rsm-plan",
            "rsm-config",
            "rsm-store",
            "rsm-model",
            "rsm-routing",
            "rsm-gdr",
        ],
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
fn no_module_graph_has_a_cycle() {
    let mut cycles_found = String::new();
    for (name, graph) in &graphs() {
        for cycle in graph.cycles() {
            let _ = writeln!(cycles_found, "{name}: {}", graph.explain(&cycle));
        }
    }
    assert!(cycles_found.is_empty(), "\n{cycles_found}");
}

#[test]
fn no_module_depends_on_a_forbidden_module() {
    let graphs = graphs();
    for (name, module, forbidden, reason) in FORBIDDEN {
        let graph = &graphs[*name];
        for module in [module, forbidden] {
            assert!(
                graph.modules().contains(*module),
                "{name} has no module {module}"
            );
        }
        let path = graph.shortest_path(module, forbidden);
        assert!(
            path.is_none(),
            "{name}: {}: {reason}",
            path.unwrap_or_default().join(" -> ")
        );
    }
}

#[test]
fn each_crate_of_the_manager_depends_on_exactly_the_listed_crates() {
    let workspace = Workspace::load(&binaries::workspace()).unwrap();
    let is_of_manager = |name: &&String| {
        let directory = &workspace.packages[*name].directory;
        directory.starts_with("sm") && directory.components().count() > 1
    };
    let present: BTreeSet<&str> = workspace
        .packages
        .keys()
        .filter(is_of_manager)
        .map(String::as_str)
        .collect();
    let listed: BTreeSet<&str> = DEPENDENCIES.iter().map(|&(name, _)| name).collect();
    assert_eq!(present, listed, "DEPENDENCIES has a line for each package");
    for &(name, listed) in DEPENDENCIES {
        let actual = workspace.packages[name].dependencies.iter();
        let actual: BTreeSet<&str> = actual
            .map(String::as_str)
            .filter(|name| !["rsm-ids", "rsm-mad"].contains(name))
            .collect();
        let listed = listed.iter().copied().collect();
        assert_eq!(actual, listed, "the dependencies of {name}");
    }
}

#[test]
fn the_diagram_in_architecture_md_matches_the_manifests() {
    let root = binaries::workspace();
    let diagram = Workspace::load(&root).unwrap().diagram();
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    assert!(page.contains(&diagram), "ARCHITECTURE.md lacks:\n{diagram}");
}
