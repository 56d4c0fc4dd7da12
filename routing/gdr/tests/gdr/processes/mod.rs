//! Tests of settings for single processes, run by a shell and read as the libraries do: each GPU
//! gets the port that was chosen for it, with any names and orders of devices.

mod exports;
mod failover;
mod nccl;
mod nvshmem;
mod tags;

use std::path::{Path, PathBuf};
use std::process::Command;

use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::{HcaPort, HostInventory, LinkLayer};
use rsm_gdr::render;
use rsm_gdr::{Analysis, AnalysisConfig};

use crate::samples::{every_file, every_sample, samples};

/// The variables of launchers that a script reads. Tests clear them first. The first four hold a
/// local rank.
const LAUNCHERS: [&str; 10] = [
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
    "PALS_LOCAL_RANKID",
    "LOCAL_RANK",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS",
    "MPI_LOCALRANKID",
];

/// The analysis of a host without a fabric.
fn alone(host: HostInventory) -> Analysis {
    let mut inventory = GpuInventory::new();
    inventory.insert("host", host, 0).expect("a plain host");
    Analysis::new(&inventory, None, AnalysisConfig::default())
}

/// The value of `variable` after `script` was run with the variables of `launcher`; empty if it is
/// not set.
fn after(script: &str, variable: &str, launcher: &[(&str, &str)]) -> String {
    after_all(script, &[variable], launcher).remove(0)
}

/// The values of `variables` after `script` was run with the variables of `launcher`; empty if one
/// is not set.
fn after_all(script: &str, variables: &[&str], launcher: &[(&str, &str)]) -> Vec<String> {
    let print = |name: &&str| format!("printf '%s\\n' \"${{{name}-}}\"\n");
    let print: String = variables.iter().map(print).collect();
    let program = format!("{script}\n{print}");
    let mut shell = Command::new("sh");
    for name in LAUNCHERS {
        shell.env_remove(name);
    }
    let output = shell
        .args(["-euc", &program])
        .envs(launcher.iter().copied())
        .output()
        .expect("a shell");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8 output");
    text.lines().map(str::to_owned).collect()
}

/// The reason why a library has nothing to choose for a host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum NoChoice {
    /// There is no GPU that a port could serve.
    NoGpu,
    /// There is no adapter that a GPU could use.
    NoAdapter,
}

impl NoChoice {
    /// The reason for this host; `None` if a library has to choose.
    fn of(host: &HostInventory) -> Option<NoChoice> {
        match (host.gpus.is_empty(), host.hca_ports.is_empty()) {
            (true, _) => Some(NoChoice::NoGpu),
            (false, true) => Some(NoChoice::NoAdapter),
            (false, false) => None,
        }
    }

    /// Words in lower case: a file about a host that has such a device contains at least one of
    /// them.
    fn words(self) -> &'static [&'static str] {
        match self {
            // These are a row or an object of a driver, a tag, and NVIDIA's vendor number.
            NoChoice::NoGpu => &["gpu0", "nvml0", "rsmi0", "<gpu", "10de"],
            // These are a device name, an object of verbs, and the class of InfiniBand controllers.
            NoChoice::NoAdapter => &["mlx", "openfabrics", "0x0207", "0207 ["],
        }
    }
}

/// A sample as a machine whose libraries have to choose.
fn machine(mut host: HostInventory) -> HostInventory {
    // Files for virtual machines have no names.
    for (place, port) in host.hca_ports.iter_mut().enumerate() {
        port.device.get_or_insert_with(|| format!("mlx5_{place}"));
    }
    // The adapters of cloud machines, whose network is Ethernet, count as InfiniBand.
    if !host.hca_ports.iter().any(HcaPort::may_be_infiniband) {
        for port in &mut host.hca_ports {
            port.link_layer = Some(LinkLayer::InfiniBand);
        }
    }
    host
}

