//! GPU hosts: `rsmctl gpu probe` on a made-up /sys, and the service over inventories in memory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rsm_api::limits::MAX_ANALYSIS_READERS;
use rsm_api::{GpuAges, GpuImport, GpuImportError, GpuSubject, Gpus, InventoryDigest};
use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::HostInventory;
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_proto::v1;
use rsm_proto::v1::gpu_service_client::GpuServiceClient;
use tokio::sync::watch;

use crate::fake::Fake;
use crate::gpu_files::fabric;
use crate::served::Served;

/// Inventories, without a fabric until a test sets one.
#[derive(Default)]
pub(crate) struct Memory {
    inventory: Mutex<GpuInventory>,
    pub(crate) fabric: Mutex<Option<GpuFabric>>,
    digests: Mutex<BTreeMap<String, InventoryDigest>>,
    changes: watch::Sender<u64>,
    /// Lock that an analysis takes, as the daemon's takes that of the last one.
    analysing: Mutex<()>,
    /// Number of threads in [`Memory::analysis`].
    analysts: AtomicUsize,
}

impl Gpus for Memory {
    fn analysis(&self) -> Arc<Analysis> {
        self.analysts.fetch_add(1, Ordering::Relaxed);
        let turn = self.analysing.lock();
        let inventory = self.inventory.lock();
        let analysis = Analysis::new(
            &inventory,
            self.fabric.lock().clone(),
            AnalysisConfig::default(),
        );
        self.analysts.fetch_sub(1, Ordering::Relaxed);
        drop(turn);
        Arc::new(analysis)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn import_machine_type(&self, name: &str, host: HostInventory) -> Result<(), GpuImportError> {
        self.inventory.lock().insert_machine_type(name, &host)?;
        self.changes.send_modify(|count| *count += 1);
        Ok(())
    }

    fn import_hosts(&self, hosts: Vec<GpuImport>) -> Result<usize, GpuImportError> {
        let mut inventory = self.inventory.lock();
        let mut next = inventory.clone();
        let mut digests = self.digests.lock();
        let mut changed = 0;
        for import in &hosts {
            next.insert(&import.host, import.inventory.clone(), 0)?;
            changed += usize::from(digests.get(&import.host) != Some(&import.digest));
        }
        *inventory = next;
        digests.extend(hosts.into_iter().map(|import| (import.host, import.digest)));
        self.changes.send_modify(|count| *count += 1);
        Ok(changed)
    }

    fn check(&self, host: &str, digest: &InventoryDigest) -> bool {
        self.digests.lock().get(host) == Some(digest)
    }

    fn ages(&self) -> GpuAges {
        let hosts = self
            .inventory
            .lock()
            .hosts()
            .keys()
            .cloned()
            .collect::<Vec<_>>();
        GpuAges {
            ages: (1..).zip(hosts).collect(),
            max_age: Some(60),
            names_taken_twice: vec!["gpu-9".to_owned()],
        }
    }

    fn forget(&self, subjects: &[GpuSubject<'_>]) -> Vec<String> {
        let mut inventory = self.inventory.lock();
        let mut rest = inventory.clone();
        let is_unknown = |subject: &&GpuSubject<'_>| match subject {
            GpuSubject::Host(name) => !rest.remove(name),
            GpuSubject::MachineType(name) => !rest.remove_machine_type(name),
        };
        let unknown = subjects.iter().filter(is_unknown);
        let unknown: Vec<String> = unknown.map(|subject| subject.name().to_owned()).collect();
        if unknown.is_empty() {
            *inventory = rest;
            self.changes.send_modify(|count| *count += 1);
        }
        unknown
    }
}

/// The adapters of the host of [`MATRIX`].
const ADAPTERS: [(&str, &str); 2] = [("gpu-1", "mlx5_0"), ("gpu-1", "mlx5_1")];

pub(crate) const MATRIX: &str = "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity
GPU0\tX\tNV18\tPIX\tSYS\t0-7
GPU1\tNV18\tX\tSYS\tPIX\t8-15
NIC0\tPIX\tSYS\tX\tSYS
NIC1\tSYS\tPIX\tSYS\tX

NIC Legend:
  NIC0: mlx5_0
  NIC1: mlx5_1
";

fn rsmctl(server: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rsmctl"));
    command
        .env_clear()
        .env("RSM_SERVER", server)
        .args(arguments);
    command.output().unwrap()
}

#[test]
fn hints_for_a_whole_job_take_few_threads_while_the_analysis_is_made() {
    const HOSTS: usize = 40;
    let served = Served::start(Fake::tree(1, 1));
    let gpus = served.gpus.clone();
    *gpus.fabric.lock() = Some(fabric(&ADAPTERS));
    let mut client = GpuServiceClient::new(served.unix());
    let turn = gpus.analysing.lock();
    let ask = |host| {
        let mut client = client.clone();
        let host = format!("gpu-{host}");
        let request = v1::GetGpuHintsRequest { host };
        tokio::spawn(async move { client.get_gpu_hints(request).await })
    };
    let asked = served.block_on(async { (0..HOSTS).map(ask).collect::<Vec<_>>() });
    let checked = served.block_on(async {
        while gpus.analysts.load(Ordering::Relaxed) < MAX_ANALYSIS_READERS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Short work still finds a thread.
        let check = v1::CheckGpuHostRequest {
            host: "gpu-1".to_owned(),
            digest: vec![0; 32],
        };
        client.check_gpu_host(check).await
    });
    assert!(!checked.unwrap().into_inner().known);
    assert_eq!(gpus.analysts.load(Ordering::Relaxed), MAX_ANALYSIS_READERS);
    drop(turn);
    for answer in asked {
        let answer = served.block_on(answer).unwrap();
        assert_eq!(answer.unwrap_err().code(), tonic::Code::NotFound);
    }
}

#[test]
fn an_imported_host_has_hints_until_it_is_forgotten() {
    let served = Served::start(Fake::tree(1, 1));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("matrix.txt");
    fs::write(&file, MATRIX).unwrap();
    let file = file.display().to_string();
    let unix = format!("unix:{}", served.socket.display());
    let run = |arguments: &[&str]| {
        let output = rsmctl(&unix, &[&["gpu"], arguments].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), format!("{text}{errors}"))
    };
    let import = [
        "import",
        "--host",
        "gpu-1",
        "--file-format",
        "nvidia-smi",
        &file,
    ];
    assert_eq!(run(&import), (Some(0), "2 GPUs, 2 ports\n".to_owned()));
    let (_, hosts) = run(&["hosts"]);
    assert!(
        hosts.contains("gpu-1  ") && hosts.contains("nvidia-smi"),
        "{hosts}"
    );
    *served.gpus.fabric.lock() = Some(fabric(&ADAPTERS));
    let (_, hints) = run(&["hints", "gpu-1"]);
    assert!(hints.contains("GPU1  mlx5_1  PIX"), "{hints}");
    let (_, pair) = run(&["pair", "gpu-1:0", "gpu-1:1"]);
    assert!(pair.starts_with("class    nvlink\n"), "{pair}");
    let (_, plan) = run(&["plan", "--gpus", "2"]);
    assert!(plan.contains("gpu-1"), "{plan}");
    // Without a fabric to join, no finding is no success.
    *served.gpus.fabric.lock() = None;
    let sweeps = || served.fake.convergences.lock().len();
    let before = sweeps();
    for check in [&["check"][..], &["check", "--format", "json"]] {
        let (code, text) = run(check);
        assert!(
            code == Some(1) && text.contains("nothing was checked: there is no fabric"),
            "{text}"
        );
        assert!(!text.contains("nothing is wrong"), "{text}");
    }
    // Only a check that asks for a sweep waits for it.
    assert_eq!(run(&["check", "--cached"]).0, Some(1));
    assert_eq!(sweeps(), before);
    for _ in 0..2 {
        assert_eq!(run(&["check", "--sweep"]).0, Some(1));
    }
    assert_eq!(sweeps(), before + 2);
    let sweep = ["gpu", "check", "--sweep"];
    let reader = rsmctl(&format!("http://{}", served.tcp), &sweep);
    let note = String::from_utf8_lossy(&reader.stderr).into_owned();
    assert!(note.contains("last known state of the fabric"), "{note}");
    assert_eq!(sweeps(), before + 2);
    *served.gpus.fabric.lock() = Some(fabric(&ADAPTERS));
    let (_, json) = run(&["export", "mooncake", "--host", "gpu-1"]);
    assert!(json.contains("\"cuda:1\""), "{json}");
    let (_, environment) = run(&["export", "nccl-env", "--host", "gpu-1"]);
    assert!(!environment.contains("NCCL_IB_SL"), "{environment}");
    let (_, environment) = run(&["export", "nccl-env", "--host", "gpu-1", "--sl", "5"]);
    assert!(environment.contains("NCCL_IB_SL=5\n"), "{environment}");
    let too_high = ["export", "nccl-env", "--host", "gpu-1", "--sl", "16"];
    assert_eq!(run(&too_high).0, Some(2));
    let (code, nobody) = run(&["hints", "gpu-2"]);
    assert!(
        code == Some(1) && nobody.contains("rsmctl gpu hosts"),
        "{nobody}"
    );
    assert_eq!(run(&["forget", "gpu-1"]).0, Some(0));
    assert_eq!(run(&["forget", "gpu-1"]).0, Some(1));
    // Where no host is known, there is nothing to sweep for.
    assert_eq!(run(&["check", "--sweep"]).0, Some(1));
    assert_eq!(sweeps(), before + 2);
    let machine_type = [&import[..], &["--machine-type"]].concat();
    assert_eq!(run(&machine_type).0, Some(0));
    let (code, text) = run(&["forget", "gpu-1"]);
    assert!(
        code == Some(1) && text.contains("no inventory of host `gpu-1`"),
        "{text}"
    );
    assert_eq!(run(&["forget", "--machine-type", "gpu-1"]).0, Some(0));
    let (code, text) = run(&["forget", "--machine-type", "gpu-1"]);
    assert!(
        code == Some(1) && text.contains("machine type `gpu-1`"),
        "{text}"
    );
}

