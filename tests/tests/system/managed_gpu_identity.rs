//! The agent of GPU hosts: how it reads NVIDIA's library, and how it reports over TLS with a
//! certificate of its own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::certificates::Certificates;
use rsm_tests::clock::wait_for;
use rsm_tests::process::{Finished, Invocation, Running};

use crate::managed_gpu_agents::sys;

const LIMIT: Duration = Duration::from_secs(60);

/// Builds a library with the functions of NVML, for two GPUs with four NVLinks between them.
fn library(directory: &Path) -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = root.join("routing/gdr/probe/tests/probe/nvml.c");
    let library = directory.join("libnvidia-ml.so.1");
    let mut compiler = Command::new("cc");
    compiler.args([
        "-shared",
        "-fPIC",
        "-DINIT=0",
        "-DLOST_GPU=9u",
        "-DREMOTE=0",
        "-o",
    ]);
    let output = compiler.arg(&library).arg(source).output();
    let output = output.expect("cc, which also links Rust programs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    library
}

fn print(directory: &Path, nvml: &Path, sys: &Path) -> Finished {
    let agent = Invocation::new(binaries::rsm_agent(), directory).arg("--print");
    let agent = agent.arg("--nvml").arg(nvml).arg("--sys").arg(sys);
    agent.run(LIMIT).expect("it ends")
}

#[test]
fn agent_reads_nvidias_library_in_a_process_of_its_own() {
    let directory = tempfile::tempdir().expect("there is room");
    let library = library(directory.path());
    let alone = Invocation::new(binaries::rsm_agent(), directory.path());
    let alone = alone.arg("nvml").arg(&library).run(LIMIT).expect("it ends");
    let stdout = alone.success().expect("the library starts").stdout;
    for part in [
        "NVIDIA H100 80GB HBM3",
        "\"c2c_gbytes\": 89",
        "abababab-abab",
    ] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    // The inventory is the same, plus what only /sys contains: adapters.
    let tree = sys(directory.path(), 2, 1);
    let all = print(directory.path(), &library, &tree);
    assert!(
        all.stdout.contains("mlx5_1"),
        "{}{}",
        all.stdout,
        all.stderr
    );
    assert!(
        all.stdout.contains("NVIDIA H100 80GB HBM3"),
        "{}",
        all.stdout
    );
    assert!(!all.stderr.contains("NVML: "), "{}", all.stderr);
}

/// Starts a manager that serves TLS at a TCP address only, with its files in `directory`. `api` has
/// more lines for the section `[api]`, and `roles` for the file of roles. Returns the process and
/// its URL.
pub(crate) fn manager(directory: &Path, api: &str, roles: &str) -> (Running, String) {
    let certificates = Certificates::at(directory);
    certificates.authority("ca").expect("openssl");
    for (name, alternative) in [
        ("server", "IP:127.0.0.1"),
        ("agent", "URI:spiffe://fabric/agent"),
        ("reader", "URI:spiffe://fabric/reader"),
    ] {
        certificates.sign(name, "ca", alternative).expect("openssl");
    }
    let file = |name: &str| directory.join(name).display().to_string();
    let names = "san spiffe://fabric/agent report\nsan spiffe://fabric/reader read\n";
    std::fs::write(directory.join("roles"), format!("{names}{roles}")).expect("there is room");
    let config = format!(
        "[api]\ntls_certificate = {:?}\ntls_key = {:?}\ntls_client_ca = {:?}\nroles_file = {:?}\n{api}",
        file("server.pem"),
        file("server.key"),
        file("ca.pem"),
        file("roles"),
    );
    std::fs::write(directory.join("rsm.toml"), config).expect("there is room");
    let rsm = Invocation::new(binaries::rsm(), directory);
    let rsm = rsm.args(["--config", &file("rsm.toml"), "--listen", "127.0.0.1:0"]);
    let rsm = rsm.args(["--fabric", "sim:fat-tree:k=4,levels=2", "--state-dir"]);
    let running = rsm.arg(file("state")).spawn().expect("it can be started");
    let address = wait_for(LIMIT, || {
        let log = running.stderr_so_far();
        let (_, rest) = log.split_once("https://")?;
        let is_address = |letter: char| letter.is_ascii_digit() || ".:".contains(letter);
        let end = rest.find(|letter: char| !is_address(letter))?;
        Some(rest[..end].to_owned())
    });
    let address = address.unwrap_or_else(|| panic!("{}", running.stderr_so_far()));
    (running, format!("https://{address}"))
}

#[test]
#[cfg_attr(not(peers), ignore = "needs openssl")]
fn agent_reports_over_tls_only_with_a_certificate_of_the_role_report() {
    let directory = tempfile::tempdir().expect("there is room");
    let (running, server) = manager(directory.path(), "", "");
    let tree = sys(directory.path(), 2, 1);
    let file = |name: &str| directory.path().join(name).display().to_string();
    let agent = |identity: Option<&str>| {
        let agent = Invocation::new(binaries::rsm_agent(), directory.path());
        let agent = agent.args(["--server", &server, "--host", "gpu-t", "--nvml", "off"]);
        let agent = agent.args(["--patience", "5", "--tls-ca", &file("ca.pem")]);
        let agent = agent.arg("--sys").arg(&tree);
        let agent = match identity {
            Some(name) => {
                let [cert, key] = ["pem", "key"].map(|end| file(&format!("{name}.{end}")));
                agent.args(["--cert", &cert, "--key", &key])
            }
            None => agent,
        };
        let finished = agent.run(LIMIT).expect("it ends");
        (finished.status.code(), finished.stderr)
    };
    for identity in [Some("reader"), None] {
        let (code, text) = agent(identity);
        assert!(
            code == Some(1) || code == Some(3),
            "{identity:?} {code:?} {text}"
        );
    }
    let hosts = || {
        let rsmctl = Invocation::new(binaries::rsmctl(), directory.path());
        let socket = format!("unix:{}", file("state/rsm.sock"));
        let rsmctl = rsmctl.args(["--server", &socket, "gpu", "hosts"]);
        let hosts = rsmctl.run(LIMIT).expect("it ends");
        hosts.stdout
    };
    assert!(!hosts().contains("gpu-t"), "{}", hosts());
    let (code, text) = agent(Some("agent"));
    assert_eq!(code, Some(0), "{text} {}", running.stderr_so_far());
    assert!(hosts().contains("gpu-t"), "{}", hosts());
}