#[test]
fn samples_without_a_choice_have_no_gpu_or_no_adapter() {
    let Some(data) = samples() else { return };
    let texts = every_file(&data).map(|(_, _, text)| text.to_lowercase());
    let (mut found, mut choices) = (Vec::new(), 0);
    for ((name, host), text) in every_sample(&data).zip(texts) {
        let Some(why) = NoChoice::of(&host) else {
            choices += 1;
            continue;
        };
        let word = why.words().iter().find(|word| text.contains(**word));
        assert_eq!(word, None, "{name} has {why:?}");
        found.push(why);
    }
    // Two samples have no GPU. Of the two without an adapter, one lists only GPUs, and the only
    // network of the other is a virtual Ethernet device without a PCI address.
    found.sort_unstable();
    assert_eq!(
        found,
        [
            NoChoice::NoGpu,
            NoChoice::NoGpu,
            NoChoice::NoAdapter,
            NoChoice::NoAdapter
        ]
    );
    assert_eq!(choices, 20);
}

/// Four GPUs with UUIDs, and four adapters in the reverse order of the GPUs.
fn host() -> Analysis {
    let matrix = "\
\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tNIC3
GPU0\tX\tNV4\tNV4\tNV4\tSYS\tSYS\tSYS\tPIX
GPU1\tNV4\tX\tNV4\tNV4\tSYS\tSYS\tPIX\tSYS
GPU2\tNV4\tNV4\tX\tNV4\tSYS\tPIX\tSYS\tSYS
GPU3\tNV4\tNV4\tNV4\tX\tPIX\tSYS\tSYS\tSYS
NIC0\tSYS\tSYS\tSYS\tPIX\tX\tSYS\tSYS\tSYS
NIC1\tSYS\tSYS\tPIX\tSYS\tSYS\tX\tSYS\tSYS
NIC2\tSYS\tPIX\tSYS\tSYS\tSYS\tSYS\tX\tSYS
NIC3\tPIX\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\tX

Legend:

  X    = Self

NIC Legend:

  NIC0: ibp12s0
  NIC1: ibp141s0
  NIC2: mlx5_1
  NIC3: mlx5_10
";
    let format = rsm_gdr::import::InventoryFormat::NvidiaSmi;
    let mut host = rsm_gdr::import::import(format, matrix.as_bytes()).expect("a matrix");
    for (number, gpu) in host.gpus.iter_mut().enumerate() {
        gpu.uuid = Some(format!("GPU-5a1fb0e{number}-0000-4000-8000-000000000000"));
    }
    alone(host)
}

#[test]
fn a_process_gets_the_port_of_its_gpu_from_any_launcher() {
    let analysis = host();
    let script = render::nvshmem_script(&analysis, "host").expect("names are known");
    let list = |launcher: &[(&str, &str)]| after(&script, "NVSHMEM_HCA_LIST", launcher);
    let ports = ["mlx5_10:1", "mlx5_1:1", "ibp141s0:1", "ibp12s0:1"];
    for (rank, port) in ["0", "1", "2", "3"].into_iter().zip(ports) {
        for variable in &LAUNCHERS[..4] {
            assert_eq!(list(&[(variable, rank)]), port, "{variable}={rank}");
        }
        // The launcher shows each process only its own GPU.
        assert_eq!(
            list(&[("LOCAL_RANK", "0"), ("CUDA_VISIBLE_DEVICES", rank)]),
            port
        );
    }
    // All processes see the same GPUs, in another order than that of the inventory.
    let visible = ("CUDA_VISIBLE_DEVICES", "3,1");
    assert_eq!(list(&[("SLURM_LOCALID", "0"), visible]), "ibp12s0:1");
    assert_eq!(list(&[("SLURM_LOCALID", "1"), visible]), "mlx5_1:1");
    let uuid = "GPU-5a1fb0e2-0000-4000-8000-000000000000";
    // CUDA accepts the start of a UUID if no other GPU has the same start.
    for visible in [uuid, "GPU-5a1fb0e2-0", "GPU-5a1fb0e2"] {
        assert_eq!(list(&[("CUDA_VISIBLE_DEVICES", visible)]), "ibp141s0:1");
    }
    // A GPU that the inventory does not have gets no port, nor does a name that several GPUs share.
    for visible in ["7", "GPU-5a1f", "GPU-", "GPU-77", "MIG-5a1fb0e2", "none"] {
        assert_eq!(list(&[("CUDA_VISIBLE_DEVICES", visible)]), "", "{visible}");
    }

    let ucx = render::ucx_script(&analysis, "host").expect("names are known");
    let devices = after(&ucx, "UCX_NET_DEVICES", &[("SLURM_LOCALID", "1"), visible]);
    assert_eq!(devices, "mlx5_1:1");
}

