//! Parses the modules of one crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned as _;
use syn::{Item, ItemMod};

use super::StructureError;
use super::cfg::{is_test_only, path_of};

/// The parsed modules of a crate, except modules that only tests compile.
pub struct Source {
    /// The modules: the crate's root first, and each module after its parent.
    pub(super) modules: Vec<Module>,
    /// All files, including files that only tests compile.
    pub(super) files: Vec<File>,
}

/// A module of a crate.
pub(super) struct Module {
    /// The names from the crate's root to the module; empty for the root.
    pub(super) path: Vec<String>,
    /// The index of the module that declares this module; the root's own index for the root.
    pub(super) parent: usize,
    /// The modules that this module declares.
    pub(super) children: BTreeMap<String, usize>,
    /// The module's items, except modules and items of tests.
    pub(super) items: Vec<Item>,
    /// The index of the module's file in [`Source::files`].
    pub(super) file: usize,
}

/// A file of a crate.
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) lines: usize,
    /// The number of lines that only tests compile.
    pub(super) test_lines: usize,
}

/// A module whose items are being read, with its file.
struct Place<'a> {
    module: usize,
    file: &'a Path,
    /// The directory of the files of its child modules.
    directory: &'a Path,
}

impl Source {
    /// Parses a crate from the file of its root, and all files that the root declares.
    ///
    /// # Errors
    ///
    /// A file is missing, unreadable or not Rust.
    pub fn load(root: &Path) -> Result<Self, StructureError> {
        let text = read(root)?;
        let directory = root.parent().unwrap_or(root);
        Self::from_text(&text, root, directory)
    }

    /// Parses a crate from the text of its root; modules without a body are files in `directory`.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::load`] does.
    pub(super) fn from_text(
        text: &str,
        root: &Path,
        directory: &Path,
    ) -> Result<Self, StructureError> {
        let mut source = Self {
            modules: Vec::new(),
            files: Vec::new(),
        };
        source.add_module(Vec::new(), 0);
        source.read_file(0, text, root, directory)?;
        Ok(source)
    }

    /// Adds a module without items, and returns its index.
    fn add_module(&mut self, path: Vec<String>, parent: usize) -> usize {
        self.modules.push(Module {
            path,
            parent,
            children: BTreeMap::new(),
            items: Vec::new(),
            file: 0,
        });
        self.modules.len() - 1
    }

    /// Parses the text of a module's file, and all files that it declares. `directory` is the
    /// directory of the files of its child modules.
    fn read_file(
        &mut self,
        module: usize,
        text: &str,
        path: &Path,
        directory: &Path,
    ) -> Result<(), StructureError> {
        let parsed = syn::parse_file(text).map_err(|error| StructureError::Parse {
            path: path.to_owned(),
            line: error.span().start().line,
            reason: error.to_string(),
        })?;
        let file = self.files.len();
        self.files.push(File {
            path: path.to_owned(),
            lines: text.lines().count(),
            test_lines: 0,
        });
        self.modules[module].file = file;
        let place = Place {
            module,
            file: path,
            directory,
        };
        self.add_items(parsed.items, &place)
    }

    /// Sorts a module's items into child modules, test-only items, and all other items.
    fn add_items(&mut self, items: Vec<Item>, place: &Place<'_>) -> Result<(), StructureError> {
        for item in items {
            if is_test_only(attributes(&item)) {
                self.count_test_item(item, place)?;
            } else if let Item::Mod(declared) = item {
                self.add_declared_module(declared, place)?;
            } else {
                self.modules[place.module].items.push(item);
            }
        }
        Ok(())
    }

    /// Adds a declared module, and reads its file unless the declaration has a body.
    fn add_declared_module(
        &mut self,
        declared: ItemMod,
        place: &Place<'_>,
    ) -> Result<(), StructureError> {
        let name = declared.ident.to_string();
        let mut path = self.modules[place.module].path.clone();
        path.push(name.clone());
        let module = self.add_module(path, place.module);
        self.modules[place.module]
            .children
            .insert(name.clone(), module);
        let directory = place.directory.join(&name);
        if let Some((_, items)) = declared.content {
            self.modules[module].file = self.modules[place.module].file;
            let inside = Place {
                module,
                file: place.file,
                directory: &directory,
            };
            return self.add_items(items, &inside);
        }
        let (file, directory) = file_of(&declared, place)?;
        let text = read(&file)?;
        self.read_file(module, &text, &file, &directory)
    }

    /// Counts the lines of an item that only tests compile, including the lines of its files.
    fn count_test_item(&mut self, item: Item, place: &Place<'_>) -> Result<(), StructureError> {
        let span = item.span();
        let lines = span.end().line + 1 - span.start().line;
        let file = self.modules[place.module].file;
        self.files[file].test_lines += lines;
        match item {
            Item::Mod(declared) if declared.content.is_none() => {
                self.count_test_file(&declared, place)
            }
            _ => Ok(()),
        }
    }

    /// Counts the lines of a file of tests, and of the files that it declares.
    fn count_test_file(
        &mut self,
        declared: &ItemMod,
        place: &Place<'_>,
    ) -> Result<(), StructureError> {
        let (path, directory) = file_of(declared, place)?;
        let text = read(&path)?;
        let lines = text.lines().count();
        let parsed = syn::parse_file(&text).map_err(|error| StructureError::Parse {
            path: path.clone(),
            line: error.span().start().line,
            reason: error.to_string(),
        })?;
        let inside = Place {
            module: place.module,
            file: &path,
            directory: &directory,
        };
        for item in &parsed.items {
            if let Item::Mod(declared) = item
                && declared.content.is_none()
            {
                self.count_test_file(declared, &inside)?;
            }
        }
        self.files.push(File {
            path,
            lines,
            test_lines: lines,
        });
        Ok(())
    }
}

/// The file of a `mod name;`, and the directory of its child modules.
fn file_of(declared: &ItemMod, place: &Place<'_>) -> Result<(PathBuf, PathBuf), StructureError> {
    let name = declared.ident.to_string();
    if let Some(path) = path_of(&declared.attrs) {
        let beside = place.file.parent().unwrap_or(place.directory);
        let file = beside.join(path);
        let directory = file.parent().unwrap_or(beside).to_owned();
        return Ok((file, directory));
    }
    let directory = place.directory.join(&name);
    let flat = place.directory.join(format!("{name}.rs"));
    let nested = directory.join("mod.rs");
    [flat, nested]
        .into_iter()
        .find(|file| file.is_file())
        .map(|file| (file, directory))
        .ok_or_else(|| StructureError::MissingModule {
            declared: place.file.to_owned(),
            module: name,
        })
}

fn read(path: &Path) -> Result<String, StructureError> {
    fs::read_to_string(path).map_err(|source| StructureError::Read {
        path: path.to_owned(),
        source,
    })
}

/// The attributes of an item.
pub(super) fn attributes(item: &Item) -> &[syn::Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