#[test]
fn folder_without_its_copies_and_a_stream_with_a_silent_host_are_imported_and_forgotten() {
    let served = Served::start(Fake::tree(1, 1));
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("hosts");
    fs::create_dir(&folder).unwrap();
    for file in ["gpu-1.txt", "gpu-2.txt", "gpu-2.txt.bak", "gpu-3.txt~"] {
        fs::write(folder.join(file), MATRIX).unwrap();
    }
    let unix = format!("unix:{}", served.socket.display());
    let run = |arguments: &[&str]| {
        let output = rsmctl(&unix, &[&["gpu"], arguments].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text, errors)
    };
    let (code, text, notes) = run(&["import", &folder.display().to_string()]);
    assert_eq!(
        (code, text.as_str()),
        (Some(0), "2 hosts imported, 2 changed\n")
    );
    for copy in ["gpu-2.txt.bak: a copy", "gpu-3.txt~: a copy"] {
        assert!(notes.contains(copy), "{notes}");
    }
    // The source is that of the files, although they were sent in rsm's own form.
    let (_, hosts, _) = run(&["hosts"]);
    assert_eq!(hosts.matches("nvidia-smi").count(), 2, "{hosts}");

    let stream: String = MATRIX
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| format!("gpu-4: {line}\n"))
        .collect();
    let file = directory.path().join("pdsh.txt");
    let told = "pdsh@admin: gpu-5: ssh exited with exit code 255\n";
    fs::write(&file, stream + told).unwrap();
    let (code, _, notes) = run(&["import", &file.display().to_string()]);
    assert_eq!(code, Some(0), "{notes}");
    let silent = "host gpu-5 has printed nothing (ssh exited with exit code 255), left out";
    assert!(notes.contains(silent), "{notes}");

    let (code, _, errors) = run(&["forget", "gpu-[1-2]", "gpu-9", "gpu-4"]);
    assert_eq!(code, Some(1), "{errors}");
    assert_eq!(
        errors.matches("no inventory of host").count(),
        1,
        "{errors}"
    );
    assert!(errors.contains("`gpu-9`"), "{errors}");
    let (_, hosts, _) = run(&["hosts"]);
    assert_eq!(hosts.matches("gpu-").count(), 3, "{hosts}");
    assert_eq!(run(&["forget", "gpu-[1-2]", "gpu-4"]).0, Some(0));
    let (_, hosts, _) = run(&["hosts"]);
    assert!(!hosts.contains("gpu-"), "{hosts}");
}

