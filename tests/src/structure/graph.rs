//! The graph of a crate's top-level modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use super::references::References;
use super::scope::{Place, Scopes};
use super::source::Source;

/// The name of the crate's root as a module, which contains the definitions in `lib.rs` or
/// `main.rs`.
const ROOT: &str = "crate";

/// The dependencies between a crate's top-level modules: a module depends on the modules whose
/// definitions it names.
pub struct ModuleGraph {
    modules: BTreeSet<String>,
    /// The edges by using module and defining module.
    edges: BTreeMap<(String, String), Edge>,
}

/// A dependency: one module names definitions of another.
#[derive(Debug, Default)]
pub struct Edge {
    /// The names, by path from the crate's root, each with the modules that use it.
    pub names: BTreeMap<String, BTreeSet<String>>,
}

/// A set of modules in which each module depends on every other, directly or indirectly.
#[derive(Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The modules, sorted.
    pub modules: Vec<String>,
}

impl ModuleGraph {
    /// Finds the edges of a crate.
    #[must_use]
    pub fn new(source: &Source) -> Self {
        let references: Vec<References> = source
            .modules
            .iter()
            .map(|module| References::of(&module.items))
            .collect();
        let scopes = Scopes::new(source, &references);
        let mut graph = Self {
            modules: source
                .modules
                .iter()
                .filter_map(|module| module.path.first())
                .cloned()
                .collect(),
            edges: BTreeMap::new(),
        };
        for (module, references) in references.iter().enumerate() {
            for import in references.imports.iter().chain(&references.inner_imports) {
                // The root's re-exports are the crate's public interface.
                if module == 0 && import.public {
                    continue;
                }
                graph.add(source, module, scopes.resolve(module, &import.path));
            }
            for path in &references.paths {
                let mut places = scopes.resolve(module, path);
                if path.len() == 1 {
                    // A bare name that equals a module's name is a variable or a macro.
                    places.retain(|place| matches!(place, Place::Item(..)));
                }
                graph.add(source, module, places);
            }
            for name in &references.macro_calls {
                graph.add(source, module, scopes.textual_macro(module, name));
            }
        }
        graph
    }

    /// The top-level modules.
    #[must_use]
    pub fn modules(&self) -> &BTreeSet<String> {
        &self.modules
    }

    /// The edges, keyed by (using module, defining module).
    #[must_use]
    pub fn edges(&self) -> &BTreeMap<(String, String), Edge> {
        &self.edges
    }

    /// All cycles, sorted; empty if the graph is acyclic.
    #[must_use]
    pub fn cycles(&self) -> Vec<Cycle> {
        let mut graph = DiGraph::<&str, ()>::new();
        let ends = self.edges.keys().flat_map(|(from, to)| [from, to]);
        let nodes: BTreeSet<&str> = self
            .modules
            .iter()
            .chain(ends)
            .map(String::as_str)
            .collect();
        let index: BTreeMap<&str, _> = nodes
            .into_iter()
            .map(|module| (module, graph.add_node(module)))
            .collect();
        for (from, to) in self.edges.keys() {
            graph.add_edge(index[from.as_str()], index[to.as_str()], ());
        }
        let mut cycles: Vec<Cycle> = tarjan_scc(&graph)
            .into_iter()
            .filter(|component| component.len() > 1)
            .map(|component| {
                let mut modules: Vec<String> = component
                    .into_iter()
                    .map(|node| graph[node].to_owned())
                    .collect();
                modules.sort();
                Cycle { modules }
            })
            .collect();
        cycles.sort_by(|one, other| one.modules.cmp(&other.modules));
        cycles
    }

    /// A shortest path from one module to another along the edges, both included; `None` if the
    /// first module does not depend on the second.
    #[must_use]
    pub fn shortest_path(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut paths = vec![vec![from.to_owned()]];
        let mut seen = BTreeSet::from([from.to_owned()]);
        let mut next = 0;
        while let Some(shortest_path) = paths.get(next).cloned() {
            next += 1;
            let at = shortest_path.last()?;
            if at == to && shortest_path.len() > 1 {
                return Some(shortest_path);
            }
            for (_, target) in self.edges.keys().filter(|(source, _)| source == at) {
                if seen.insert(target.clone()) {
                    paths.push(shortest_path.iter().chain([target]).cloned().collect());
                }
            }
        }
        None
    }

    /// The edges within a cycle, with the names behind each, for display.
    #[must_use]
    pub fn explain<'a>(&'a self, cycle: &'a Cycle) -> impl fmt::Display + 'a {
        Explained { graph: self, cycle }
    }

    /// Adds an edge from a module to the module of each of `places`.
    fn add(&mut self, source: &Source, module: usize, places: BTreeSet<Place>) {
        let from = top(source, module);
        for place in places {
            let (Place::Module(to) | Place::Item(to, _)) = place;
            // A module that the root declares is distinct from the root.
            let target = top(source, to);
            if target == from || (matches!(place, Place::Module(_)) && to == 0) {
                continue;
            }
            let mut name = source.modules[to].path.join("::");
            if let Place::Item(_, item) = &place {
                if !name.is_empty() {
                    name.push_str("::");
                }
                name.push_str(item);
            }
            let edge = self.edges.entry((from.clone(), target)).or_default();
            let users = edge.names.entry(name).or_default();
            users.insert(match source.modules[module].path.join("::") {
                path if path.is_empty() => ROOT.to_owned(),
                path => path,
            });
        }
    }
}

/// The name of the top-level module that contains a module; [`ROOT`] for the root.
fn top(source: &Source, module: usize) -> String {
    source.modules[module]
        .path
        .first()
        .cloned()
        .unwrap_or_else(|| ROOT.to_owned())
}

/// A cycle with its edges.
struct Explained<'a> {
    graph: &'a ModuleGraph,
    cycle: &'a Cycle,
}

impl fmt::Display for Explained<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "cycle of {}: {}",
            self.cycle.modules.len(),
            self.cycle.modules.join(" ")
        )?;
        for ((from, to), edge) in &self.graph.edges {
            let within = |module| self.cycle.modules.binary_search(module).is_ok();
            if !within(from) || !within(to) {
                continue;
            }
            writeln!(formatter, "  {from} -> {to}")?;
            for (name, users) in &edge.names {
                let users: Vec<&str> = users.iter().map(String::as_str).collect();
                writeln!(formatter, "    {name}  (in {})", users.join(", "))?;
            }
        }
        Ok(())
    }
}
