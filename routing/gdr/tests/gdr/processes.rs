//! Settings of single processes, as a shell runs them and the libraries read them: each GPU gets
//! the port that was chosen for it, under any names and orders of devices.

mod nccl;

use std::process::Command;

use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::HostInventory;
use rsm_gdr::render::{self, RenderError};
use rsm_gdr::{Analysis, AnalysisConfig};

use crate::samples::{every_sample, samples};

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

/// An adapter port as verbs lists it.
type Listed = (String, u8);

fn alone(host: HostInventory) -> Analysis {
    let mut inventory = GpuInventory::new();
    inventory.insert("host", host, 0).expect("a plain host");
    Analysis::new(&inventory, None, AnalysisConfig::default())
}

/// The value of `variable` after `script` was sourced; empty where it is not set.
fn after(script: &str, variable: &str, launcher: &[(&str, &str)]) -> String {
    let program = format!("{script}\nprintf %s \"${{{variable}-}}\"");
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
    String::from_utf8(output.stdout).expect("text")
}

/// The port that NVSHMEM 3.4 gives to the `process`-th process of a host with
/// `NVSHMEM_ENABLE_NIC_PE_MAPPING=1`: it keeps the ports that `NVSHMEM_HCA_LIST` names, in the
/// order of verbs, and takes them in turn.
fn nvshmem_takes(list: &str, verbs: &[Listed], process: usize) -> Option<Listed> {
    let named: Vec<(&str, Option<u8>)> = list
        .split(',')
        .map(|entry| match entry.split_once(':') {
            Some((device, port)) => (device, port.parse().ok()),
            None => (entry, None),
        })
        .collect();
    let kept: Vec<&Listed> = verbs
        .iter()
        .filter(|(device, port)| {
            named
                .iter()
                .any(|&(name, only)| name == device && only.is_none_or(|only| only == *port))
        })
        .collect();
    (!kept.is_empty()).then(|| kept[process % kept.len()].clone())
}

/// Orders in which verbs may list the ports of a host.
fn orders(host: &HostInventory) -> [Vec<Listed>; 3] {
    let mut listed: Vec<Listed> = host
        .hca_ports
        .iter()
        .filter_map(|port| Some((port.device.clone()?, port.port)))
        .collect();
    listed.sort();
    let reversed = listed.iter().rev().cloned().collect();
    let mut scrambled = listed.clone();
    let half = scrambled.len() / 2;
    scrambled.rotate_left(half);
    scrambled.sort_by_key(|(device, _)| device.bytes().rev().collect::<Vec<u8>>());
    [listed, reversed, scrambled]
}

#[test]
fn nvshmem_gives_each_gpu_of_every_sample_its_port() {
    let Some(data) = samples() else { return };
    let (mut gpus, mut without) = (0, Vec::new());
    for (name, mut host) in every_sample(&data) {
        // Files for virtual machines have no names.
        for (place, port) in host.hca_ports.iter_mut().enumerate() {
            port.device.get_or_insert_with(|| format!("mlx5_{place}"));
        }
        let analysis = alone(host);
        let script = match render::nvshmem_script(&analysis, "host") {
            Ok(script) => script,
            Err(RenderError::NoPort(_)) => {
                without.push(name);
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        };
        let host = &analysis.hosts[0].inventory;
        for (process, hint) in analysis.hints[0].iter().enumerate() {
            let index = host.gpus[hint.gpu].index.to_string();
            let list = after(&script, "NVSHMEM_HCA_LIST", &[("LOCAL_RANK", &index)]);
            let chosen = &host.hca_ports[hint.port().expect("the script has a port for it")];
            let chosen = (chosen.device.clone().expect("it has a name"), chosen.port);
            for verbs in orders(host) {
                let taken = nvshmem_takes(&list, &verbs, process);
                assert_eq!(taken.as_ref(), Some(&chosen), "{name}, GPU {index}: {list}");
            }
            gpus += 1;
        }
    }
    assert!(
        gpus > 100,
        "{gpus} GPUs; without compute ports: {without:?}"
    );
}

#[test]
fn a_list_for_the_whole_host_would_miss() {
    // The order of verbs decides, not that of the list.
    let verbs = ["mlx5_3", "mlx5_2", "mlx5_1", "mlx5_0"].map(|name| (name.to_owned(), 1));
    let taken = nvshmem_takes("mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1", &verbs, 0);
    assert_eq!(taken, Some(("mlx5_3".to_owned(), 1)));
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
        gpu.uuid = Some(format!("GPU-5a1fb0e2-0000-4000-8000-00000000000{number}"));
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
    let uuid = "GPU-5a1fb0e2-0000-4000-8000-000000000002";
    assert_eq!(list(&[("CUDA_VISIBLE_DEVICES", uuid)]), "ibp141s0:1");
    // A GPU that the inventory does not have gets no port of another.
    assert_eq!(list(&[("CUDA_VISIBLE_DEVICES", "7")]), "");

    let ucx = render::ucx_script(&analysis, "host").expect("names are known");
    let devices = after(&ucx, "UCX_NET_DEVICES", &[("SLURM_LOCALID", "1"), visible]);
    assert_eq!(devices, "mlx5_1:1");
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
