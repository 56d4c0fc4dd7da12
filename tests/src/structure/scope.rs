//! Resolves names in modules to the places where paths lead.

use std::collections::{BTreeMap, BTreeSet};

use syn::Item;

use super::references::{Import, References};
use super::source::Source;

/// The target of a path within its crate.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    /// A module, by its index.
    Module(usize),
    /// A definition, by the index of its module, with its name there.
    Item(usize, String),
}

/// The meaning of a name in a module.
enum Binding {
    /// A child module, by its index.
    Module(usize),
    /// A definition in the module.
    Item,
    /// An import, with its path.
    Import(Vec<String>),
}

/// The names of all modules of a crate.
pub(super) struct Scopes<'a> {
    source: &'a Source,
    /// The meanings of each name, by module.
    names: Vec<BTreeMap<String, Vec<Binding>>>,
    /// The paths of glob imports, by module.
    globs: Vec<Vec<Vec<String>>>,
    /// The modules that have a `macro_rules!` with this name.
    macros: BTreeMap<String, BTreeSet<usize>>,
}

/// The imports and globs that are being followed, each as its module, its name and its index; the
/// set ends cyclic re-exports.
type Followed = BTreeSet<(usize, String, usize)>;

impl<'a> Scopes<'a> {
    /// Collects the names of all modules; `references` are indexed by module.
    pub(super) fn new(source: &'a Source, references: &[References]) -> Self {
        let mut scopes = Self {
            source,
            names: Vec::new(),
            globs: Vec::new(),
            macros: BTreeMap::new(),
        };
        for (index, (module, references)) in source.modules.iter().zip(references).enumerate() {
            let mut names: BTreeMap<String, Vec<Binding>> = BTreeMap::new();
            for (name, child) in &module.children {
                names
                    .entry(name.clone())
                    .or_default()
                    .push(Binding::Module(*child));
            }
            for item in &module.items {
                if let Some(name) = defined(item) {
                    names.entry(name.clone()).or_default().push(Binding::Item);
                    if matches!(item, Item::Macro(_)) {
                        scopes.macros.entry(name).or_default().insert(index);
                    }
                }
            }
            let mut globs = Vec::new();
            for import in &references.imports {
                bind(&mut names, &mut globs, import);
            }
            // A declaration in a function applies only there; if the module has the name too, the
            // module's declaration takes precedence.
            for import in &references.inner_imports {
                if import
                    .name
                    .as_ref()
                    .is_none_or(|name| !names.contains_key(name))
                {
                    bind(&mut names, &mut globs, import);
                }
            }
            scopes.names.push(names);
            scopes.globs.push(globs);
        }
        scopes
    }

    /// The places to which a path in `module` leads: several if a name is both a module and a
    /// function or type, none if the path leads out of the crate.
    pub(super) fn resolve(&self, module: usize, path: &[String]) -> BTreeSet<Place> {
        self.follow(module, path, &mut Followed::new())
    }

    /// The modules that define a macro which is called by its bare name and is not bound in
    /// `module`.
    pub(super) fn textual_macro(&self, module: usize, name: &str) -> BTreeSet<Place> {
        if !self.resolve(module, &[name.to_owned()]).is_empty() {
            return BTreeSet::new();
        }
        let defining = self.macros.get(name).into_iter().flatten();
        defining
            .map(|module| Place::Item(*module, name.to_owned()))
            .collect()
    }

    /// The places to which a path in `module` leads, without the imports that are being followed.
    fn follow(&self, module: usize, path: &[String], followed: &mut Followed) -> BTreeSet<Place> {
        let mut rest = path;
        let mut at = module;
        let mut anchored = false;
        while let Some((first, tail)) = rest.split_first() {
            match first.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = self.source.modules[at].parent,
                _ => break,
            }
            anchored = true;
            rest = tail;
        }
        let mut places = BTreeSet::from([Place::Module(at)]);
        for (index, name) in rest.iter().enumerate() {
            let last = index + 1 == rest.len();
            places = self.follow_segment(&places, name, anchored || index > 0, last, followed);
        }
        places
    }

    /// Follows the segment `name` of a path from all places. An `anchored` segment is not the first
    /// of its path, so it can only name a member of one of the places. `last` tells whether the
    /// segment ends the path.
    fn follow_segment(
        &self,
        from: &BTreeSet<Place>,
        name: &str,
        anchored: bool,
        last: bool,
        followed: &mut Followed,
    ) -> BTreeSet<Place> {
        let mut reached = BTreeSet::new();
        for place in from {
            let Place::Module(module) = place else {
                // The segment is a variant or an associated item, so the path leads to the place of
                // the type.
                reached.insert(place.clone());
                continue;
            };
            let found = self.lookup(*module, name, followed);
            if found.is_empty() && anchored {
                // Unless the name is imported from another crate, a macro defines it in the module.
                if !self.is_foreign(*module, name) {
                    reached.insert(Place::Item(*module, name.to_owned()));
                }
            }
            reached.extend(found);
        }
        let is_module = |place: &Place| matches!(place, Place::Module(_));
        if !last && reached.iter().any(is_module) {
            reached.retain(is_module);
        }
        reached
    }

    /// Tells whether a module imports `name` from another crate. [`Self::lookup`] finds no place
    /// for such a name.
    fn is_foreign(&self, module: usize, name: &str) -> bool {
        self.names[module].contains_key(name)
    }

    /// The places of a name in a module, with re-exports followed.
    fn lookup(&self, module: usize, name: &str, followed: &mut Followed) -> BTreeSet<Place> {
        let mut places = BTreeSet::new();
        let bindings = self.names[module].get(name).map_or(&[][..], Vec::as_slice);
        for (index, binding) in bindings.iter().enumerate() {
            match binding {
                Binding::Module(child) => {
                    places.insert(Place::Module(*child));
                }
                Binding::Item => {
                    places.insert(Place::Item(module, name.to_owned()));
                }
                Binding::Import(path) => {
                    let key = (module, name.to_owned(), index);
                    if followed.insert(key.clone()) {
                        places.extend(self.follow(module, path, followed));
                        followed.remove(&key);
                    }
                }
            }
        }
        if bindings.is_empty() {
            for (index, path) in self.globs[module].iter().enumerate() {
                let key = (module, format!("*{name}"), index);
                if followed.insert(key.clone()) {
                    places.extend(self.lookup_in_glob(module, path, name, followed));
                    followed.remove(&key);
                }
            }
        }
        places
    }

    /// The places of a name in the modules that a glob import of `module` names.
    fn lookup_in_glob(
        &self,
        module: usize,
        path: &[String],
        name: &str,
        followed: &mut Followed,
    ) -> BTreeSet<Place> {
        let mut places = BTreeSet::new();
        for place in self.follow(module, path, followed) {
            if let Place::Module(of) = place {
                places.extend(self.lookup(of, name, followed));
            }
        }
        places
    }
}

/// Adds an import to the names of a module, or to its globs.
fn bind(names: &mut BTreeMap<String, Vec<Binding>>, globs: &mut Vec<Vec<String>>, import: &Import) {
    if import.glob {
        globs.push(import.path.clone());
    } else if let Some(name) = &import.name {
        let bindings = names.entry(name.clone()).or_default();
        bindings.push(Binding::Import(import.path.clone()));
    }
}

/// The name that an item defines; `None` if the item defines no name.
fn defined(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
