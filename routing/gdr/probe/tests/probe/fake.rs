//! A fake host for tests: `/sys` is a folder of files, and tools are shell scripts.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rsm_probe::{NvmlSource, ProbeSettings};

/// A machine of two GPUs, each with an adapter under its own PCIe switch.
pub(crate) struct FakeHost {
    directory: tempfile::TempDir,
}

pub(crate) const GPUS: [&str; 2] = ["0000:1b:00.0", "0000:9b:00.0"];
const ADAPTERS: [&str; 2] = ["0000:18:00.0", "0000:98:00.0"];
const ROOTS: [&str; 2] = ["pci0000:15", "pci0000:97"];

impl FakeHost {
    pub(crate) fn new() -> FakeHost {
        let host = FakeHost {
            directory: tempfile::tempdir().expect("the temporary folder is writable"),
        };
        for (node, root) in ROOTS.into_iter().enumerate() {
            host.function(root, GPUS[node], "0x030200", "0x10de", node);
            host.function(root, ADAPTERS[node], "0x020700", "0x15b3", node);
            host.adapter(root, &format!("mlx5_{node}"), ADAPTERS[node], node as u64);
        }
        host.put("class/dmi/id/product_name", "Test Machine\n");
        fs::create_dir(host.tools()).expect("a new folder");
        host
    }

    /// A machine without GPUs and adapters.
    pub(crate) fn empty() -> FakeHost {
        let host = FakeHost {
            directory: tempfile::tempdir().expect("the temporary folder is writable"),
        };
        fs::create_dir(host.sys()).expect("a new folder");
        host
    }

    pub(crate) fn sys(&self) -> PathBuf {
        self.directory.path().join("sys")
    }

    pub(crate) fn tools(&self) -> PathBuf {
        self.directory.path().join("tools")
    }

    /// Settings to probe this host without NVIDIA's library.
    pub(crate) fn settings(&self) -> ProbeSettings {
        ProbeSettings {
            sys: self.sys(),
            nvml: NvmlSource::Off,
            tools: self.tools(),
            limit: Duration::from_secs(20),
        }
    }

    /// Writes a file below `/sys`.
    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.sys().join(path);
        fs::create_dir_all(path.parent().expect("a file of a folder"))
            .expect("the temporary folder is writable");
        fs::write(path, text).expect("the temporary folder is writable");
    }

    /// Adds a PCI function below the host bridge `root`, at NUMA node `node`.
    pub(crate) fn function(
        &self,
        root: &str,
        address: &str,
        class: &str,
        vendor: &str,
        node: usize,
    ) {
        let target = format!(
            "devices/{root}/0000:{root_bus}:01.0/{address}",
            root_bus = &root[8..10]
        );
        for (name, text) in [
            ("class", class),
            ("vendor", vendor),
            ("numa_node", &node.to_string()),
            ("current_link_width", "16"),
            ("current_link_speed", "2.5 GT/s PCIe"),
            ("max_link_speed", "32.0 GT/s PCIe"),
        ] {
            self.put(&format!("{target}/{name}"), &format!("{text}\n"));
        }
        let link = self.sys().join("bus/pci/devices").join(address);
        fs::create_dir_all(link.parent().expect("a folder"))
            .expect("the temporary folder is writable");
        symlink(self.sys().join(target), link).expect("a new link");
    }

    /// Adds an InfiniBand adapter with one active port, whose GUIDs follow from `number`.
    fn adapter(&self, root: &str, name: &str, address: &str, number: u64) {
        let path = format!("class/infiniband/{name}");
        let guid = |low: u64| format!("58a2:e103:001b:{low:04x}");
        self.put(&format!("{path}/node_guid"), &guid(number << 4));
        self.put(&format!("{path}/sys_image_guid"), &guid(number << 4));
        let port = format!("{path}/ports/1");
        self.put(&format!("{port}/state"), "4: ACTIVE\n");
        self.put(&format!("{port}/rate"), "400 Gb/sec (4X NDR)\n");
        self.put(&format!("{port}/link_layer"), "InfiniBand\n");
        let gid = format!("fe80:0000:0000:0000:{}", guid((number << 4) + 1));
        self.put(&format!("{port}/gids/0"), &gid);
        let target = format!("devices/{root}/0000:{}:01.0/{address}", &root[8..10]);
        symlink(
            self.sys().join(target),
            self.sys().join(path).join("device"),
        )
        .expect("a new link");
    }

    /// Installs a program that is a shell script.
    pub(crate) fn tool(&self, name: &str, script: &str) -> PathBuf {
        let path = self.tools().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n"))
            .expect("the temporary folder is writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a file of ours");
        path
    }

    /// Builds a library from C, with the compiler that links Rust programs.
    pub(crate) fn library(&self, source: &str) -> PathBuf {
        let file = self.directory.path().join("nvml.c");
        let library = self.directory.path().join("libnvidia-ml.so.1");
        fs::write(&file, source).expect("the temporary folder is writable");
        compile(&file, &library);
        library
    }
}

/// Compiles a C file to a shared library.
fn compile(source: &Path, library: &Path) {
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o"])
        .arg(library)
        .arg(source);
    let output = compiler
        .output()
        .expect("cc, which also links Rust programs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
