//! Tests `rsm gpu` and `rsm plan --gpu` as processes, on a simulated SuperPOD and a matrix as a
//! user would paste it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rsm_gdr::generate::{Fleet, FleetFaults, fleet};
use rsm_gdr::import::to_json;
use rsm_routing::generate::generate;
use rsm_routing::ibnetdiscover;

/// Output of `rsm` with these arguments.
fn rsm(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rsm"))
        .args(arguments)
        .output()
        .expect("rsm starts")
}

/// Standard output of a successful `rsm` with these arguments.
fn printed(arguments: &[&str]) -> String {
    let output = rsm(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// A machine with eight GPUs, each with its own adapter, in the driver's output format.
fn matrix() -> String {
    let names: Vec<String> = (0..8)
        .map(|n| format!("GPU{n}"))
        .chain((0..8).map(|n| format!("NIC{n}")))
        .collect();
    let mut text = format!("\t{}\tCPU Affinity\tNUMA Affinity\n", names.join("\t"));
    for (row, name) in names.iter().enumerate() {
        let cell = |column: usize| match () {
            () if row == column => " X ",
            () if row < 8 && column < 8 => "NV18",
            () if row % 8 == column % 8 => "PIX",
            () if row % 8 / 4 == column % 8 / 4 => "NODE",
            () => "SYS",
        };
        let cells: Vec<&str> = (0..16).map(cell).collect();
        let tail = if row < 8 {
            format!("0-31\t{}", row / 4)
        } else {
            String::new()
        };
        text.push_str(&format!("{name}\t{}\t{tail}\n", cells.join("\t")));
    }
    text.push_str("\nNIC Legend:\n\n");
    (0..8).for_each(|nic| text.push_str(&format!("  NIC{nic}: mlx5_{nic}\n")));
    text
}

/// Writes a fleet to `dir`. Returns the file of the fabric, and the folder with one file for each
/// host.
fn write_fleet(fleet: &Fleet, dir: &Path) -> (String, String) {
    let fabric = dir.join("fabric.txt");
    let mut text = Vec::new();
    ibnetdiscover::write(&fleet.netlist, &mut text).expect("memory takes it");
    fs::write(&fabric, text).expect("room");
    let hosts = dir.join("hosts");
    fs::create_dir(&hosts).expect("a new folder");
    for (name, record) in fleet.inventory.hosts() {
        fs::write(
            hosts.join(format!("{name}.json")),
            to_json(&record.inventory),
        )
        .expect("room");
    }
    (fabric.display().to_string(), hosts.display().to_string())
}

#[test]
fn one_matrix_applies_to_every_host() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("dgx.txt");
    fs::write(&file, matrix()).expect("room");
    let file = file.display().to_string();
    let check = printed(&["gpu", "check", "superpod:su=2", "--inventory", &file]);
    assert!(check.contains("512 GPUs of 64 hosts in 2 units"), "{check}");
    assert!(check.contains("findings none"), "{check}");
    let hints = printed(&[
        "gpu",
        "hints",
        "superpod:su=2",
        "host-001",
        "--inventory",
        &file,
    ]);
    assert!(hints.contains("GPU3  mlx5_3  PIX   3     yes"), "{hints}");
    let pair = printed(&[
        "gpu",
        "pair",
        "superpod:su=2",
        "host-001:3",
        "host-002:3",
        "--inventory",
        &file,
    ]);
    assert!(
        pair.contains("class    same-leaf") && pair.contains("1 switches"),
        "{pair}"
    );
    let plan = printed(&[
        "gpu",
        "plan",
        "superpod:su=2",
        "--pattern",
        "tree",
        "--inventory",
        &file,
    ]);
    assert!(
        plan.contains("job      512 ranks on 64 hosts, tree"),
        "{plan}"
    );
    let slurm = printed(&[
        "gpu",
        "export",
        "superpod:su=2",
        "slurm-tree",
        "--inventory",
        &file,
    ]);
    assert!(
        slurm.contains(" Nodes=host-[001-032]\n") && slurm.contains("SwitchName=su-"),
        "{slurm}"
    );
    let nccl = printed(&[
        "gpu",
        "export",
        "superpod:su=2",
        "nccl-env",
        "--host",
        "host-001",
        "--inventory",
        &file,
    ]);
    assert!(nccl.contains("NCCL_IB_HCA==mlx5_0:1:0:0,"), "{nccl}");
    let routed = printed(&["plan", "superpod:su=1", "--gpu", &file]);
    assert!(
        routed.contains("256 GPUs of 32 hosts in 1 units"),
        "{routed}"
    );
}

#[test]
fn faults_are_reported_and_set_the_exit_code() {
    let dir = tempfile::tempdir().expect("a folder");
    let netlist = generate("superpod:su=1").expect("a published fabric");
    let faults = FleetFaults {
        swapped_cables: 1,
        nvlinks: 1,
        seed: 4,
        ..FleetFaults::default()
    };
    let fleet = fleet(netlist, faults).expect("hosts with plain names");
    assert_eq!(fleet.expected.len(), 2, "{:?}", fleet.expected);
    let (fabric, hosts) = write_fleet(&fleet, dir.path());
    let output = rsm(&[
        "gpu",
        "check",
        &fabric,
        "--inventory",
        &hosts,
        "--format",
        "json",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut kinds: Vec<&str> = json["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|finding| finding["kind"].as_str())
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["nvlink-degraded", "rail-cables-swapped"]);
}

#[test]
fn invalid_inventories_are_refused_with_file_and_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("dgx.txt");
    fs::write(&file, matrix().replacen("PIX", "PIY", 1)).expect("room");
    let output = rsm(&[
        "gpu",
        "check",
        "superpod:su=1",
        "--inventory",
        &file.display().to_string(),
    ]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        errors.contains("dgx.txt") && errors.contains("line 2") && errors.contains("PIY"),
        "{errors}"
    );
    let without = rsm(&["gpu", "check", "superpod:su=1"]);
    assert!(String::from_utf8_lossy(&without.stderr).contains("--inventory"));
    let no_host = rsm(&["gpu", "export", "superpod:su=1", "ucx", "--inventory", "x"]);
    assert_eq!(no_host.status.code(), Some(2));
}

#[test]
fn hosts_outside_the_fabric_fail_the_command() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("elsewhere.txt"), matrix()).expect("room");
    let folder = dir.path().display().to_string();
    for command in [
        &["check", "superpod:su=1"][..],
        &["export", "superpod:su=1", "slurm-tree"],
    ] {
        let output = rsm(&[&["gpu"], command, &["--inventory", &folder]].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{command:?}: {errors}");
        assert!(
            errors.contains("none of the 1 GPU hosts has a compute port in the fabric"),
            "{command:?}: {errors}"
        );
    }
}

#[test]
fn several_sources_of_one_host_become_one_inventory() {
    let dir = tempfile::tempdir().expect("a folder");
    let put = |name: &str, text: &str| {
        let file = dir.path().join(name);
        fs::write(&file, text).expect("room");
        file.display().to_string()
    };
    let links = put("links.txt", &matrix());
    let sysfs = "/sys/class/infiniband/mlx5_3/node_guid\t58a2:e103:001b:2576\n\
                 /sys/class/infiniband/mlx5_3/ports/1/rate\t400 Gb/sec (4X NDR)\n";
    let merged = printed(&["gpu", "import", &links, &put("host.tsv", sysfs)]);
    let host = rsm_gdr::import::import(rsm_gdr::import::InventoryFormat::Json, merged.as_bytes());
    let host = host.expect("our own format");
    assert_eq!(host.hca_ports[3].gbps, Some(400));
    assert_eq!(host.links_between(0, 7), 18);
    // Contradictions of the second source are reported, and the first source applies.
    let contradicting = put("other.txt", &matrix().replace("PIX", "PXB"));
    let output = rsm(&["gpu", "import", &links, &contradicting]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("PIX"));
}

#[test]
fn files_of_a_folder_that_are_named_after_one_host_are_merged() {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("node01.txt"), matrix()).expect("room");
    let other = matrix().replace("PIX", "PXB");
    fs::write(dir.path().join("node01.out"), other).expect("room");
    let folder = dir.path().display().to_string();
    let output = rsm(&["gpu", "check", "superpod:su=1", "--inventory", &folder]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        errors.contains("node01.txt: tier of GPU0 mlx5_0 is PIX: PXB holds")
            && errors.contains("none of the 1 GPU hosts"),
        "{errors}"
    );
}

