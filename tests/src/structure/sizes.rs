//! Measures a crate: lines, functions, structs, and types spread over files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Block, Fields, ImplItem, Item, ItemImpl, ItemStruct, Signature, Type};

use super::StructureError;
use super::cfg::is_test_only;
use super::source::{Source, attributes};

/// The number of lines above which a function is reported.
pub const LONG_FUNCTION: usize = 80;

/// The number of named fields above which a struct is reported.
pub const WIDE_STRUCT: usize = 25;

/// The number of files with inherent methods above which a type is reported.
pub const MANY_FILES: usize = 6;

/// The number of lines of files, comments and empty lines included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Lines that a build without tests compiles.
    pub production: usize,
    /// Lines that only tests and benches compile.
    pub test: usize,
}

/// A function with its number of lines, from its signature to its closing brace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongFunction {
    /// The name of the function.
    pub name: String,
    /// The file of the function.
    pub file: PathBuf,
    /// The line of the signature, from 1.
    pub line: usize,
    /// The number of lines.
    pub lines: usize,
}

/// A struct with its number of named fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WideStruct {
    /// The name of the struct.
    pub name: String,
    /// The file of the struct.
    pub file: PathBuf,
    /// The number of named fields.
    pub fields: usize,
}

/// A type with inherent methods in several files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadType {
    /// The name of the type.
    pub name: String,
    /// The number of files with an inherent `impl` of the type.
    pub files: usize,
    /// The number of methods and associated functions in these files.
    pub methods: usize,
}

/// The sizes of one crate. All sizes except [`Lines::test`] cover only production code.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// The lines of the files that the crate's root declares.
    pub lines: Lines,
    /// The longest function of the crate.
    pub longest: Option<LongFunction>,
    /// Functions with more than [`LONG_FUNCTION`] lines, longest first.
    pub long_functions: Vec<LongFunction>,
    /// Structs with more than [`WIDE_STRUCT`] named fields, widest first.
    pub wide_structs: Vec<WideStruct>,
    /// Types with methods in more than [`MANY_FILES`] files, most files first.
    pub spread_types: Vec<SpreadType>,
}

impl Lines {
    /// Counts the lines of all Rust files below `directory` as tests; zero if the directory does
    /// not exist.
    ///
    /// # Errors
    ///
    /// A file or directory is unreadable.
    pub fn of_tests(directory: &Path) -> Result<Self, StructureError> {
        let mut lines = Self::default();
        if !directory.is_dir() {
            return Ok(lines);
        }
        let unreadable = |source| StructureError::Read {
            path: directory.to_owned(),
            source,
        };
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.is_dir() {
                lines += Self::of_tests(&path)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).map_err(|source| StructureError::Read {
                    path: path.clone(),
                    source,
                })?;
                lines.test += text.lines().count();
            }
        }
        Ok(lines)
    }
}

impl std::ops::AddAssign for Lines {
    fn add_assign(&mut self, other: Self) {
        self.production += other.production;
        self.test += other.test;
    }
}

impl Sizes {
    /// Measures a crate.
    #[must_use]
    pub fn of(source: &Source) -> Self {
        let mut sizes = Self::default();
        let mut inner_tests = 0;
        let mut functions = Vec::new();
        let mut types = BTreeMap::new();
        for module in &source.modules {
            let mut measure = Measure {
                file: &source.files[module.file].path,
                sizes: &mut sizes,
                functions: &mut functions,
                types: &mut types,
                inner_tests: &mut inner_tests,
            };
            for item in &module.items {
                measure.visit_item(item);
            }
        }
        for file in &source.files {
            sizes.lines.production += file.lines - file.test_lines;
            sizes.lines.test += file.test_lines;
        }
        sizes.lines.production -= inner_tests;
        sizes.lines.test += inner_tests;
        functions.sort_by_key(|function: &LongFunction| std::cmp::Reverse(function.lines));
        sizes.longest = functions.first().cloned();
        functions.retain(|function| function.lines > LONG_FUNCTION);
        sizes.long_functions = functions;
        sizes
            .wide_structs
            .sort_by_key(|wide| std::cmp::Reverse(wide.fields));
        sizes.spread_types = spread(types);
        sizes
    }
}

/// The inherent impls of a type.
#[derive(Default)]
struct Impls {
    /// The files with an inherent `impl`.
    files: BTreeSet<PathBuf>,
    /// The number of methods and associated functions.
    methods: usize,
}

/// The types of a crate by name. Types with the same name in two modules count as one type.
type Types = BTreeMap<String, Impls>;

/// The types with methods in more than [`MANY_FILES`] files, most files first.
fn spread(types: Types) -> Vec<SpreadType> {
    let mut spread: Vec<SpreadType> = types
        .into_iter()
        .filter(|(_, impls)| impls.files.len() > MANY_FILES)
        .map(|(name, impls)| SpreadType {
            name,
            files: impls.files.len(),
            methods: impls.methods,
        })
        .collect();
    spread.sort_by_key(|spread| std::cmp::Reverse(spread.files));
    spread
}

/// The visitor that measures one module.
struct Measure<'a> {
    file: &'a Path,
    sizes: &'a mut Sizes,
    functions: &'a mut Vec<LongFunction>,
    types: &'a mut Types,
    /// The number of lines of test-only items within other items.
    inner_tests: &'a mut usize,
}

impl Measure<'_> {
    /// Records the length of a function.
    fn function(&mut self, signature: &Signature, body: &Block) {
        let line = signature.span().start().line;
        self.functions.push(LongFunction {
            name: signature.ident.to_string(),
            file: self.file.to_owned(),
            line,
            lines: body.span().end().line + 1 - line,
        });
    }

    /// Counts the lines of an item that only tests compile.
    fn count_test_lines(&mut self, span: Span) {
        *self.inner_tests += span.end().line + 1 - span.start().line;
    }
}

impl<'ast> Visit<'ast> for Measure<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test_only(attributes(item)) {
            self.count_test_lines(item.span());
            return;
        }
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if let ImplItem::Fn(function) = item {
            if is_test_only(&function.attrs) {
                self.count_test_lines(item.span());
                return;
            }
            self.function(&function.sig, &function.block);
        }
        visit::visit_impl_item(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        if let Fields::Named(fields) = &item.fields
            && fields.named.len() > WIDE_STRUCT
        {
            self.sizes.wide_structs.push(WideStruct {
                name: item.ident.to_string(),
                file: self.file.to_owned(),
                fields: fields.named.len(),
            });
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if item.trait_.is_none()
            && let Type::Path(of) = &*item.self_ty
            && let Some(last) = of.path.segments.last()
        {
            let impls = self.types.entry(last.ident.to_string()).or_default();
            impls.files.insert(self.file.to_owned());
            let methods = item.items.iter().filter(
                |item| matches!(item, ImplItem::Fn(function) if !is_test_only(&function.attrs)),
            );
            impls.methods += methods.count();
        }
        visit::visit_item_impl(self, item);
    }
}
