//! `rsmctl gpu`: files of settings, and one call for many hosts.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rsm_gdr::fabric::GpuFabric;
use rsm_routing::ibnetdiscover::parse;
use rsm_routing::topology::Topology;
use tempfile::TempDir;

use crate::fake::Fake;
use crate::gpu::MATRIX;
use crate::served::Served;

/// A fabric with one leaf and these adapters, given as host and device.
pub(crate) fn fabric(adapters: &[(&str, &str)]) -> GpuFabric {
    let mut leaf =
        "Switch\t36 \"S-0000000000000001\"\t\t# \"leaf-1\" enhanced port 0 lid 1 lmc 0\n"
            .to_owned();
    let mut hosts = String::new();
    for (number, (host, device)) in (1..).zip(adapters) {
        let (guid, lid) = (0x1000 + 16 * number, number + 1);
        writeln!(
            leaf,
            "[{number}]\t\"H-{guid:016x}\"[1]({:x}) \t\t# \"{host} {device}\" lid {lid} 4xHDR",
            guid + 1
        )
        .unwrap();
        write!(
            hosts,
            "\nCa\t1 \"H-{guid:016x}\"\t\t# \"{host} {device}\"\n\
             [1]({:x}) \t\"S-0000000000000001\"[{number}]\t\t# lid {lid} lmc 0 \"leaf-1\" lid 1 4xHDR\n",
            guid + 1
        )
        .unwrap();
    }
    let parsed = parse((leaf + &hosts).as_bytes(), "made up").unwrap();
    let topology = Arc::new(Topology::from_netlist(&parsed.netlist).unwrap());
    GpuFabric::from_netlist(&parsed.netlist, topology, None, 4096)
}

/// Both adapters of both hosts.
const ALL: [(&str, &str); 4] = [
    ("gpu-1", "mlx5_0"),
    ("gpu-1", "mlx5_1"),
    ("gpu-2", "mlx5_0"),
    ("gpu-2", "mlx5_1"),
];

/// A server, and a folder in which rsmctl runs.
struct Site {
    served: Served,
    folder: TempDir,
}

impl Site {
    /// A server that knows these hosts of two GPUs and two adapters.
    fn with_hosts(names: &[String]) -> Site {
        let site = Site {
            served: Served::start(Fake::tree(1, 1)),
            folder: tempfile::tempdir().unwrap(),
        };
        if !names.is_empty() {
            let (code, _, errors) = site.import(names);
            assert_eq!(code, Some(0), "{errors}");
        }
        site
    }

    /// Imports the output of a parallel shell on these hosts.
    fn import(&self, names: &[String]) -> (Option<i32>, String, String) {
        let mut stream = String::new();
        for line in MATRIX.lines().filter(|line| !line.is_empty()) {
            for name in names {
                writeln!(stream, "{name}: {line}").unwrap();
            }
        }
        fs::write(self.folder.path().join("matrices.txt"), stream).unwrap();
        self.run(&["import", "matrices.txt"])
    }

    fn set_fabric(&self, adapters: &[(&str, &str)]) {
        *self.served.gpus.fabric.lock() = Some(fabric(adapters));
    }

