//! GPU hosts as a new user would try them, with all programs as processes: a simulated SuperPOD,
//! one host's matrix, swapped cables and exported files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rsm_gdr::render::{EXPORTERS, JOB_FILES};
use rsm_tests::binaries;
use rsm_tests::clock::wait_for;
use rsm_tests::gpu_matrix::gpu_matrix;
use rsm_tests::process::{Invocation, Running};

use crate::managed_gpu_agents::sys;

/// The simulated fabric.
const FABRIC: &str = "superpod:su=2";

const LIMIT: Duration = Duration::from_secs(120);

/// A daemon on a simulated fabric.
struct Daemon {
    directory: tempfile::TempDir,
    running: Option<Running>,
}

impl Daemon {
    fn begin() -> Daemon {
        let directory = tempfile::tempdir().expect("there is room");
        let mut daemon = Daemon {
            directory,
            running: None,
        };
        daemon.start();
        daemon
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn start(&mut self) {
        let rsm = Invocation::new(binaries::rsm(), self.directory.path());
        let rsm = rsm.args(["--fabric", &format!("sim:{FABRIC}"), "--listen", "off"]);
        let rsm = rsm.arg("--state-dir").arg(self.state());
        self.running = Some(rsm.spawn().expect("it can be started"));
        let up = || {
            let (code, text) = self.rsmctl(&["status"]);
            (code == 0 && text.contains("pairs reachable, no loop, no credit loop")).then_some(())
        };
        assert!(
            wait_for(LIMIT, up).is_some(),
            "{}",
            self.rsmctl(&["status"]).1
        );
    }

    fn stop(&mut self) {
        let running = self.running.take().expect("it runs");
        running.terminate(LIMIT).expect("it ends");
    }

    /// Prepares rsmctl to run in `directory` with this daemon as its server.
    fn program_in(&self, directory: &Path, arguments: &[&str]) -> Invocation {
        let rsmctl = Invocation::new(binaries::rsmctl(), directory);
        let socket = format!("unix:{}", self.state().join("rsm.sock").display());
        rsmctl.env("RSM_SERVER", socket).args(arguments)
    }

    /// The exit code and all output of rsmctl.
    fn rsmctl(&self, arguments: &[&str]) -> (i32, String) {
        let program = self.program_in(self.directory.path(), arguments);
        let finished = program.run(LIMIT).expect("it ends");
        let text = format!("{}{}", finished.stdout, finished.stderr);
        (finished.status.code().unwrap_or(-1), text)
    }

    fn printed(&self, arguments: &[&str]) -> String {
        let (code, text) = self.rsmctl(arguments);
        assert_eq!(code, 0, "{arguments:?}: {text}");
        text
    }

    /// Imports a matrix of `nvidia-smi` for the machine type `dgx`.
    fn import(&self, file: &Path) {
        let file = file.display().to_string();
        let import = ["gpu", "import", "--host", "dgx", "--machine-type"];
        let import = [&import[..], &["--file-format", "nvidia-smi", &file]].concat();
        assert_eq!(self.printed(&import), "8 GPUs, 8 ports\n");
    }
}

#[test]
fn one_matrix_describes_a_superpod_and_swapped_cables_are_findings() {
    let mut daemon = Daemon::begin();
    // The harness keeps the output of programs in their folder.
    let folder = tempfile::tempdir().expect("there is room");
    let watch = daemon.program_in(folder.path(), &["gpu", "watch"]);
    let mut watch = watch.spawn().expect("it can be started");
    let file = daemon.directory.path().join("dgx.txt");
    std::fs::write(&file, gpu_matrix(&[])).expect("there is room");
    daemon.import(&file);
    let watched = |text: &str| {
        let seen = || watch.stdout_so_far().contains(text).then_some(());
        assert!(
            wait_for(LIMIT, seen).is_some(),
            "{text}: {}",
            watch.stdout_so_far()
        );
    };
    watched("64 hosts changed, 0 findings");
    assert!(
        daemon
            .printed(&["gpu", "check"])
            .contains("nothing is wrong")
    );
    let hints = daemon.printed(&["gpu", "hints", "host-001"]);
    assert!(hints.contains("GPU3  mlx5_3  PIX   3     yes"), "{hints}");
    let pair = daemon.printed(&["gpu", "pair", "host-001:3", "host-040:3"]);
    assert!(pair.contains("across-units-same-rail"), "{pair}");
    let plan = daemon.printed(&["gpu", "plan", "--pattern", "all-to-all", "--format", "json"]);
    let plan: serde_json::Value = serde_json::from_str(&plan).expect("JSON");
    assert_eq!(plan["load"]["worst_link"], 1, "{plan}");

    // Two cables are swapped between their leaves.
    let swap = [
        "sim",
        "swap",
        "host-001 mlx5_0",
        "1",
        "host-002 mlx5_3",
        "1",
    ];
    let done = daemon.printed(&swap);
    assert!(done.contains("are exchanged"), "{done}");
    // A check right after the swap reads the ports before it answers.
    let (code, text) = daemon.rsmctl(&["gpu", "check", "--sweep"]);
    assert_eq!(code, 1, "{text}");
    for part in ["rail-cables-swapped", "host-001", "mlx5_0"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    watched("changed: host-001 host-002, ");
    let metrics = daemon.printed(&["gpu", "export", "metrics"]);
    for line in [
        "rsm_gdr_gpus{tier=\"PIX\"} 512",
        "rsm_gdr_misaligned_ports 2",
        "rsm_gdr_findings{kind=\"rail-cables-swapped\"} 1",
        "rsm_route_max_flows_per_link{category=\"gdr\",pattern=\"ring\"} ",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    daemon.printed(&swap);
    let (code, text) = daemon.rsmctl(&["gpu", "check", "--sweep"]);
    assert_eq!(code, 0, "{text}");

    let nccl = daemon.printed(&["gpu", "export", "nccl-env", "--host", "host-001"]);
    assert!(
        nccl.contains("NCCL_IB_HCA==mlx5_0:1:0:0,mlx5_1:1:1:0"),
        "{nccl}"
    );
    let slurm = daemon.printed(&["gpu", "export", "slurm-tree"]);
    assert!(
        slurm.contains(" Nodes=host-[001-032]\n") && slurm.contains("SwitchName=su-"),
        "{slurm}"
    );
    assert!(watch.is_running());
    // The inventories survive a restart.
    daemon.stop();
    daemon.start();
    let again = daemon.printed(&["gpu", "hints", "host-001"]);
    let end = |text: &str| {
        text.split_once("\nhints\n")
            .map(|(_, hints)| hints.to_owned())
    };
    assert_eq!((end(&again), end(&hints).is_some()), (end(&hints), true));
}

#[test]
fn every_exported_file_is_the_same_with_and_without_a_manager() {
    let daemon = Daemon::begin();
    let folder = daemon.directory.path();
    // The standard output of a program that must succeed.
    let written = |program: Invocation, about: &str| {
        let finished = program.run(LIMIT).expect("it ends");
        assert!(finished.status.success(), "{about}: {}", finished.stderr);
        assert!(!finished.stdout.is_empty(), "{about}");
        finished.stdout
    };
    // A table of /sys has the PCI addresses that some formats need. As a machine type it has no age,
    // which the metrics would show.
    let tree = sys(folder, 8, 1);
    let tree = tree.display().to_string();
    let probe = ["gpu", "probe", "--sys", &tree];
    let table = written(daemon.program_in(folder, &probe), "probe");
    let file = folder.join("dgx.tsv");
    std::fs::write(&file, table).expect("there is room");
    let inventory = file.display().to_string();
    let import = ["gpu", "import", "--host", "dgx", "--machine-type"];
    let import = [&import[..], &["--file-format", "sysfs", &inventory]].concat();
    assert_eq!(daemon.printed(&import), "8 GPUs, 8 ports\n");
    let assert_same = |command: &str, rest: &[&str]| {
        let online = [&["gpu", command], rest].concat();
        let online = written(daemon.program_in(folder, &online), rest[0]);
        let alone = Invocation::new(binaries::rsm(), folder);
        let alone = alone.args(["gpu", command, FABRIC]).args(rest);
        let alone = written(alone.args(["--inventory", &inventory]), rest[0]);
        assert_eq!(online, alone, "{rest:?}");
    };
    for exporter in EXPORTERS {
        match exporter.of_host {
            true => assert_same("export", &[exporter.name, "--host", "host-040"]),
            false => assert_same("export", &[exporter.name]),
        }
    }
    for file in JOB_FILES {
        assert_same("plan", &["--file", file.name]);
        let hosts = ["--hosts", "host-[001,020]", "--file", file.name];
        assert_same("plan", &hosts);
    }
}

#[test]
fn pdsh_output_of_64_hosts_is_imported_and_exported_as_one_file_per_host() {
    let mut daemon = Daemon::begin();
    let folder = daemon.directory.path().to_owned();
    let names: Vec<String> = (1..=64).map(|number| format!("host-{number:03}")).collect();
    let mut stream = String::new();
    for line in gpu_matrix(&[]).lines() {
        names
            .iter()
            .for_each(|name| stream += &format!("{name}: {line}\n"));
    }
    std::fs::write(folder.join("pdsh.txt"), stream).expect("there is room");
    let imported = daemon.printed(&["gpu", "import", "pdsh.txt"]);
    assert_eq!(imported, "64 hosts imported, 64 changed\n");
    let written = daemon.printed(&["gpu", "export", "nccl-env", "--all", "--dir", "settings"]);
    assert_eq!(written, "64 files in settings\n");
    for name in &names {
        let file = std::fs::read_to_string(folder.join("settings").join(name));
        let single = daemon.printed(&["gpu", "export", "nccl-env", "--host", name]);
        assert_eq!(file.expect("a file of the host"), single);
    }
    daemon.stop();
}
