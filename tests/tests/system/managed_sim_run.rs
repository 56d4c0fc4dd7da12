//! `rsm sim run` starts a program only if it is certain that the program cannot access this
//! machine's devices.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rsm_tests::binaries;
use rsm_tests::bringup::LIMIT;
use rsm_tests::clock::wait_for;
use rsm_tests::process::{Finished, Invocation};
use rsm_tests::served::Served;

/// A fabric small enough to be served quickly.
const FABRIC: &str = "ring:4";

/// The file name of the library.
const LIBRARY: &str = "librsm_sim_preload.so";

/// The beginning of every refusal that concerns the program itself.
const REFUSED: &str = "it would run on the umad devices of this machine";

/// Runs `program` with `rsm sim run` and `options` on `served`. Also returns whether the program
/// has created the file `ran`.
fn run(rsm: &Path, served: &Served, options: &[&str], program: &[&str]) -> (Finished, bool) {
    let trace = served.directory().join("ran");
    let _ = fs::remove_file(&trace);
    let mut all = vec!["sim", "run"];
    if !options.contains(&"--socket") {
        all.extend(["--socket", served.socket().to_str().unwrap()]);
    }
    let finished = Invocation::new(rsm, served.directory())
        .args(all)
        .args(options)
        .args(program)
        .run(LIMIT)
        .unwrap();
    (finished, trace.exists())
}

/// A program that creates the file `ran` and prints the board ID of its adapter.
const TOUCH_RAN: &[&str] = &[
    "sh",
    "-c",
    "echo x > ran; cat /sys/class/infiniband/rsm0/board_id",
];

fn assert_refused((finished, ran): (Finished, bool), reason: &str) {
    assert!(!ran, "the program has run: {}", finished.stderr);
    assert!(!finished.status.success());
    assert!(finished.stderr.contains(reason), "{}", finished.stderr);
}

/// A link to rsm in a folder without the library; returns the folder, which has the link in `bin`,
/// and the link.
fn rsm_alone() -> (tempfile::TempDir, std::path::PathBuf) {
    let rsm = binaries::rsm();
    // A hard link requires the same file system.
    let dir = tempfile::tempdir_in(rsm.parent().unwrap()).unwrap();
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::hard_link(&rsm, bin.join("rsm")).unwrap();
    let rsm = bin.join("rsm");
    (dir, rsm)
}