#[test]
fn bad_inventories_and_imports_over_tcp_are_refused() {
    let served = Served::start(Fake::tree(1, 1));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("matrix.txt");
    fs::write(&file, MATRIX.replace("NV18", "NV")).unwrap();
    let file = file.display().to_string();
    let import = [
        "gpu",
        "import",
        "--host",
        "gpu-1",
        "--file-format",
        "nvidia-smi",
        &file,
    ];
    let bad = rsmctl(&format!("unix:{}", served.socket.display()), &import);
    let errors = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(
        errors.contains("line 2") && errors.contains("`NV`"),
        "{errors}"
    );
    let stranger = rsmctl(&format!("http://{}", served.tcp), &import);
    let errors = String::from_utf8_lossy(&stranger.stderr).into_owned();
    assert!(
        errors.contains("ImportGpuHost") && errors.contains("reading only"),
        "{errors}"
    );
}

fn put(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// A GPU and an adapter under one switch.
fn machine(root: &Path) {
    let switch = "devices/pci0000:15/0000:15:01.0/0000:16:00.0";
    for (address, class) in [
        ("0000:1b:00.0", "0x030200"),
        ("0000:18:00.0", "0x020700"),
        ("0000:01:00.0", "0x010802"),
    ] {
        let place = format!("{switch}/{address}");
        put(root, &format!("{place}/class"), &format!("{class}\n"));
        put(root, &format!("{place}/vendor"), "0x10de\n");
        put(root, &format!("{place}/numa_node"), "0\n");
        fs::create_dir_all(root.join("bus/pci/devices")).unwrap();
        symlink(
            root.join(&place),
            root.join("bus/pci/devices").join(address),
        )
        .unwrap();
    }
    let adapter = "class/infiniband/mlx5_0";
    put(
        root,
        &format!("{adapter}/node_guid"),
        "58a2:e103:001b:2576\n",
    );
    put(root, &format!("{adapter}/ports/1/state"), "4: ACTIVE\n");
    put(
        root,
        &format!("{adapter}/ports/1/gids/0"),
        "fe80:0000:0000:0000:58a2:e103:001b:2577\n",
    );
    symlink(
        root.join(switch).join("0000:18:00.0"),
        root.join(adapter).join("device"),
    )
    .unwrap();
}

#[test]
fn probe_output_can_be_imported() {
    let sys = tempfile::tempdir().unwrap();
    machine(sys.path());
    let output = Command::new(env!("CARGO_BIN_EXE_rsmctl"))
        .args(["gpu", "probe", "--sys"])
        .arg(sys.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let expected = "\
/sys/class/infiniband/mlx5_0/node_guid\t58a2:e103:001b:2576
/sys/class/infiniband/mlx5_0/device\t/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:18:00.0
/sys/class/infiniband/mlx5_0/ports/1/state\t4: ACTIVE
/sys/class/infiniband/mlx5_0/ports/1/gids/0\tfe80:0000:0000:0000:58a2:e103:001b:2577
/sys/bus/pci/devices/0000:18:00.0\t/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:18:00.0
/sys/bus/pci/devices/0000:18:00.0/class\t0x020700
/sys/bus/pci/devices/0000:18:00.0/vendor\t0x10de
/sys/bus/pci/devices/0000:18:00.0/numa_node\t0
/sys/bus/pci/devices/0000:1b:00.0\t/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:1b:00.0
/sys/bus/pci/devices/0000:1b:00.0/class\t0x030200
/sys/bus/pci/devices/0000:1b:00.0/vendor\t0x10de
/sys/bus/pci/devices/0000:1b:00.0/numa_node\t0
";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn probe_of_a_host_without_gpus_and_adapters_fails() {
    let sys = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rsmctl"))
        .args(["gpu", "probe", "--sys"])
        .arg(sys.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("neither GPUs nor InfiniBand"));
}

#[test]
fn a_watch_reports_each_change_once() {
    let served = Served::start(Fake::tree(1, 1));
    *served.gpus.fabric.lock() = Some(fabric(&ADAPTERS));
    let mut client = GpuServiceClient::new(served.unix());
    served.block_on(async {
        let stream = client.watch_gpu_hosts(v1::WatchGpuHostsRequest {}).await;
        let mut stream = stream.unwrap().into_inner();
        let first = stream.message().await.unwrap().unwrap();
        assert!(first.hosts.is_empty() && first.gone.is_empty());
        let mut import = v1::ImportGpuHostRequest {
            host: "gpu-1".to_owned(),
            machine_type: false,
            format: v1::GpuFormat::NvidiaSmi.into(),
            content: MATRIX.into(),
        };
        client.import_gpu_host(import.clone()).await.unwrap();
        let added = stream.message().await.unwrap().unwrap();
        assert_eq!(
            (added.hosts, added.gone),
            (vec!["gpu-1".to_owned()], vec![])
        );
        // The same inventory again is no change; another tier is.
        client.import_gpu_host(import.clone()).await.unwrap();
        import.content = MATRIX.replace("PIX", "PXB").into();
        client.import_gpu_host(import).await.unwrap();
        let changed = stream.message().await.unwrap().unwrap();
        assert_eq!(changed.hosts, ["gpu-1"]);
        let hints = client.get_gpu_hints(v1::GetGpuHintsRequest {
            host: "gpu-1".to_owned(),
        });
        assert_eq!(hints.await.unwrap().into_inner().hints[0].tier, "PXB");
        let forget = v1::ForgetGpuHostRequest {
            host: "gpu-1".to_owned(),
            machine_type: false,
            hosts: Vec::new(),
        };
        client.forget_gpu_host(forget).await.unwrap();
        let gone = stream.message().await.unwrap().unwrap();
        assert_eq!((gone.hosts, gone.gone), (vec![], vec!["gpu-1".to_owned()]));
    });
}
