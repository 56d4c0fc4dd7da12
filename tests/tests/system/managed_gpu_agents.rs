//! Agents of GPU hosts on a managed subnet: reports, hosts that cannot be read, managers that are
//! away, bulk imports, and 5,632 hosts at once.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::{Stopwatch, wait_for};
use rsm_tests::gpu_matrix::gpu_matrix;
use rsm_tests::process::{Invocation, Running};
use rsm_tests::web::{Site, get};

const LIMIT: Duration = Duration::from_secs(120);

/// Creates a tree like `/sys` of a machine with `gpus` GPUs, each with an adapter beside it, and
/// returns its path. `serial` makes the path and the GUIDs of the adapters unique.
pub(crate) fn sys(directory: &Path, gpus: usize, serial: usize) -> PathBuf {
    let sys = directory.join(format!("sys-{serial}"));
    let put = |path: &str, text: &str| {
        let path = sys.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("there is room");
        fs::write(path, text).expect("there is room");
    };
    for gpu in 0..gpus {
        let bus = 0x10 * (gpu + 1);
        let root = format!("devices/pci0000:{bus:02x}/0000:{bus:02x}:01.0");
        for (address, class, vendor) in [
            (format!("0000:{:02x}:00.0", bus + 2), "0x030200", "0x10de"),
            (format!("0000:{:02x}:00.0", bus + 3), "0x020700", "0x15b3"),
        ] {
            put(&format!("{root}/{address}/class"), class);
            put(&format!("{root}/{address}/vendor"), vendor);
            put(&format!("{root}/{address}/numa_node"), "0");
            let link = sys.join("bus/pci/devices").join(&address);
            fs::create_dir_all(link.parent().expect("a folder")).expect("there is room");
            symlink(sys.join(&root).join(&address), link).expect("a new link");
        }
        let adapter = format!("class/infiniband/mlx5_{gpu}");
        let guid = format!("0200:00{serial:02x}:0000:{gpu:04x}");
        put(&format!("{adapter}/node_guid"), &guid);
        put(&format!("{adapter}/ports/1/state"), "4: ACTIVE");
        put(&format!("{adapter}/ports/1/rate"), "400 Gb/sec (4X NDR)");
        put(&format!("{adapter}/ports/1/link_layer"), "InfiniBand");
        let function = sys.join(&root).join(format!("0000:{:02x}:00.0", bus + 3));
        symlink(function, sys.join(&adapter).join("device")).expect("a new link");
    }
    fs::create_dir_all(&sys).expect("there is room");
    sys
}

fn socket(site: &Site) -> String {
    format!("unix:{}", site.directory().join("state/rsm.sock").display())
}

fn agent(directory: &Path, server: &str, host: &str, sys: &Path) -> Invocation {
    let agent = Invocation::new(binaries::rsm_agent(), directory);
    let agent = agent.args(["--server", server, "--host", host, "--nvml", "off"]);
    agent.arg("--sys").arg(sys)
}

/// The exit code and the standard error of an agent.
fn run(agent: &Invocation) -> (i32, String) {
    let finished = agent.run(LIMIT).expect("it ends");
    (finished.status.code().unwrap_or(-1), finished.stderr)
}

/// The exit code of an `rsmctl` command, and its standard output and standard error.
fn rsmctl(site: &Site, arguments: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().expect("there is room");
    let rsmctl = Invocation::new(binaries::rsmctl(), folder.path());
    let rsmctl = rsmctl.args(["--server", &socket(site)]).args(arguments);
    let finished = rsmctl.run(LIMIT).expect("it ends");
    let code = finished.status.code().unwrap_or(-1);
    (code, format!("{}{}", finished.stdout, finished.stderr))
}

fn printed(site: &Site, arguments: &[&str]) -> String {
    let (code, text) = rsmctl(site, arguments);
    assert_eq!(code, 0, "{arguments:?}: {text}");
    text
}

/// The number of imports of inventories so far.
fn imports(site: &Site) -> usize {
    printed(site, &["events", "--newest", "1000"])
        .matches("import-gpu-inventory ")
        .count()
}