#[test]
fn routes_follow_hosts_and_rails_unless_options_say_otherwise() {
    let dir = tempfile::tempdir().expect("a folder");
    let order = |arguments: &[&str]| {
        let text = printed(&[&["plan", "superpod:su=2", "--format", "json"], arguments].concat());
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        json["order"].clone()
    };
    let found = order(&[]);
    assert_eq!(
        (
            &found["compute_ports"],
            &found["leaves"],
            &found["places_per_leaf"]
        ),
        (&512.into(), &16.into(), &32.into()),
        "{found}"
    );
    assert_eq!(order(&["--no-rails"])["compute_ports"], 0);
    let matrix_file = dir.path().join("dgx.txt");
    fs::write(&matrix_file, matrix()).expect("room");
    let matrix_file = matrix_file.display().to_string();
    assert_eq!(order(&["--gpu", &matrix_file])["categories"], 512);
    // Two ports have other categories.
    let netlist = generate("superpod:su=2").expect("a published fabric");
    let guids: Vec<String> = netlist
        .nodes()
        .iter()
        .filter(|node| node.name().starts_with("host-009 "))
        .map(|node| node.port(rsm_ids::PortNum(1)).guid.to_string())
        .collect();
    let file = dir.path().join("categories");
    let put = |text: String| {
        fs::write(&file, text).expect("room");
        file.display().to_string()
    };
    let two_categories = put(format!(
        "# what\n{} storage\n{} management\n",
        guids[0], guids[1]
    ));
    let found = order(&["--categories", &two_categories]);
    assert_eq!(
        (&found["compute_ports"], &found["categories"]),
        (&510.into(), &2.into())
    );
    let wrong = put(format!("{} storage\n{} disk\n", guids[0], guids[1]));
    let output = rsm(&["plan", "superpod:su=2", "--categories", &wrong]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        errors.contains("categories:2:") && errors.contains("`disk`"),
        "{errors}"
    );
}
