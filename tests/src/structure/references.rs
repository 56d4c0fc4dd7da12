//! The paths that a module's code uses.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, ImplItem, Item, ItemMacro, ItemUse, Lit, Macro, Meta, Path, TraitItem,
    UseTree, Visibility,
};

use super::cfg::is_test_only;
use super::source::attributes;

/// The names that the items of one module use and import.
#[derive(Default)]
pub(super) struct References {
    /// Paths in code, in the tokens of macros and in attributes.
    pub(super) paths: Vec<Vec<String>>,
    /// `use` declarations in the module itself.
    pub(super) imports: Vec<Import>,
    /// `use` declarations in bodies of functions.
    pub(super) inner_imports: Vec<Import>,
    /// Names of macros that are called without a path.
    pub(super) macro_calls: Vec<String>,
}

/// One leaf of a `use` declaration.
#[derive(Clone)]
pub(super) struct Import {
    /// The segments of the path. An empty first segment stands for a leading `::`.
    pub(super) path: Vec<String>,
    /// The name that the import declares; `None` for `*`, and for `as _`.
    pub(super) name: Option<String>,
    /// Whether the leaf is `*`.
    pub(super) glob: bool,
    /// Whether the declaration is `pub`, with any restriction.
    pub(super) public: bool,
}

impl References {
    /// Collects the names that these items use.
    pub(super) fn of(items: &[Item]) -> Self {
        let mut collector = Collector {
            references: Self::default(),
            depth: 0,
        };
        for item in items {
            collector.visit_item(item);
        }
        collector.references
    }
}

/// The visitor behind [`References::of`].
struct Collector {
    references: References,
    /// The number of function bodies around the current position.
    depth: usize,
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test_only(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => return visit::visit_impl_item(self, item),
        };
        if !is_test_only(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        let attributes = match item {
            TraitItem::Const(item) => &item.attrs,
            TraitItem::Fn(item) => &item.attrs,
            TraitItem::Macro(item) => &item.attrs,
            TraitItem::Type(item) => &item.attrs,
            _ => return visit::visit_trait_item(self, item),
        };
        if !is_test_only(attributes) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_test_only(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if !is_test_only(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if !is_test_only(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !is_test_only(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_test_only(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.depth += 1;
        visit::visit_block(self, block);
        self.depth -= 1;
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut leaves = Vec::new();
        let mut prefix = Vec::new();
        if item.leading_colon.is_some() {
            prefix.push(String::new());
        }
        flatten(&item.tree, &mut prefix, &mut leaves);
        let public = !matches!(item.vis, Visibility::Inherited);
        let leaves = leaves.into_iter().map(|leaf| Import { public, ..leaf });
        if self.depth == 0 {
            self.references.imports.extend(leaves);
        } else {
            self.references.inner_imports.extend(leaves);
        }
    }

    /// Skips `pub(in path)`, which names an ancestor and is no dependency.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        match &attribute.meta {
            Meta::Path(path) => self.visit_path(path),
            Meta::List(list) => {
                self.visit_path(&list.path);
                self.scan(&list.tokens, Relative::Followed);
                self.scan_strings(&list.tokens);
            }
            Meta::NameValue(_) => {}
        }
    }

    fn visit_item_macro(&mut self, item: &'ast ItemMacro) {
        if item.ident.is_some() {
            // Names in a macro's definition belong to the place of the call, except names that
            // begin with `$crate`.
            self.scan(&item.mac.tokens, Relative::Ignored);
        } else {
            visit::visit_item_macro(self, item);
        }
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        if let Some(name) = call.path.get_ident() {
            self.references.macro_calls.push(name.to_string());
        }
        self.visit_path(&call.path);
        self.scan(&call.tokens, Relative::Followed);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let mut segments = Vec::new();
        if path.leading_colon.is_some() {
            segments.push(String::new());
        }
        segments.extend(
            path.segments
                .iter()
                .map(|segment| segment.ident.to_string()),
        );
        self.references.paths.push(segments);
        visit::visit_path(self, path);
    }
}

/// The treatment of paths in tokens that do not begin with `crate`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relative {
    /// The paths are collected.
    Followed,
    /// The paths are skipped.
    Ignored,
}

impl Collector {
    /// Collects the paths of at least two segments in the tokens of a macro.
    fn scan(&mut self, tokens: &TokenStream, relative: Relative) {
        let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
        let mut at = 0;
        while at < trees.len() {
            match &trees[at] {
                TokenTree::Group(group) => {
                    self.scan(&group.stream(), relative);
                    at += 1;
                }
                TokenTree::Ident(first) => {
                    let foreign = is_path_separator(&trees, at.wrapping_sub(2));
                    let mut segments = vec![first.to_string()];
                    at += 1;
                    while is_path_separator(&trees, at)
                        && let Some(TokenTree::Ident(next)) = trees.get(at + 2)
                    {
                        segments.push(next.to_string());
                        at += 3;
                    }
                    let wanted = relative == Relative::Followed || segments[0] == "crate";
                    if !foreign && wanted && segments.len() > 1 {
                        self.references.paths.push(segments);
                    }
                }
                _ => at += 1,
            }
        }
    }

    /// Collects the paths in strings of an attribute, such as `#[serde(with = "crate::hex")]`.
    fn scan_strings(&mut self, tokens: &TokenStream) {
        for tree in tokens.clone() {
            match tree {
                TokenTree::Group(group) => self.scan_strings(&group.stream()),
                TokenTree::Literal(literal) => {
                    let path = match Lit::new(literal) {
                        Lit::Str(text) => text.parse::<Path>().ok(),
                        _ => None,
                    };
                    if let Some(path) = path.filter(|path| path.segments.len() > 1) {
                        self.visit_path(&path.clone());
                    }
                }
                _ => {}
            }
        }
    }
}

/// Tells whether the tokens from `at` on are `::`.
fn is_path_separator(trees: &[TokenTree], at: usize) -> bool {
    let is_colon = |tree: Option<&TokenTree>| matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    is_colon(trees.get(at)) && is_colon(trees.get(at.wrapping_add(1)))
}

/// Collects the leaves of a `use` tree below `prefix`.
fn flatten(tree: &UseTree, prefix: &mut Vec<String>, leaves: &mut Vec<Import>) {
    let mut leaf = |last: Option<String>, name: Option<String>, glob: bool| {
        let path = prefix.iter().cloned().chain(last).collect();
        leaves.push(Import {
            path,
            name,
            glob,
            public: false,
        });
    };
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, leaves);
            prefix.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, leaves);
            }
        }
        UseTree::Name(name) if name.ident == "self" => leaf(None, prefix.last().cloned(), false),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            leaf(Some(name.clone()), Some(name), false);
        }
        UseTree::Rename(renamed) => {
            let last = (renamed.ident != "self").then(|| renamed.ident.to_string());
            let name = (renamed.rename != "_").then(|| renamed.rename.to_string());
            leaf(last, name, false);
        }
        UseTree::Glob(_) => leaf(None, None, true),
    }
}
