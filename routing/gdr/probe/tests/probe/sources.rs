//! Tests of the drivers' programs as sources, and of programs that hang.

use std::time::{Duration, Instant};

use rsm_probe::{NvmlSource, read};

use crate::fake::FakeHost;

/// A shell script that answers the probe's calls of nvidia-smi.
const NVIDIA_SMI: &str = r#"case "$*" in
*clusterUuid*) echo "3f1a7c1e-0000-4000-8000-00000000beef, 4"; echo "N/A, N/A" ;;
*index*) echo "0, 00000000:1B:00.0, GPU-aaaa, NVIDIA H100"; echo "1, 00000000:9B:00.0, GPU-bbbb, NVIDIA H100"; echo "half a line" ;;
"topo -m") printf '\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n' ;;
*) exit 2 ;;
esac"#;

#[test]
fn nvidia_smi_is_read_if_the_nvml_library_is_missing() {
    let host = FakeHost::new();
    host.tool("nvidia-smi", NVIDIA_SMI);
    let reading = read(&host.settings()).expect("a host");
    assert_eq!(reading.notes, ["nvidia-smi: `half a line` is no GPU"]);
    let inventory = reading.inventory;
    assert_eq!(inventory.gpus[1].uuid.as_deref(), Some("GPU-bbbb"));
    assert_eq!(inventory.links_between(0, 1), 18);
    assert_eq!(inventory.domain.map(|domain| domain.clique_id), Some(4));
    assert_eq!(inventory.hca_ports.len(), 2);
    assert_eq!(inventory.tiers.len(), 4);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a time-out takes real time")]
fn programs_that_hang_are_given_up_and_the_data_of_sys_are_kept() {
    let host = FakeHost::new();
    host.tool("nvidia-smi", "exec sleep 600");
    let reader = host.tool("reader", "exec sleep 600");
    let mut settings = host.settings();
    settings.limit = Duration::from_millis(300);
    settings.nvml = NvmlSource::Program(vec![reader.into_os_string()]);
    let begun = Instant::now();
    let reading = read(&settings).expect("a host");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(reading.notes.len(), 2, "{:?}", reading.notes);
    for note in &reading.notes {
        assert!(note.contains("did not end within"), "{note}");
    }
    assert_eq!(reading.inventory.gpus.len(), 2);
    assert_eq!(reading.inventory.hca_ports.len(), 2);
}

#[test]
fn nvidia_smi_is_read_if_the_nvml_reader_crashes_or_prints_nonsense() {
    let host = FakeHost::new();
    host.tool("nvidia-smi", NVIDIA_SMI);
    for script in [
        "kill -SEGV $$",
        "echo '{\"version\":1,\"gpus\":['",
        "exit 0",
    ] {
        let mut settings = host.settings();
        let reader = host.tool("reader", script);
        settings.nvml = NvmlSource::Program(vec![reader.into_os_string()]);
        let reading = read(&settings).expect("a host");
        assert!(
            reading.notes[0].starts_with("NVML: "),
            "{:?}",
            reading.notes
        );
        assert_eq!(reading.inventory.gpus[0].uuid.as_deref(), Some("GPU-aaaa"));
    }
}

#[test]
fn notes_before_the_inventory_in_a_readers_output_are_kept() {
    let host = FakeHost::new();
    let json = r#"{"version":1,"gpus":[{"index":0,"pci":"0000:1b:00.0"}],"tiers":[[]]}"#;
    let script = format!("echo 'note GPU 1 is lost'; echo '{json}'");
    let reader = host.tool("reader", &script);
    let mut settings = host.settings();
    settings.nvml = NvmlSource::Program(vec![reader.into_os_string()]);
    let reading = read(&settings).expect("a host");
    assert_eq!(reading.notes[0], "GPU 1 is lost");
    assert_eq!(reading.inventory.gpus.len(), 1);
}

#[test]
fn links_of_amd_gpus_are_read_by_rocm_smi_if_amd_smi_is_missing() {
    let host = FakeHost::new();
    for (root, address, node) in [
        ("pci0000:15", "0000:1b:00.0", 0),
        ("pci0000:97", "0000:9b:00.0", 1),
    ] {
        let path = host.sys().join("bus/pci/devices").join(address);
        std::fs::remove_file(path).expect("the link of the fake");
        host.function(root, address, "0x038000", "0x1002", node);
    }
    let table = "Link Type between two GPUs\n       GPU0 GPU1\nGPU0   0    XGMI\nGPU1   XGMI 0\n";
    host.tool(
        "rocm-smi",
        &format!("printf '{}'", table.replace('\n', "\\n")),
    );
    let reading = read(&host.settings()).expect("a host");
    assert_eq!(reading.notes, ["amd-smi: it is not installed"]);
    assert_eq!(reading.inventory.links_between(0, 1), 1);
    assert!(reading.inventory.gpus.iter().all(|gpu| gpu.pci.is_some()));
}
