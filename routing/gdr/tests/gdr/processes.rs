//! Settings of single processes, as a shell runs them and the libraries read them: each GPU gets
//! the port that was chosen for it, under any names and orders of devices.

mod nccl;
mod nvshmem;

use std::path::Path;
use std::process::Command;

use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::HostInventory;
use rsm_gdr::render;
use rsm_gdr::{Analysis, AnalysisConfig};

/// Variables of launchers, which the machine of the tests may have.
const LAUNCHERS: [&str; 7] = [
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
    "PALS_LOCAL_RANKID",
    "LOCAL_RANK",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
];

fn alone(host: HostInventory) -> Analysis {
    let mut inventory = GpuInventory::new();
    inventory.insert("host", host, 0).expect("a plain host");
    Analysis::new(&inventory, None, AnalysisConfig::default())
}

/// The value of `variable` after `script` was sourced; empty where it is not set.
fn after(script: &str, variable: &str, launcher: &[(&str, &str)]) -> String {
    after_all(script, &[variable], launcher).remove(0)
}

/// The values of `variables` after `script` was sourced; empty where one is not set.
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
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

/// Four GPUs, the second of which is named by its UUID alone, and eight adapters.
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
fn a_process_finds_its_gpu_however_it_was_launched() {
    let analysis = host();
    let script = render::nvshmem_script(&analysis, "host").expect("names are known");
    let list = |launcher: &[(&str, &str)]| after(&script, "NVSHMEM_HCA_LIST", launcher);
    let ports = ["mlx5_10:1", "mlx5_1:1", "ibp141s0:1", "ibp12s0:1"];
    for (rank, port) in ["0", "1", "2", "3"].into_iter().zip(ports) {
        for variable in &LAUNCHERS[..4] {
            assert_eq!(list(&[(variable, rank)]), port, "{variable}={rank}");
        }
        // The launcher shows each process its own GPU alone.
        assert_eq!(
            list(&[("LOCAL_RANK", "0"), ("CUDA_VISIBLE_DEVICES", rank)]),
            port
        );
    }
    // All processes see the same GPUs, in an order of their own.
    let visible = ("CUDA_VISIBLE_DEVICES", "3,1");
    assert_eq!(list(&[("SLURM_LOCALID", "0"), visible]), "ibp12s0:1");
    assert_eq!(list(&[("SLURM_LOCALID", "1"), visible]), "mlx5_1:1");
    let uuid = "GPU-5a1fb0e2-0000-4000-8000-000000000000";
    // CUDA takes the begin of a UUID that no other GPU has.
    for visible in [uuid, "GPU-5a1fb0e2-0", "GPU-5a1fb0e2"] {
        assert_eq!(list(&[("CUDA_VISIBLE_DEVICES", visible)]), "ibp141s0:1");
    }
    // A GPU that the inventory does not have, or a name of several, gets no port of another.
    for visible in ["7", "GPU-5a1f", "GPU-", "GPU-77", "MIG-5a1fb0e2", "none"] {
        assert_eq!(list(&[("CUDA_VISIBLE_DEVICES", visible)]), "", "{visible}");
    }

    let ucx = render::ucx_script(&analysis, "host").expect("names are known");
    let devices = after(&ucx, "UCX_NET_DEVICES", &[("SLURM_LOCALID", "1"), visible]);
    assert_eq!(devices, "mlx5_1:1");
}

#[test]
fn a_process_in_a_container_finds_its_gpu_by_address() {
    let mut inventory = host().hosts[0].inventory.as_ref().clone();
    let addresses = [
        "0000:1b:00.0",
        "0000:43:00.0",
        "0000:9b:00.0",
        "0001:03:00.0",
    ];
    for (gpu, address) in inventory.gpus.iter_mut().zip(addresses) {
        gpu.pci = address.parse().ok();
    }
    let analysis = alone(inventory);
    let script = render::nvshmem_script(&analysis, "host").expect("names are known");
    let ports = ["mlx5_10:1", "mlx5_1:1", "ibp141s0:1", "ibp12s0:1"];
    let proc = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpus-of-a-container");
    for shown in [&[0, 1, 2, 3][..], &[2], &[1, 3], &[3, 0]] {
        let _ = std::fs::remove_dir_all(&proc);
        for &gpu in shown {
            std::fs::create_dir_all(proc.join(addresses[gpu])).expect("a new folder");
        }
        let script = script.replace("/proc/driver/nvidia/gpus", &proc.display().to_string());
        let list = |launcher: &[(&str, &str)]| after(&script, "NVSHMEM_HCA_LIST", launcher);
        let mut sorted = shown.to_vec();
        sorted.sort_unstable();
        for (rank, &gpu) in sorted.iter().enumerate() {
            let rank = rank.to_string();
            assert_eq!(list(&[("LOCAL_RANK", &rank)]), ports[gpu], "{shown:?}");
            let visible = ("CUDA_VISIBLE_DEVICES", rank.as_str());
            assert_eq!(
                list(&[("LOCAL_RANK", "0"), visible]),
                ports[gpu],
                "{shown:?}"
            );
        }
        // Indices of the host mean nothing here.
        let beyond = shown.len().to_string();
        assert_eq!(list(&[("LOCAL_RANK", &beyond)]), "", "{shown:?}");
    }
}

#[test]
fn service_levels_are_stated_only_where_the_operator_names_one() {
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