#[test]
fn agents_send_an_inventory_once_and_again_only_when_it_has_changed() {
    let site = Site::start_with("fat-tree:k=4,levels=2", "[gpu]\nmax_age_s = 3\n");
    let directory = tempfile::tempdir().expect("there is room");
    let tree = sys(directory.path(), 2, 1);
    let server = socket(&site);
    let one = agent(directory.path(), &server, "gpu-a", &tree);
    assert_eq!(run(&one).0, 0, "{}", run(&one).1);
    assert_eq!(run(&one).0, 0);
    assert_eq!(imports(&site), 1, "{}", printed(&site, &["events"]));
    let hosts = printed(&site, &["gpu", "hosts"]);
    assert!(hosts.contains("gpu-a  "), "{hosts}");
    // A port goes down.
    let state = tree.join("class/infiniband/mlx5_1/ports/1/state");
    fs::write(state, "1: DOWN").expect("there is room");
    assert_eq!(run(&one).0, 0);
    assert_eq!(imports(&site), 2);
    // Another machine with the same name reports.
    let other = agent(
        directory.path(),
        &server,
        "gpu-a",
        &sys(directory.path(), 2, 2),
    );
    let (code, text) = run(&other);
    assert!(
        code == 1 && text.contains("two hosts may have one name"),
        "{code} {text}"
    );
    let status = printed(&site, &["gpu", "status"]);
    assert!(status.contains("own       1 host"), "{status}");
    assert!(
        status.contains("a second machine reports as gpu-a"),
        "{status}"
    );
    // The host sends no report for longer than `gpu.max_age_s`: a finding and the metrics show it.
    let found = |text: &str| {
        let seen = || printed(&site, &["findings"]).contains(text).then_some(());
        assert!(wait_for(LIMIT, seen).is_some(), "{text}: {}", site.log());
    };
    found("stale-inventory");
    let metrics = get(site.address(), "/metrics").text();
    for line in [
        "rsm_gpu_hosts{inventory=\"own\"} 1",
        "rsm_gpu_hosts_stale 1",
        "rsm_gpu_names_taken_twice 1",
        "kind=\"stale-inventory\"",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let page = get(site.address(), "/api/v1/gpu-status").json();
    assert_eq!(page["stale"], 1, "{page}");
    // The finding ends when the host reports again.
    assert_eq!(run(&one).0, 0);
    let seen = || {
        let findings = printed(&site, &["findings"]);
        (!findings.contains("stale-inventory")).then_some(())
    };
    assert!(wait_for(Duration::from_secs(3), seen).is_some());
}

/// The Slurm prolog in the documentation, with `settings` as the file of the agent's settings.
fn prolog(settings: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/gpus.md")).expect("a page of ours");
    let (_, section) = page.split_once("**Slurm.**").expect("a section on Slurm");
    let block = section.split("```").nth(1).expect("a block of commands");
    let (_, commands) = block.split_once('\n').expect("a tag and commands");
    let shown = "/etc/rsm/agent.env";
    assert!(commands.contains(shown), "{commands}");
    commands.replace(shown, &settings.display().to_string())
}

#[test]
fn slurm_prolog_reports_with_the_settings_of_the_timer_and_never_drains_the_host() {
    let site = Site::start("fat-tree:k=4,levels=2");
    let directory = tempfile::tempdir().expect("there is room");
    let settings = directory.path().join("agent.env");
    let logged = directory.path().join("logged");
    let tools = directory.path().join("tools");
    fs::create_dir(&tools).expect("a new folder");
    let logger = tools.join("logger");
    let text = format!("#!/bin/sh\necho \"$@\" >>{}\n", logged.display());
    fs::write(&logger, text).expect("there is room");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&logger, mode).expect("a file of ours");
    let agent = binaries::rsm_agent();
    let folders = [&tools, agent.parent().expect("a folder")].map(|one| one.display().to_string());
    let path = format!("{}:/usr/bin:/bin", folders.join(":"));
    let tree = sys(directory.path(), 2, 1);
    let run = |server: &str| {
        let text = format!(
            "{server}RSM_AGENT_HOST=gpu-p\nRSM_AGENT_SYS={}\nRSM_AGENT_NVML=off\n",
            tree.display()
        );
        fs::write(&settings, text).expect("there is room");
        // Slurm starts prologs with a minimal environment.
        let script = format!("PATH={path}\n{}", prolog(&settings));
        let shell = Invocation::new(Path::new("/bin/sh"), directory.path());
        let finished = shell.args(["-c", &script]).run(LIMIT).expect("it ends");
        let log = fs::read_to_string(&logged).unwrap_or_default();
        (finished.status.code(), log, finished.stderr)
    };
    let (code, log, text) = run(&format!("RSM_SERVER={}\n", socket(&site)));
    assert_eq!((code, log.as_str()), (Some(0), ""), "{text}");
    let hosts = printed(&site, &["gpu", "hosts"]);
    assert!(hosts.contains("gpu-p"), "{hosts}");
    let (code, log, text) = run("RSM_SERVER=unix:/nowhere/rsm.sock\n");
    assert_eq!(code, Some(0), "{text}");
    assert!(log.ends_with("exit code 3\n"), "{log} {text}");
    let (code, log, text) = run("");
    assert_eq!(code, Some(0), "{text}");
    assert!(log.ends_with("exit code 2\n"), "{log} {text}");
}

