//! The inventories of GPU hosts, joined with the snapshot in force.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::Mutex;
use rsm_api::{GpuImportError, GpuSubject, Gpus};
use rsm_gdr::hosts::{GpuInventory, HostError};
use rsm_gdr::import::{InventoryFormat, MAX_BYTES, import, to_json};
use rsm_gdr::inventory::HostInventory;
use rsm_gdr::{Analysis, AnalysisConfig};

use tokio::sync::watch;

use crate::plan::gpu;
use crate::plan::order::roles;
use crate::publish::View;

/// Subfolders of the inventories' folder: one with a file for each host, and one for the machine
/// type.
const HOSTS: &str = "hosts";
const MACHINE_TYPE: &str = "machine-type";

/// Keeps inventories, and joins them with the fabric on request.
pub(super) struct GpuHosts {
    view: Arc<View>,
    /// The folder in which inventories survive a restart; without one they do not.
    dir: Option<PathBuf>,
    state: Mutex<State>,
    /// Passes new inventories to the core, which spreads routes by the purpose of ports.
    tell: Tell,
    /// Number of changes of the inventories.
    changes: watch::Sender<u64>,
}

/// Takes each new inventory.
pub(super) type Tell = Box<dyn Fn(Arc<GpuInventory>) + Send + Sync>;

#[derive(Default)]
struct State {
    inventory: Arc<GpuInventory>,
    /// The last analysis and its snapshot's generation; `None` after an import.
    last: Option<(u64, Arc<Analysis>)>,
}

/// Loads the inventories in `dir`.
///
/// # Errors
/// The folder cannot be read. Another file than an inventory in it only gives a warning: hosts can
/// be imported again.
pub(super) fn kept(dir: Option<&Path>) -> anyhow::Result<GpuInventory> {
    let mut inventory = GpuInventory::new();
    if let Some(dir) = dir {
        load(&dir.join(HOSTS), |name, host, seen| {
            inventory.insert(name, host, seen)
        })?;
        load(&dir.join(MACHINE_TYPE), |name, host, _| {
            like(&mut inventory, name, &host)
        })?;
    }
    Ok(inventory)
}

impl GpuHosts {
    /// Joins `inventory`, which is kept in `dir`, with the snapshots of `view`. `tell` takes each
    /// new inventory.
    pub(super) fn new(
        view: Arc<View>,
        dir: Option<PathBuf>,
        inventory: Arc<GpuInventory>,
        tell: Tell,
    ) -> GpuHosts {
        GpuHosts {
            view,
            dir,
            state: Mutex::new(State {
                inventory,
                last: None,
            }),
            tell,
            changes: watch::Sender::new(0),
        }
    }

    /// Replaces the inventory in force.
    fn replace(&self, state: &mut State, inventory: GpuInventory) {
        let inventory = Arc::new(inventory);
        *state = State {
            inventory: inventory.clone(),
            last: None,
        };
        (self.tell)(inventory);
        self.changes.send_modify(|count| *count += 1);
    }