#[test]
fn program_on_a_served_fabric_sees_the_simulated_adapter() {
    let served = Served::start(FABRIC).unwrap();
    let (finished, ran) = run(&binaries::rsm(), &served, &[], TOUCH_RAN);
    let finished = finished.success().unwrap();
    assert!(ran);
    assert_eq!(finished.stdout.trim(), "RSM_SIM");
    // The interpreter of a script also loads the library.
    let script = served.directory().join("script");
    fs::write(
        &script,
        "#!/bin/sh\ncat /sys/class/infiniband/rsm0/board_id\n",
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    let (finished, _) = run(&binaries::rsm(), &served, &[], &[script]);
    assert_eq!(finished.success().unwrap().stdout.trim(), "RSM_SIM");
}

#[test]
fn relative_socket_serves_programs_that_change_their_directory() {
    let directory = tempfile::tempdir().unwrap();
    let rsm = |arguments: &[&str]| {
        let rsm = Invocation::new(binaries::rsm(), directory.path());
        rsm.args(arguments)
    };
    let socket = ["--socket", "fabric.sock"];
    let serve = rsm(&["sim", "serve", FABRIC]).args(socket);
    let serving = serve.spawn().unwrap();
    let ready = wait_for(LIMIT, || {
        serving
            .stdout_so_far()
            .contains("fabric.sock")
            .then_some(())
    });
    assert!(ready.is_some(), "{}", serving.stderr_so_far());
    let program = "cd / && cat /sys/class/infiniband/rsm0/board_id";
    let run = rsm(&["sim", "run"])
        .args(socket)
        .args(["sh", "-c", program]);
    let finished = run.run(LIMIT).unwrap().success().unwrap();
    assert_eq!(finished.stdout.trim(), "RSM_SIM");
    serving.terminate(LIMIT).unwrap();
}

#[test]
fn without_its_library_sim_run_fails_and_starts_no_program() {
    let served = Served::start(FABRIC).unwrap();
    let (dir, rsm) = rsm_alone();
    assert_refused(run(&rsm, &served, &[], TOUCH_RAN), LIBRARY);
    let given = ["--preload", "/nowhere/library.so"];
    assert_refused(
        run(&binaries::rsm(), &served, &given, TOUCH_RAN),
        "/nowhere/library.so",
    );
    // A library where packages install it is found.
    let private = dir.path().join("lib/rsm");
    fs::create_dir_all(&private).unwrap();
    fs::copy(binaries::sim_preload(), private.join(LIBRARY)).unwrap();
    let (finished, ran) = run(&rsm, &served, &[], TOUCH_RAN);
    finished.success().unwrap();
    assert!(ran);
}

#[test]
fn with_a_library_that_the_loader_ignores_sim_run_fails_and_starts_no_program() {
    let served = Served::start(FABRIC).unwrap();
    let (_dir, rsm) = rsm_alone();
    let beside = rsm.with_file_name(LIBRARY);
    fs::write(&beside, "no library").unwrap();
    assert_refused(run(&rsm, &served, &[], TOUCH_RAN), "not simulated");
    // The loader accepts this library, but it is a different library.
    fs::remove_file(&beside).unwrap();
    let libc = fs::read_to_string("/proc/self/maps").unwrap();
    let mut libc = libc
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let libc = libc.rfind(|path| path.contains("libc.so"));
    fs::copy(
        libc.expect("this test is linked with the C library"),
        &beside,
    )
    .unwrap();
    assert_refused(run(&rsm, &served, &[], TOUCH_RAN), "not simulated");
    // The loader splits the list at spaces.
    let folder = served.directory().join("a folder");
    fs::create_dir(&folder).unwrap();
    let library = folder.join(LIBRARY);
    fs::copy(binaries::sim_preload(), &library).unwrap();
    let given = ["--preload", library.to_str().unwrap()];
    assert_refused(run(&rsm, &served, &given, TOUCH_RAN), "space");
}

#[test]
fn without_its_fabric_or_node_sim_run_fails_and_starts_no_program() {
    let served = Served::start(FABRIC).unwrap();
    let rsm = binaries::rsm();
    let node = ["--node", "nobody"];
    assert_refused(
        run(&rsm, &served, &node, TOUCH_RAN),
        "no node is called `nobody`",
    );
    // The library does nothing without a socket; an empty path never reaches it.
    for (socket, reason) in [
        ("", "a value is required for '--socket"),
        ("/nowhere/fabric.sock", "not simulated"),
    ] {
        let refused = run(&rsm, &served, &["--socket", socket], TOUCH_RAN);
        assert_refused(refused, reason);
    }
}

#[test]
fn program_that_ignores_preloaded_libraries_is_refused() {
    let served = Served::start(FABRIC).unwrap();
    let copy = served.directory().join("copy");
    for mode in [0o4755, 0o2755] {
        fs::copy("/bin/sh", &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).unwrap();
        let program = [&[copy.to_str().unwrap()], &TOUCH_RAN[1..]].concat();
        let refused = run(&binaries::rsm(), &served, &[], &program);
        assert!(refused.0.stderr.contains(REFUSED), "{}", refused.0.stderr);
        assert_refused(refused, "setuid or setgid bit");
        // A script of such an interpreter is refused as well.
        let script = served.directory().join("script");
        fs::write(&script, format!("#!{}\necho x > ran\n", copy.display())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let script = run(&binaries::rsm(), &served, &[], &[script.to_str().unwrap()]);
        assert_refused(script, "setuid or setgid bit");
        fs::remove_file(&copy).unwrap();
    }
}

/// A program without a dynamic loader that prints `ran`: a header, one segment, and three system
/// calls.
#[cfg(target_arch = "x86_64")]
fn static_program() -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    let code: &[u8] = &[
        0xB8, 1, 0, 0, 0, 0xBF, 1, 0, 0, 0, // write(1,
        0x48, 0x8D, 0x35, 0x10, 0, 0, 0, // text (16 bytes on),
        0xBA, 4, 0, 0, 0, 0x0F, 0x05, // 4)
        0xB8, 60, 0, 0, 0, 0x31, 0xFF, 0x0F, 0x05, // exit(0)
        b'r', b'a', b'n', b'\n',
    ];
    let mut bytes = vec![0; 120];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &[0x7F, b'E', b'L', b'F', 2, 1, 1]);
    put(0x10, &[2, 0, 62, 0, 1]);
    put(0x18, &(BASE + 120).to_le_bytes());
    put(0x20, &64u64.to_le_bytes());
    put(0x34, &[64, 0, 56, 0, 1]);
    put(64, &[1, 0, 0, 0, 5]);
    put(64 + 0x10, &BASE.to_le_bytes());
    put(64 + 0x18, &BASE.to_le_bytes());
    let len = 120 + code.len() as u64;
    put(64 + 0x20, &len.to_le_bytes());
    put(64 + 0x28, &len.to_le_bytes());
    put(64 + 0x30, &0x1000u64.to_le_bytes());
    bytes.extend_from_slice(code);
    bytes
}

#[test]
#[cfg(target_arch = "x86_64")]
fn statically_linked_program_is_refused() {
    let served = Served::start(FABRIC).unwrap();
    let program = served.directory().join("static");
    fs::write(&program, static_program()).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    // Without `rsm sim run`, the program runs.
    let runs = Invocation::new(&program, served.directory());
    assert_eq!(runs.run(LIMIT).unwrap().success().unwrap().stdout, "ran\n");
    let (finished, ran) = run(&binaries::rsm(), &served, &[], &[program.to_str().unwrap()]);
    assert_eq!(finished.stdout, "");
    assert_refused((finished, ran), "statically linked");
}

#[test]
fn default_members_of_the_workspace_include_the_preloaded_library() {
    let manifest = fs::read_to_string(binaries::workspace().join("Cargo.toml")).unwrap();
    let mut lines = manifest.lines();
    let members = lines.find(|line| line.starts_with("default-members"));
    assert!(
        members.unwrap().contains("\"mad/sim/preload\""),
        "{members:?}"
    );
}