#[test]
fn agent_ends_in_time_on_a_host_without_gpus_or_whose_nvidia_smi_hangs() {
    let site = Site::start("fat-tree:k=4,levels=2");
    let directory = tempfile::tempdir().expect("there is room");
    let server = socket(&site);
    let empty = agent(
        directory.path(),
        &server,
        "cpu-1",
        &sys(directory.path(), 0, 1),
    );
    let (code, text) = run(&empty);
    assert!(
        code == 0 && text.contains("neither GPUs nor"),
        "{code} {text}"
    );
    let tools = directory.path().join("tools");
    fs::create_dir(&tools).expect("a new folder");
    let smi = tools.join("nvidia-smi");
    fs::write(&smi, "#!/bin/sh\nexec sleep 600\n").expect("there is room");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&smi, mode).expect("a file of ours");
    let hung = agent(
        directory.path(),
        &server,
        "gpu-1",
        &sys(directory.path(), 2, 2),
    );
    let hung = hung.args(["--limit", "1"]).arg("--tools").arg(&tools);
    let stopwatch = Stopwatch::start();
    let (code, text) = run(&hung);
    assert!(
        code == 0 && text.contains("did not end within"),
        "{code} {text}"
    );
    assert!(stopwatch.elapsed() < Duration::from_secs(60));
    let hosts = printed(&site, &["gpu", "hosts"]);
    assert!(
        hosts.contains("gpu-1") && !hosts.contains("cpu-1"),
        "{hosts}"
    );
    // The file that is given as NVML is no library.
    let bad = Invocation::new(binaries::rsm_agent(), directory.path());
    let bad = bad.args(["--print", "--nvml", "/bin/sh", "--sys"]);
    let bad = bad
        .arg(sys(directory.path(), 2, 3))
        .arg("--tools")
        .arg(directory.path());
    let printed = bad.run(LIMIT).expect("it ends");
    assert!(printed.stderr.contains("NVML: "), "{}", printed.stderr);
    assert!(
        printed.stdout.contains("\"version\": 1"),
        "{}",
        printed.stdout
    );
}

