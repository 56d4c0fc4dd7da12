//! The disk of a running rsm fills up or turns read-only: the SA answers, accepts registrations and
//! writes them once the disk works again.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::ServiceRecord;
use rsm_tests::answering::Host;
use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::managed::Managed;
use rsm_tests::process::Invocation;
use rsm_tests::sharing::all;

const FABRIC: &str = "fat-tree:k=4,levels=2";
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);

/// The index of the host that registers services.
const REGISTRANT: usize = 2;
/// The index of the host that queries the registrations.
const REQUESTER: usize = 3;

/// A small disk mounted at a folder until it is dropped.
struct Disk {
    at: PathBuf,
}

impl Disk {
    /// Mounts the disk. `None`, with a message, if this process may not mount.
    fn mount(at: PathBuf) -> Option<Disk> {
        std::fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=16m", "none"]);
        let is_mounted = mount.arg(&at).status().is_ok_and(|status| status.success());
        if !is_mounted {
            // The message bypasses the output capture of the test harness, because a skipped test
            // has to be visible.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: `mount` is not permitted here; run the test as root"
            );
        }
        is_mounted.then_some(Disk { at })
    }

    /// Mounts the folder over itself, read-only: files that rsm opens afterwards cannot be written.
    fn turn_read_only(&self) {
        for how in [&["--bind"][..], &["-o", "remount,bind,ro"]] {
            let mut mount = Command::new("mount");
            let mount = mount.args(how).args([&self.at, &self.at]);
            assert!(mount.status().unwrap().success(), "{how:?}");
        }
    }

    /// Reverts [`Disk::turn_read_only`].
    fn turn_writable(&self) {
        assert!(self.unmount());
    }

    fn unmount(&self) -> bool {
        let mut umount = Command::new("umount");
        let umount = umount.arg("-l").arg(&self.at).stderr(Stdio::null());
        umount.status().is_ok_and(|status| status.success())
    }

    fn filler(&self) -> PathBuf {
        self.at.join("fill")
    }

    /// Writes until no byte is free.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.filler()).unwrap();
        let block = [0; 4096];
        while file.write_all(&block).is_ok() {}
        while file.write_all(&block[..1]).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The folder may be mounted twice.
        while self.unmount() {}
    }
}

/// Registers a service, which the SA must accept.
fn register(fabric: &Managed, host: &mut Host, id: u64) {
    let mut service = ServiceRecord::default();
    let gid = fabric.gid(REGISTRANT);
    service.set_service_id(id).set_service_gid(gid);
    let mask = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
    let answer = host.ask(Method::SET, mask, &service);
    assert_eq!(answer.status(), Status::OK, "service {id}");
}

/// Waits until there is a finding `storage` if `exists`, otherwise until there is none.
fn wait_for_finding(state: &Path, exists: bool) {
    let server = format!("unix:{}", state.join("rsm.sock").display());
    let mut last = String::new();
    let reached = wait_for_every(POLL, LIMIT, || {
        let rsmctl = Invocation::new(binaries::rsmctl(), state.parent()?);
        let rsmctl = rsmctl.args(["--server", &server, "findings", "--format", "json"]);
        last = rsmctl.run(LIMIT).ok()?.success().ok()?.stdout;
        (last.contains("\"storage\"") == exists).then_some(())
    });
    assert!(reached.is_some(), "storage: {exists}, and not {last}");
}

/// Runs rsm on a disk that `fail` makes fail and `repair` repairs, and kills rsm after its finding
/// has ended. The next start must have the registrations from before, during and after the failure.
fn check_registrations_survive(fail: impl Fn(&Disk), repair: impl Fn(&Disk)) {
    let fabric = Managed::start(FABRIC);
    let Some(disk) = Disk::mount(fabric.state()) else {
        return;
    };
    let mut requester = fabric.host(REQUESTER);
    let rsm = fabric.rsm(&mut requester);
    let mut registrant = fabric.host(REGISTRANT);
    registrant.ask_lid(fabric.lid(0));
    register(&fabric, &mut registrant, 1);
    wait_for_finding(&fabric.state(), false);

    fail(&disk);
    for id in 2..20 {
        register(&fabric, &mut registrant, id);
    }
    wait_for_finding(&fabric.state(), true);
    register(&fabric, &mut registrant, 20);
    assert_eq!(
        all::<ServiceRecord>(&mut requester).len(),
        20,
        "while it fails"
    );

    repair(&disk);
    wait_for_finding(&fabric.state(), false);
    register(&fabric, &mut registrant, 21);
    // Longer than rsm takes to write a registration to the disk.
    std::thread::sleep(Duration::from_secs(1));
    rsm.kill().unwrap();

    let _rsm = fabric.rsm(&mut requester);
    let mut ids: Vec<u64> = all::<ServiceRecord>(&mut requester)
        .iter()
        .map(ServiceRecord::service_id)
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=21).collect::<Vec<u64>>());
}

#[test]
fn no_registration_is_lost_if_the_disk_of_a_running_rsm_fills_up() {
    check_registrations_survive(Disk::fill, |disk| {
        std::fs::remove_file(disk.filler()).unwrap();
    });
}

#[test]
fn no_registration_is_lost_if_the_folder_of_a_running_rsm_turns_read_only() {
    check_registrations_survive(Disk::turn_read_only, Disk::turn_writable);
}