/// The PCI addresses of the GPUs of [`with_addresses`].
const ADDRESSES: [&str; 4] = [
    "0000:1b:00.0",
    "0000:43:00.0",
    "0000:9b:00.0",
    "0001:03:00.0",
];

/// The ports of these GPUs.
const PORTS: [&str; 4] = ["mlx5_10:1", "mlx5_1:1", "ibp141s0:1", "ibp12s0:1"];

/// The GPUs and adapters of [`host`], with addresses of the GPUs.
fn with_addresses() -> Analysis {
    let mut inventory = host().hosts[0].inventory.as_ref().clone();
    for (gpu, address) in inventory.gpus.iter_mut().zip(ADDRESSES) {
        gpu.pci = address.parse().ok();
    }
    alone(inventory)
}

/// A folder that stands for the files of NVIDIA's driver in `/proc` and `/dev`.
struct Driver(PathBuf);

impl Driver {
    /// Creates the folder. The driver lists the GPUs of `shown`, with the numbers of their device
    /// files if `with_minors`; the process may open the GPUs of `open`. The device files have
    /// another order than the addresses.
    fn new(name: &str, shown: &[usize], with_minors: bool, open: &[usize]) -> Driver {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        let minor = |gpu: usize| 3 - gpu;
        for &gpu in shown {
            let of_gpu = folder.join("gpus").join(ADDRESSES[gpu]);
            std::fs::create_dir_all(&of_gpu).expect("a new folder");
            let text = format!(
                "Model: \t\t H100\nBus Location: \t {}\nDevice Minor: \t {}\n",
                ADDRESSES[gpu],
                minor(gpu)
            );
            if with_minors {
                std::fs::write(of_gpu.join("information"), text).expect("a new file");
            }
        }
        std::fs::create_dir_all(&folder).expect("a folder");
        for &gpu in open {
            let file = folder.join(format!("nvidia{}", minor(gpu)));
            std::fs::write(file, "").expect("a new file");
        }
        Driver(folder)
    }

    /// The script with paths into this folder.
    fn script(&self, script: &str) -> String {
        let gpus = self.0.join("gpus").display().to_string();
        let device = self.0.join("nvidia").display().to_string();
        script
            .replace("/proc/driver/nvidia/gpus", &gpus)
            .replace("/dev/nvidia", &device)
    }
}

#[test]
fn a_process_in_a_container_finds_its_gpu_by_address() {
    let analysis = with_addresses();
    let script = render::nvshmem_script(&analysis, "host").expect("names are known");
    for (shown, with_minors) in [
        (&[0, 1, 2, 3][..], false),
        (&[2], true),
        (&[1, 3], false),
        (&[1, 3], true),
        (&[3, 0], true),
    ] {
        let driver = Driver::new("gpus-of-a-container", shown, with_minors, shown);
        let script = driver.script(&script);
        let list = |launcher: &[(&str, &str)]| after(&script, "NVSHMEM_HCA_LIST", launcher);
        let mut sorted = shown.to_vec();
        sorted.sort_unstable();
        for (rank, &gpu) in sorted.iter().enumerate() {
            let rank = rank.to_string();
            assert_eq!(list(&[("LOCAL_RANK", &rank)]), PORTS[gpu], "{shown:?}");
            let visible = ("CUDA_VISIBLE_DEVICES", rank.as_str());
            assert_eq!(
                list(&[("LOCAL_RANK", "0"), visible]),
                PORTS[gpu],
                "{shown:?}"
            );
        }
        // A rank beyond the visible GPUs gets no port, even if the host has a GPU with that index.
        let beyond = shown.len().to_string();
        assert_eq!(list(&[("LOCAL_RANK", &beyond)]), "", "{shown:?}");
    }
}