#[test]
fn agent_waits_for_an_absent_manager_until_its_patience_ends() {
    let directory = tempfile::tempdir().expect("there is room");
    let tree = sys(directory.path(), 2, 1);
    let nowhere = format!("unix:{}", directory.path().join("nowhere").display());
    let away = agent(directory.path(), &nowhere, "gpu-1", &tree).args(["--patience", "3"]);
    let stopwatch = Stopwatch::start();
    let (code, text) = run(&away);
    assert!(
        code == 3 && text.contains("cannot connect"),
        "{code} {text}"
    );
    let waited = stopwatch.elapsed();
    assert!(waited >= Duration::from_secs(3), "{waited:?}");
    assert!(waited < Duration::from_secs(30), "{waited:?}");

    let other_folder = tempfile::tempdir().expect("there is room");
    let place = other_folder.path().join("rsm.sock");
    let server = format!("unix:{}", place.display());
    let staying = agent(other_folder.path(), &server, "gpu-1", &tree).args(["--every", "5"]);
    let mut staying: Running = staying.spawn().expect("it can be started");
    let waits = || {
        staying
            .stderr_so_far()
            .contains("cannot connect")
            .then_some(())
    };
    assert!(wait_for(LIMIT, waits).is_some());
    let site = Site::start("fat-tree:k=4,levels=2");
    symlink(site.directory().join("state/rsm.sock"), &place).expect("a new link");
    let reported = || {
        let hosts = printed(&site, &["gpu", "hosts"]);
        hosts.contains("gpu-1").then_some(())
    };
    assert!(
        wait_for(LIMIT, reported).is_some(),
        "{}",
        staying.stderr_so_far()
    );
    assert!(staying.is_running());
}

#[test]
fn agent_with_two_servers_ends_with_0_where_one_took_the_report() {
    let site = Site::start("fat-tree:k=4,levels=2");
    let directory = tempfile::tempdir().expect("there is room");
    let nowhere = format!("unix:{}", directory.path().join("nowhere").display());
    for (place, servers) in [
        [socket(&site), nowhere.clone()],
        [nowhere.clone(), socket(&site)],
    ]
    .iter()
    .enumerate()
    {
        let (host, tree) = (format!("gpu-{place}"), sys(directory.path(), 2, place));
        let one = agent(directory.path(), &servers.join(","), &host, &tree);
        let (code, text) = run(&one.args(["--patience", "3"]));
        assert_eq!(code, 0, "{servers:?}: {text}");
        assert!(text.contains(&nowhere), "the log names the other: {text}");
        assert!(printed(&site, &["gpu", "hosts"]).contains(&host), "{text}");
    }
    // Without any server that takes the report, the exit code says so.
    let neither = format!("{nowhere},{nowhere}-2");
    let tree = sys(directory.path(), 2, 2);
    let none = agent(directory.path(), &neither, "gpu-2", &tree).args(["--patience", "1"]);
    let (code, text) = run(&none);
    assert_eq!(code, 3, "{text}");
}

#[test]
fn folder_of_dshbak_with_bare_names_and_ports_is_read_by_both_programs() {
    let site = Site::start("superpod:su=1");
    let folder = tempfile::tempdir().expect("there is room");
    // `dshbak -d` names files after hosts, as the parallel shell was told them.
    let put = |name: &str| {
        let file = folder.path().join(name);
        fs::write(file, gpu_matrix(&[])).expect("there is room");
    };
    for name in ["host-001", "host-002", "host-003:2222"] {
        put(name);
    }
    let path = folder.path().display().to_string();
    let imported = printed(&site, &["gpu", "import", &path]);
    assert!(
        imported.starts_with("3 hosts imported, 3 changed\n"),
        "{imported}"
    );
    assert!(!imported.contains("have a name that no host"), "{imported}");
    let settings = |host: &str| {
        // The folder of inventories must not contain rsm's output.
        let output = tempfile::tempdir().expect("there is room");
        let offline = Invocation::new(binaries::rsm(), output.path());
        let offline = offline.args(["gpu", "export", "superpod:su=1", "nccl-env", "--host", host]);
        let offline = offline.args(["--inventory", &path]).run(LIMIT);
        let offline = offline.expect("it ends").success().expect("a known host");
        let online = printed(&site, &["gpu", "export", "nccl-env", "--host", host]);
        assert_eq!(offline.stdout, online, "{host}");
        online
    };
    assert_eq!(settings("host-001"), settings("host-003"));
    // Two hosts behind one address have no name of their own.
    put("host-003:2223");
    let (code, text) = rsmctl(&site, &["gpu", "import", &path]);
    let both = "`host-003:2222` and `host-003:2223` differ in the port alone";
    assert!(code == 1 && text.contains(both), "{code} {text}");
}