    fn keep(&self, folder: &str, name: &str, host: &HostInventory) -> io::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let folder = dir.join(folder);
        fs::create_dir_all(&folder)?;
        let new = folder.join(format!(".{name}.new"));
        let mut file = File::create(&new)?;
        file.write_all(to_json(host).as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, folder.join(format!("{name}.json")))?;
        File::open(&folder)?.sync_all()
    }

    /// Removes the file of an inventory, if there is one.
    fn drop_file(&self, folder: &str, name: &str) -> io::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        match fs::remove_file(dir.join(folder).join(format!("{name}.json"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the files of other machine types: there is only one.
    fn drop_machine_types_but(&self, name: &str) -> io::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let kept = dir.join(MACHINE_TYPE).join(format!("{name}.json"));
        for entry in fs::read_dir(dir.join(MACHINE_TYPE))? {
            let path = entry?.path();
            if path != kept {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn seconds(&self) -> u64 {
        self.view.unix_ms() / 1000
    }
}

/// Makes a host the machine type of the other hosts.
fn like(inventory: &mut GpuInventory, name: &str, host: &HostInventory) -> Result<(), HostError> {
    inventory.insert_machine_type(name, host)?;
    inventory.set_default(Some(name))
}

/// Loads every inventory file of a folder, with its modification time.
fn load(
    folder: &Path,
    mut take: impl FnMut(&str, HostInventory, u64) -> Result<(), HostError>,
) -> anyhow::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| format!("cannot read {}", folder.display()))?,
    };
    let mut files = BTreeMap::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot read {}", folder.display()))?
            .path();
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .map(str::to_owned);
        if let (Some(name), Some("json")) = (name, path.extension().and_then(|end| end.to_str())) {
            files.insert(name, path);
        }
    }
    for (name, path) in files {
        let taken = read(&path).and_then(|(host, seen)| Ok(take(&name, host, seen)?));
        if let Err(error) = taken {
            tracing::warn!("{} is passed over: {error:#}", path.display());
        }
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<(HostInventory, u64)> {
    let about = fs::metadata(path)?;
    anyhow::ensure!(
        about.len() <= MAX_BYTES as u64,
        "{} bytes, expected at most {MAX_BYTES}",
        about.len()
    );
    let written = about
        .modified()?
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Ok((
        import(InventoryFormat::Json, &fs::read(path)?)?,
        written.as_secs(),
    ))
}

impl Gpus for GpuHosts {
    fn analysis(&self) -> Arc<Analysis> {
        let mut state = self.state.lock();
        let (generation, snapshot) = self.view.latest();
        if let Some((of, analysis)) = &state.last
            && *of == generation
        {
            return analysis.clone();
        }
        let plan = snapshot.plan.as_ref();
        let fabric = plan.map(|plan| {
            // The plan owns its tables together with their origin, so they must be copied.
            let tables = Arc::new(plan.routing.tables.clone());
            let mut fabric =
                gpu::fabric(&snapshot.fabric, &plan.topology, Some(tables), generation);
            fabric.positions = plan.order.positions.clone();
            fabric
        });
        let config = AnalysisConfig {
            roles: plan.map_or_else(BTreeMap::new, |plan| roles(&plan.policy.categories)),
            now: self.seconds(),
            ..AnalysisConfig::default()
        };
        let analysis = Arc::new(Analysis::new(&state.inventory, fabric, config));
        state.last = Some((generation, analysis.clone()));
        analysis
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn import(&self, subject: GpuSubject<'_>, host: HostInventory) -> Result<(), GpuImportError> {
        let mut state = self.state.lock();
        let mut inventory = GpuInventory::clone(&state.inventory);
        let (folder, name, kept) = match subject {
            GpuSubject::Host(name) => {
                inventory.insert(name, host.clone(), self.seconds())?;
                (HOSTS, name, host)
            }
            GpuSubject::MachineType(name) => {
                like(&mut inventory, name, &host)?;
                (MACHINE_TYPE, name, host.as_machine_type())
            }
        };
        let kept = self.keep(folder, name, &kept).and_then(|()| match subject {
            GpuSubject::Host(_) => Ok(()),
            GpuSubject::MachineType(name) => self.drop_machine_types_but(name),
        });
        kept.map_err(|error| GpuImportError::Kept(error.to_string()))?;
        self.replace(&mut state, inventory);
        Ok(())
    }

    fn forget(&self, subject: GpuSubject<'_>) -> Result<bool, GpuImportError> {
        let mut state = self.state.lock();
        let mut inventory = GpuInventory::clone(&state.inventory);
        let (folder, name, known) = match subject {
            GpuSubject::Host(name) => (HOSTS, name, inventory.remove(name)),
            GpuSubject::MachineType(name) => {
                (MACHINE_TYPE, name, inventory.remove_machine_type(name))
            }
        };
        if !known {
            return Ok(false);
        }
        // Known names are no paths.
        self.drop_file(folder, name)
            .map_err(|error| GpuImportError::Kept(error.to_string()))?;
        self.replace(&mut state, inventory);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Still;

    impl crate::publish::UnixClock for Still {
        fn now(&self) -> rsm_mad::Time {
            rsm_mad::Time::ZERO
        }

        fn unix_ms(&self, _: rsm_mad::Time) -> u64 {
            5_000
        }
    }

    fn open(dir: &Path) -> GpuHosts {
        let view = Arc::new(View::new("sim:test".to_owned(), true, Box::new(Still)));
        let inventory = kept(Some(dir)).expect("a folder of ours");
        let tell = Box::new(|_| {});
        GpuHosts::new(view, Some(dir.to_owned()), Arc::new(inventory), tell)
    }

    fn host() -> HostInventory {
        let json = r#"{"version":1,"gpus":[{"index":0}],"hca_ports":[{"device":"mlx5_0","port":1}],"tiers":[["PIX"]]}"#;
        import(InventoryFormat::Json, json.as_bytes()).expect("our own format")
    }

    #[test]
    fn inventories_survive_restarts_until_forgotten() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = open(dir.path());
        first
            .import(GpuSubject::Host("gpu-1"), host())
            .expect("room");
        for name in ["zeta", "dgx"] {
            first
                .import(GpuSubject::MachineType(name), host())
                .expect("room");
        }
        drop(first);
        let again = open(dir.path());
        let analysis = again.analysis();
        assert_eq!(analysis.hosts.len(), 1);
        assert_eq!(analysis.hints[0][0].port(), Some(0));
        assert_eq!(
            again.state.lock().inventory.default_machine_type(),
            Some("dgx")
        );
        let forget = |subject| again.forget(subject).expect("files of ours");
        // A host and a machine type of one name are two.
        assert!(!forget(GpuSubject::Host("dgx")));
        assert!(forget(GpuSubject::Host("gpu-1")));
        assert!(!forget(GpuSubject::Host("gpu-1")));
        let later = open(dir.path());
        assert!(later.analysis().hosts.is_empty());
        let machine_type = |hosts: &GpuHosts| {
            let inventory = hosts.state.lock().inventory.clone();
            inventory.default_machine_type().map(str::to_owned)
        };
        assert_eq!(machine_type(&later).as_deref(), Some("dgx"));
        assert!(!forget(GpuSubject::MachineType("zeta")));
        assert!(forget(GpuSubject::MachineType("dgx")));
        assert!(!forget(GpuSubject::MachineType("dgx")));
        assert_eq!(machine_type(&open(dir.path())), None);
    }

    #[test]
    fn invalid_inventory_file_does_not_prevent_the_start() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join(HOSTS)).expect("a new folder");
        fs::write(dir.path().join(HOSTS).join("gpu-1.json"), "{").expect("room");
        fs::write(dir.path().join(HOSTS).join(".gpu-2.new"), "{").expect("room");
        assert!(open(dir.path()).analysis().hosts.is_empty());
        let view = Arc::new(View::new(String::new(), true, Box::new(Still)));
        let nowhere = GpuHosts::new(view, None, Arc::default(), Box::new(|_| {}));
        assert!(nowhere.import(GpuSubject::Host("../x"), host()).is_err());
    }
}