#[test]
fn a_job_counts_only_the_gpus_that_it_may_open() {
    // With Slurm's ConstrainDevices the driver lists all addresses, and the devices of other jobs
    // cannot be opened.
    let script = render::ucx_script(&with_addresses(), "host").expect("names are known");
    // The inventory may come from a source without addresses.
    let by_index = render::ucx_script(&host(), "host").expect("names are known");
    for script in [script, by_index] {
        for open in [&[2, 3][..], &[1], &[0, 3]] {
            let driver = Driver::new("gpus-of-a-job", &[0, 1, 2, 3], true, open);
            let script = driver.script(&script);
            let devices = |launcher: &[(&str, &str)]| after(&script, "UCX_NET_DEVICES", launcher);
            let all: Vec<String> = (0..open.len()).map(|gpu| gpu.to_string()).collect();
            for list in [all.join(","), all.join(", ")] {
                for (rank, &gpu) in open.iter().enumerate() {
                    let launcher = [
                        ("SLURM_LOCALID", all[rank].as_str()),
                        ("CUDA_VISIBLE_DEVICES", list.as_str()),
                    ];
                    assert_eq!(devices(&launcher), PORTS[gpu], "{open:?} {launcher:?}");
                }
            }
            let beyond = open.len().to_string();
            assert_eq!(devices(&[("CUDA_VISIBLE_DEVICES", &beyond)]), "");
        }
    }
}

#[test]
fn gpu_numbers_of_slurm_are_used_if_the_driver_lists_no_device_files() {
    let hidden = Driver::new("no-driver", &[], false, &[]);
    let silent = Driver::new("silent-driver", &[0, 1, 2, 3], false, &[]);
    let with_addresses = render::ucx_script(&with_addresses(), "host").expect("names are known");
    let by_index = render::ucx_script(&host(), "host").expect("names are known");
    let scripts = [
        hidden.script(&by_index),
        silent.script(&by_index),
        hidden.script(&with_addresses),
        silent.script(&with_addresses),
    ];
    for script in &scripts {
        let devices = |rank: &str, visible: &str, gpus: (&str, &str)| {
            let launcher = [
                ("SLURM_LOCALID", rank),
                ("CUDA_VISIBLE_DEVICES", visible),
                gpus,
            ];
            after(script, "UCX_NET_DEVICES", &launcher)
        };
        let step = |rank: &str, visible: &str, gpus: &str| {
            let of_job = devices(rank, visible, ("SLURM_JOB_GPUS", gpus));
            assert_eq!(of_job, devices(rank, visible, ("SLURM_STEP_GPUS", gpus)));
            of_job
        };
        // The job counts its GPUs from 0.
        assert_eq!(step("0", "0,1", "2,3"), PORTS[2]);
        assert_eq!(step("1", "0, 1", "2, 3"), PORTS[3]);
        assert_eq!(step("0", "0", "3"), PORTS[3]);
        assert_eq!(step("1", "", "2,3"), PORTS[3]);
        // The job is not constrained: its numbers are those of the host.
        assert_eq!(step("1", "2,3", "2,3"), PORTS[3]);
        assert_eq!(step("1", "1,2", "1,2"), PORTS[2]);
        assert_eq!(step("0", "3", "2,3"), PORTS[3]);
        assert_eq!(step("2", "0,1,2,3", "0,1,2,3"), PORTS[2]);
        // One GPU of several: its number may be that of the host or that of the job.
        assert_eq!(step("0", "1", "1,2"), PORTS[1]);
        assert_eq!(step("0", "0", "2,3"), "");
        assert_eq!(step("0", "1,0", "0,2"), PORTS[2]);
        assert_eq!(step("1", "", "1,2"), "");
        assert_eq!(step("0", "2", "0,1"), "");
        // A UUID names the same GPU in every job.
        let uuid = "GPU-5a1fb0e2-0000-4000-8000-000000000000";
        assert_eq!(step("0", uuid, "0,1"), PORTS[2]);
    }
}

