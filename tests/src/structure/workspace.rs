//! Reads the packages of the workspace from their manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::StructureError;

/// All packages of a workspace.
#[derive(Debug)]
pub struct Workspace {
    /// The packages by name.
    pub packages: BTreeMap<String, Package>,
}

/// A package of the workspace.
#[derive(Debug)]
pub struct Package {
    /// The directory of the package, relative to the workspace's root.
    pub directory: PathBuf,
    /// The library and the programs of the package.
    pub targets: Vec<Target>,
    /// The packages of the workspace on which the package depends, except for dependencies of its
    /// tests and its build.
    pub dependencies: BTreeSet<String>,
}

/// A crate of a package.
#[derive(Debug)]
pub struct Target {
    /// The package's name for a library, the program's name otherwise.
    pub name: String,
    /// The file of the crate's root.
    pub root: PathBuf,
}

impl Workspace {
    /// Reads the workspace at `root`.
    ///
    /// # Errors
    ///
    /// A manifest is missing, unreadable, or does not name members or its package.
    pub fn load(root: &Path) -> Result<Self, StructureError> {
        let path = root.join("Cargo.toml");
        let manifest = read(&path)?;
        let members = manifest
            .get("workspace")
            .and_then(|workspace| workspace.get("members"))
            .and_then(Value::as_array)
            .ok_or_else(|| lacks(&path, "workspace.members"))?;
        let mut packages = BTreeMap::new();
        for member in members.iter().filter_map(Value::as_str) {
            let (name, package) = Package::load(root, Path::new(member))?;
            packages.insert(name, package);
        }
        let names: BTreeSet<String> = packages.keys().cloned().collect();
        for package in packages.values_mut() {
            package.dependencies.retain(|name| names.contains(name));
        }
        Ok(Self { packages })
    }

    /// Draws the dependencies between packages, by their directories: each package is below the
    /// packages on which it depends. A line lists only the dependencies that do not follow from
    /// other dependencies.
    #[must_use]
    pub fn diagram(&self) -> String {
        let place = |name: &str| {
            let package = self.packages.get(name);
            package.map_or_else(String::new, |package| {
                package.directory.display().to_string()
            })
        };
        let mut names: Vec<&String> = self.packages.keys().collect();
        names.sort_by_key(|name| (self.height(name), place(name)));
        let width = names
            .iter()
            .map(|name| place(name).len())
            .max()
            .unwrap_or(0);
        let mut diagram = String::new();
        for name in names {
            let direct: Vec<String> = self
                .direct_dependencies(name)
                .into_iter()
                .map(place)
                .collect();
            let line = match direct.as_slice() {
                [] => place(name),
                _ => format!("{:width$} ─▶ {}", place(name), direct.join(", ")),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(diagram, "{line}");
        }
        diagram
    }

    /// The number of steps on the longest path down to a package without dependencies.
    fn height(&self, name: &str) -> usize {
        let dependencies = self.packages.get(name).map(|package| &package.dependencies);
        let below = dependencies
            .into_iter()
            .flatten()
            .map(|below| self.height(below) + 1);
        below.max().unwrap_or(0)
    }

    /// The dependencies of a package that do not follow from its other dependencies.
    fn direct_dependencies(&self, name: &str) -> Vec<&str> {
        let Some(package) = self.packages.get(name) else {
            return Vec::new();
        };
        let implied: BTreeSet<&str> = package
            .dependencies
            .iter()
            .flat_map(|name| self.reachable(name))
            .collect();
        let direct = package.dependencies.iter().map(String::as_str);
        direct.filter(|name| !implied.contains(name)).collect()
    }

    /// All packages on which a package depends, directly or indirectly.
    fn reachable(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let dependencies = self.packages.get(name).map(|package| &package.dependencies);
        for below in dependencies.into_iter().flatten() {
            found.insert(below.as_str());
            found.extend(self.reachable(below));
        }
        found
    }
}

impl Package {
    /// Reads the package in `directory`, and returns it with its name.
    fn load(root: &Path, directory: &Path) -> Result<(String, Self), StructureError> {
        let path = root.join(directory).join("Cargo.toml");
        let manifest = read(&path)?;
        let name = manifest
            .get("package")
            .and_then(|package| package.get("name"))
            .and_then(Value::as_str)
            .ok_or_else(|| lacks(&path, "package.name"))?
            .to_owned();
        let dependencies = manifest.get("dependencies").and_then(Value::as_table);
        let dependencies = dependencies
            .into_iter()
            .flat_map(Table::keys)
            .cloned()
            .collect();
        let package = Self {
            directory: directory.to_owned(),
            targets: targets(&root.join(directory), &name, &manifest)?,
            dependencies,
        };
        Ok((name, package))
    }
}

/// The library and the programs of a package, at the places that the manifest names or that Cargo
/// uses by default.
fn targets(
    directory: &Path,
    package: &str,
    manifest: &Table,
) -> Result<Vec<Target>, StructureError> {
    let mut programs = BTreeMap::new();
    let main = directory.join("src/main.rs");
    if main.is_file() {
        programs.insert(package.to_owned(), main);
    }
    let folder = directory.join("src/bin");
    if folder.is_dir() {
        let unreadable = |source| StructureError::Read {
            path: folder.clone(),
            source,
        };
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let root = if path.is_dir() {
                path.join("main.rs")
            } else {
                path.clone()
            };
            if let Some(name) = path.file_stem().and_then(|name| name.to_str())
                && root.is_file()
            {
                programs.insert(name.to_owned(), root);
            }
        }
    }
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    for program in manifest
        .get("bin")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if let (Some(name), Some(path)) = (text(program, "name"), text(program, "path")) {
            let root = directory.join(path);
            programs.retain(|_, other| *other != root);
            programs.insert(name, root);
        }
    }
    let library = manifest
        .get("lib")
        .and_then(|library| text(library, "path"));
    let library = directory.join(library.as_deref().unwrap_or("src/lib.rs"));
    let library = library.is_file().then(|| Target {
        name: package.to_owned(),
        root: library,
    });
    let programs = programs.into_iter().map(|(name, root)| {
        // A program with the package's name exists beside the library.
        let name = if name == package {
            format!("{name} (program)")
        } else {
            name
        };
        Target { name, root }
    });
    Ok(library.into_iter().chain(programs).collect())
}

/// Reads a manifest.
fn read(path: &Path) -> Result<Table, StructureError> {
    let text = fs::read_to_string(path).map_err(|source| StructureError::Read {
        path: path.to_owned(),
        source,
    })?;
    text.parse()
        .map_err(|error: toml::de::Error| StructureError::Manifest {
            path: path.to_owned(),
            reason: error.to_string(),
        })
}

/// The error of a manifest without `key`.
fn lacks(path: &Path, key: &str) -> StructureError {
    StructureError::Manifest {
        path: path.to_owned(),
        reason: format!("no `{key}`"),
    }
}