#[test]
fn folder_of_gpu_inventories_is_imported_completely_or_not_at_all() {
    let site = Site::start("fat-tree:k=4,levels=2");
    let folder = tempfile::tempdir().expect("there is room");
    let put = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("there is room");
    };
    let path = folder.path().display().to_string();
    let import = ["gpu", "import", &path];
    for number in 0..40 {
        put(&format!("gpu-{number:02}.json"), &inventory(number));
    }
    put("gpu-17.json", "{\"version\":1,");
    let (code, text) = rsmctl(&site, &import);
    assert!(code == 1 && text.contains("gpu-17.json"), "{code} {text}");
    assert!(!printed(&site, &["gpu", "hosts"]).contains("gpu-00"));
    put("gpu-17.json", &inventory(17));
    let imported = printed(&site, &import);
    let mut lines = imported.lines();
    assert_eq!(lines.next(), Some("40 hosts imported, 40 changed"));
    // The fabric has none of these hosts.
    let note = lines.next().unwrap_or_default();
    assert!(note.contains("40 hosts have a name that no host"), "{note}");
    put("gpu-18.json", &inventory(99));
    // One of the files is that of another machine: none of the 40 hosts is imported.
    let (code, text) = rsmctl(&site, &import);
    assert!(code == 1 && text.contains("gpu-18"), "{code} {text}");
    printed(&site, &["gpu", "forget", "gpu-18"]);
    let again = printed(&site, &import);
    assert!(
        again.starts_with("40 hosts imported, 1 changed\n"),
        "{again}"
    );
    let (code, text) = rsmctl(&site, &["gpu", "import", &format!("{path}/gpu-18.json")]);
    assert!(code == 1 && text.contains("needs --host"), "{code} {text}");
}

#[test]
fn inventory_with_unknown_members_is_imported_and_the_members_are_a_finding() {
    let site = Site::start("fat-tree:k=4,levels=2");
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("gpu-1.json");
    let newer = inventory(1).replace("\"index\":0", "\"index\":0,\"ecc\":{\"errors\":[1,2]}");
    fs::write(&file, newer).expect("there is room");
    let path = file.display().to_string();
    let import = ["gpu", "import", "--host", "gpu-1", &path];
    let text = printed(&site, &import);
    assert!(
        text.contains("8 GPUs, 8 ports") && text.contains("the server does not know gpus.ecc"),
        "{text}"
    );
    // The import also works from a folder, which the client reads first.
    let text = printed(
        &site,
        &["gpu", "import", &folder.path().display().to_string()],
    );
    assert!(
        text.contains("1 host imported") && text.contains("does not know gpus.ecc"),
        "{text}"
    );
    let found = || {
        printed(&site, &["findings"])
            .contains("unknown-members")
            .then_some(())
    };
    assert!(wait_for(LIMIT, found).is_some(), "{}", site.log());
    fs::write(&file, inventory(1)).expect("there is room");
    assert!(!printed(&site, &import).contains("does not know"));
    let gone = || (!printed(&site, &["findings"]).contains("unknown-members")).then_some(());
    assert!(wait_for(LIMIT, gone).is_some());
}

/// The inventory of host `number`: 8 GPUs and 8 adapters, whose GUIDs no other host has.
fn inventory(number: u64) -> String {
    let ports: Vec<serde_json::Value> = (0..8u64)
        .map(|port| {
            let guid = format!("{:#018x}", 0x0200_0000_0000_0000 | (number << 8) | port);
            serde_json::json!({"device": format!("mlx5_{port}"), "port": 1, "port_guid": guid})
        })
        .collect();
    let gpus: Vec<serde_json::Value> = (0..8)
        .map(|index| serde_json::json!({"index": index}))
        .collect();
    let row = |gpu: usize| {
        let tier = |port: usize| if port == gpu { "PIX" } else { "SYS" };
        (0..8).map(tier).collect::<Vec<&str>>()
    };
    let tiers: Vec<Vec<&str>> = (0..8).map(row).collect();
    let host = serde_json::json!({"version": 1, "gpus": gpus, "hca_ports": ports, "tiers": tiers});
    host.to_string()
}