#[test]
fn a_script_does_not_change_the_variables_of_its_caller() {
    for file in [render::ucx_script, render::nvshmem_script] {
        let script = file(&with_addresses(), "host").expect("names are known");
        let program = format!("rank=7 host=h at=a count=5\n{script}");
        let kept = after_all(&program, &["rank", "host", "at", "count"], &[]);
        assert_eq!(kept, ["7", "h", "a", "5"]);
    }
}

#[test]
fn the_mooncake_file_numbers_the_gpus_as_the_process_sees_them() {
    let script = render::mooncake_script(&with_addresses(), "host").expect("names are known");
    let all = [0, 1, 2, 3];
    let job = Driver::new("mooncake-of-a-job", &all, true, &[1, 3]);
    let host = Driver::new("mooncake-of-a-host", &all, true, &all);
    let first = |driver: &Driver, launcher: &[(&str, &str)]| -> Vec<String> {
        let path = after(&driver.script(&script), "MC_CUSTOM_TOPO_JSON", launcher);
        if path.is_empty() {
            return Vec::new();
        }
        let text = std::fs::read_to_string(&path).expect("the script's file");
        std::fs::remove_file(&path).expect("the script's file");
        let json: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        let rows = json.as_object().expect("rows by names");
        let gpus = (0..).map_while(|gpu| rows.get(&format!("cuda:{gpu}")));
        gpus.map(|row| row[0][0].as_str().expect("a name").to_owned() + ":1")
            .collect()
    };
    let ports = |gpus: &[usize]| -> Vec<&str> { gpus.iter().map(|&gpu| PORTS[gpu]).collect() };
    assert_eq!(first(&host, &[]), ports(&all));
    assert_eq!(first(&host, &[("CUDA_VISIBLE_DEVICES", "3")]), ports(&[3]));
    let list = [("CUDA_VISIBLE_DEVICES", "2,0"), ("LOCAL_RANK", "1")];
    assert_eq!(first(&host, &list), ports(&[2, 0]));
    assert_eq!(first(&job, &[]), ports(&[1, 3]));
    assert_eq!(
        first(&job, &[("CUDA_VISIBLE_DEVICES", "1,0")]),
        ports(&[3, 1])
    );
    // If one GPU is unknown there is no file, and the file of the caller is not used.
    let unknown = [
        ("CUDA_VISIBLE_DEVICES", "0,7"),
        ("MC_CUSTOM_TOPO_JSON", "/old"),
    ];
    assert_eq!(first(&host, &unknown), Vec::<String>::new());
}

#[test]
fn files_state_a_service_level_only_if_the_operator_names_one() {
    let mut analysis = host();
    let files = |analysis: &Analysis| {
        let nccl = render::NcclVersion::RAILS;
        [
            render::ucx_script(analysis, "host"),
            render::nvshmem_script(analysis, "host"),
            render::nccl_environment(analysis, "host", nccl),
        ]
        .map(|file| file.expect("names are known"))
    };
    for file in files(&analysis) {
        assert!(!file.contains("_SL="), "{file}");
    }
    analysis.config.sl = Some(3);
    for file in files(&analysis) {
        assert!(file.contains("_SL=3"), "{file}");
    }
}