    /// The exit code, standard output and standard error of `rsmctl gpu`.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rsmctl"));
        command
            .env_clear()
            .env(
                "RSM_SERVER",
                format!("unix:{}", self.served.socket.display()),
            )
            .current_dir(self.folder.path())
            .arg("gpu")
            .args(arguments);
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    fn has_files(&self, folder: &str) -> bool {
        let folder = self.folder.path().join(folder);
        Path::new(&folder).exists() && fs::read_dir(folder).unwrap().next().is_some()
    }
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn files_hints_and_plans_without_a_fabric_are_refused() {
    let site = Site::with_hosts(&names(&["gpu-1", "gpu-2"]));
    let mut calls: Vec<Vec<&str>> = Vec::new();
    for format in rsm_gdr::render::EXPORTERS {
        let mut call = vec!["export", format.name];
        if format.of_host {
            calls.push([&call[..], &["--all", "--dir", "settings"]].concat());
            call.extend(["--host", "gpu-1"]);
        }
        calls.push(call);
    }
    calls.push(vec!["hints", "gpu-1"]);
    calls.push(vec!["pair", "gpu-1:0", "gpu-2:0"]);
    calls.push(vec!["plan", "--gpus", "2"]);
    let mut wrong = Vec::new();
    for call in calls {
        let (code, text, errors) = site.run(&call);
        let told = errors
            .matches("there is no fabric to join GPU hosts with")
            .count();
        if (code, text.as_str(), told) != (Some(1), "", 1) {
            wrong.push(format!("{call:?}: {code:?} {errors}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!site.has_files("settings"));
}

#[test]
fn files_of_all_hosts_are_refused_where_no_host_is_known() {
    let site = Site::with_hosts(&[]);
    site.set_fabric(&ALL);
    for format in ["nccl-env", "ucx", "peers", "ibacm", "nccl-xml", "mooncake"] {
        let (code, _, errors) = site.run(&["export", format, "--all", "--dir", "none"]);
        assert_eq!(code, Some(1), "{format}: {errors}");
        assert!(
            errors.contains("no GPU host is known"),
            "{format}: {errors}"
        );
    }
    assert!(!site.folder.path().join("none").exists());
}

#[test]
fn hundreds_of_hosts_are_forgotten_by_one_call_or_none_is() {
    let hosts: Vec<String> = (1..=600).map(|number| format!("gpu-{number:03}")).collect();
    let site = Site::with_hosts(&hosts);
    let (code, _, errors) = site.run(&["forget", "gpu-[001-600]", "gpu-[700-701]"]);
    assert_eq!(code, Some(1), "{errors}");
    for part in [
        "nothing is forgotten",
        "no inventory of the hosts gpu-[700-701]",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    let listed = || site.run(&["hosts"]).1.matches("gpu-").count();
    assert_eq!(listed(), 600);
    let (code, _, errors) = site.run(&["forget", "gpu-[001-600]"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(listed(), 0);
}

#[test]
fn a_file_of_a_host_without_the_host_names_the_options() {
    let site = Site::with_hosts(&names(&["gpu-1"]));
    site.set_fabric(&ALL);
    let (code, _, errors) = site.run(&["export", "nccl-env"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(
        errors.contains("--host HOST, or --all --dir FOLDER"),
        "{errors}"
    );
    let (_, _, hints) = site.run(&["hints", "gpu-2"]);
    let (code, _, errors) = site.run(&["export", "nccl-env", "--host", "gpu-2"]);
    assert!(
        errors.contains("the fabric has 2 devices of it"),
        "{errors}"
    );
    assert_eq!((code, errors), (Some(1), hints));
}

#[test]
fn an_export_names_hosts_with_a_port_that_is_not_in_the_fabric() {
    let site = Site::with_hosts(&names(&["gpu-1", "gpu-2"]));
    site.set_fabric(&ALL);
    let all = ["export", "nccl-env", "--all", "--dir", "settings"];
    let done = (Some(0), "2 files in settings\n".to_owned(), String::new());
    assert_eq!(site.run(&all), done);
    site.set_fabric(&ALL[..3]);
    let (code, text, errors) = site.run(&all);
    assert_eq!((code, text.as_str()), (Some(0), "2 files in settings\n"));
    assert!(
        errors.contains("gpu-2: mlx5_1 is not in the fabric"),
        "{errors}"
    );
    assert!(
        !errors.contains("gpu-1") && errors.contains("export again"),
        "{errors}"
    );
    let (code, text, single) = site.run(&["export", "nccl-env", "--host", "gpu-2"]);
    assert_eq!((code, single), (Some(0), errors));
    assert!(text.starts_with("NCCL_IB_HCA=="), "{text}");
}

#[test]
fn a_file_that_an_earlier_export_has_left_is_named_as_old() {
    let site = Site::with_hosts(&names(&["gpu-1", "gpu-2"]));
    site.set_fabric(&ALL);
    let all = ["export", "nccl-env", "--all", "--dir", "settings"];
    assert_eq!(site.run(&all).0, Some(0));
    site.set_fabric(&ALL[..2]);
    let (code, _, errors) = site.run(&all);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("1 file written, none for"), "{errors}");
    assert!(errors.contains("in settings, gpu-2 is old"), "{errors}");
    fs::remove_file(site.folder.path().join("settings/gpu-2")).unwrap();
    let (_, _, errors) = site.run(&all);
    assert!(!errors.contains("is old"), "{errors}");
}

#[test]
fn file_of_a_forgotten_host_is_named() {
    let site = Site::with_hosts(&names(&["gpu-1", "gpu-2"]));
    site.set_fabric(&ALL);
    let all = ["export", "nccl-env", "--all", "--dir", "settings"];
    assert_eq!(site.run(&all).0, Some(0));
    fs::write(site.folder.path().join("settings/gpu-3"), "").unwrap();
    let (code, _, errors) = site.run(&all);
    assert_eq!(code, Some(0), "{errors}");
    let expected =
        "in settings, no GPU host has the name of gpu-3: old, if it is of an earlier export";
    assert!(errors.contains(expected), "{errors}");
}

#[test]
fn a_file_about_all_hosts_names_the_hosts_that_it_lacks() {
    let site = Site::with_hosts(&names(&["gpu-1", "gpu-2"]));
    site.set_fabric(&ALL[..2]);
    let of_all = rsm_gdr::render::EXPORTERS
        .iter()
        .filter(|format| !format.of_host);
    let mut calls: Vec<Vec<&str>> = of_all.map(|format| vec!["export", format.name]).collect();
    calls.push(vec!["export", "peers", "--host", "gpu-1"]);
    // A matrix has no PCI addresses, which `dra` needs, and metrics are about all hosts.
    calls.retain(|call| !["dra", "metrics"].contains(&call[1]));
    for call in calls {
        let (code, text, errors) = site.run(&call);
        assert_eq!(code, Some(0), "{call:?}: {errors}");
        assert!(!text.contains("gpu-2"), "{call:?}: {text}");
        assert!(
            errors.contains("gpu-2: no compute port is in the fabric"),
            "{call:?}: {errors}"
        );
    }
    site.set_fabric(&ALL);
    let (_, text, errors) = site.run(&["export", "kubernetes"]);
    assert!(text.contains("gpu-2") && errors.is_empty(), "{errors}");
}

#[test]
fn an_import_names_hosts_whose_name_no_host_of_the_fabric_has() {
    let site = Site::with_hosts(&[]);
    let (code, _, notes) = site.import(&names(&["gpu-1", "gpu-8", "GPU-2"]));
    assert_eq!((code, notes.as_str()), (Some(0), ""));
    site.set_fabric(&ALL);
    let (code, _, notes) = site.import(&names(&["gpu-1", "gpu-8", "GPU-2"]));
    assert_eq!(code, Some(0), "{notes}");
    assert!(
        notes.contains("2 hosts have a name that no host of the fabric has: GPU-2, gpu-8"),
        "{notes}"
    );
}

#[test]
fn an_import_of_one_host_under_two_names_says_so() {
    let site = Site::with_hosts(&[]);
    site.set_fabric(&ALL);
    let (code, _, notes) = site.import(&names(&["gpu-1", "gpu-1.example.com", "gpu-2"]));
    assert_eq!(code, Some(0), "{notes}");
    assert!(
        notes.contains("gpu-1 and gpu-1.example.com are one host in the fabric"),
        "{notes}"
    );
    assert!(!notes.contains("gpu-2"), "{notes}");
}

#[test]
fn the_help_of_an_export_fits_80_columns() {
    let site = Site::with_hosts(&[]);
    let (code, help, _) = site.run(&["export", "--help"]);
    assert_eq!(code, Some(0));
    let long: Vec<&str> = help.lines().filter(|line| line.len() > 80).collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}