/// The number of hosts of a large site.
const LARGE_SITE: u64 = 5_632;

/// The number of simultaneous connections: as many as [`LARGE_SITE`] agents have if they report
/// within a minute and take a third of a second each.
const CONNECTIONS: u64 = 32;

/// Sends one report for each host over a connection of its own, as agents do: the digest, then the
/// inventory if the digest is unknown. Returns the number of inventories sent.
async fn reports(server: &rsm_api::client::Endpoint, inventories: &[String]) -> usize {
    use rsm_proto::v1::gpu_service_client::GpuServiceClient;
    use rsm_proto::v1::{CheckGpuHostRequest, GpuFormat, ImportGpuHostRequest};
    use sha2::Digest as _;

    let mut tasks = tokio::task::JoinSet::new();
    for first in 0..CONNECTIONS {
        let own = inventories.iter().enumerate().skip(first as usize);
        let own: Vec<(usize, String)> = own
            .step_by(CONNECTIONS as usize)
            .map(|(number, json)| (number, json.clone()))
            .collect();
        let server = server.clone();
        tasks.spawn(async move {
            let mut sent = 0;
            for (number, json) in own {
                let anonymous = rsm_api::client::Credentials::default();
                let connected = rsm_api::client::connect_as(&server, &anonymous).await;
                let mut client = GpuServiceClient::new(connected.expect("the server is there"));
                let host = format!("gpu-{number:04}");
                let digest = sha2::Sha256::digest(json.as_bytes()).to_vec();
                let check = CheckGpuHostRequest {
                    host: host.clone(),
                    digest,
                };
                let known = client.check_gpu_host(check).await.expect("an answer");
                if !known.into_inner().known {
                    let import = ImportGpuHostRequest {
                        host,
                        machine_type: false,
                        format: GpuFormat::Json.into(),
                        content: json.into_bytes(),
                    };
                    client.import_gpu_host(import).await.expect("it is kept");
                    sent += 1;
                }
            }
            sent
        });
    }
    tasks.join_all().await.into_iter().sum()
}

/// Run with `cargo test --workspace --test system gpu_hosts_of_a_large_site -- --ignored
/// --nocapture`.
#[test]
#[expect(clippy::print_stdout, reason = "a measurement shows its figures")]
#[ignore = "takes some minutes; prints how long 5,632 hosts take to report"]
fn gpu_hosts_of_a_large_site_report_within_a_minute() {
    let config = "[api]\nchanges_per_s = 0\nreports_per_s = 0\nreads_per_s = 0\n";
    let site = Site::start_with("fat-tree:k=4,levels=2", config);
    let server = socket(&site).parse().expect("the address of a server");
    let inventories: Vec<String> = (0..LARGE_SITE).map(inventory).collect();
    let runtime = tokio::runtime::Runtime::new().expect("an event loop");
    for (round, sent) in [
        ("first reports", LARGE_SITE as usize),
        ("reports without news", 0),
    ] {
        let stopwatch = Stopwatch::start();
        assert_eq!(runtime.block_on(reports(&server, &inventories)), sent);
        let took = stopwatch.elapsed();
        println!("{round} of {LARGE_SITE} hosts: {took:?}");
        assert!(took < Duration::from_secs(60), "{round}: {took:?}");
    }
    let folder = tempfile::tempdir().expect("there is room");
    for (number, json) in inventories.iter().enumerate() {
        let file = folder.path().join(format!("gpu-{number:04}.json"));
        fs::write(file, json.replace("PIX", "PXB")).expect("there is room");
    }
    let path = folder.path().display().to_string();
    let stopwatch = Stopwatch::start();
    let text = printed(&site, &["gpu", "import", &path]);
    assert!(
        text.starts_with("5632 hosts imported, 5632 changed\n"),
        "{text}"
    );
    println!(
        "bulk import of {LARGE_SITE} hosts: {:?}",
        stopwatch.elapsed()
    );
}
