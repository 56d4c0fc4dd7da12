//! Tests that a store survives the death of the process that writes to it, at any point of a
//! commit, and a full disk.
//!
//! This test program runs itself again as the process to be killed; an environment variable
//! distinguishes the two. No other test belongs in this program, because the child would inherit
//! the lock of a store that is open there.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rsm_ids::{Guid, Lid, Lmc};
use rsm_model::LidClaim;
use rsm_store::io::Disk;
use rsm_store::{
    ChangeSet, LoadReport, Namespace, Origin, Persisted, SledStore, Store, StoreFabric,
};

/// Variable with the directory of the child's store.
const DIR: &str = "RSM_TEST_STORE_DIR";

/// Variable with the number of commits after which the child ends; without it, the child commits
/// until it is killed.
const COMMITS: &str = "RSM_TEST_STORE_COMMITS";

/// Variable with the index of the file operation at which the child aborts, from 0.
const DIE_AT: &str = "RSM_TEST_STORE_DIE_AT";

/// The changes of commit `n` (from 1): 40 claims are set and one is removed, and two records are
/// set, with keys that some later commit uses again.
fn changes(n: u64) -> ChangeSet {
    let mut set = ChangeSet::new();
    for i in 0..40 {
        let slot = (n * 40 + i) % 20_000;
        let claim = LidClaim {
            lid: Lid(1 + slot as u16),
            lmc: Lmc::ZERO,
            last_seen: n,
        };
        set.set_claim(Guid(0x1_0000 + slot), claim).unwrap();
    }
    set.remove_claim(Guid(0x1_0000 + (n * 40).saturating_sub(17)));
    let table: Vec<u8> = (0..2000u32).map(|i| (u64::from(i) * n) as u8).collect();
    let namespace = Namespace::new("crash").unwrap();
    set.set_record(&namespace, &[n as u8 % 7], &table).unwrap();
    set.set_record(&namespace, &(n % 11).to_be_bytes(), &vec![n as u8; 300])
        .unwrap();
    set.set_plan_generation(n);
    set
}

/// The contents of the store after this number of commits.
fn after(commits: u64) -> Persisted {
    let mut state = Persisted::default();
    for n in 1..=commits {
        state.apply(&changes(n));
    }
    state
}

/// The process to be killed. As an ordinary test, it returns at once.
#[test]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let number = |name| std::env::var(name).ok().and_then(|v| v.parse().ok());
    let commits: u64 = number(COMMITS).unwrap_or(u64::MAX);
    let die_at = number(DIE_AT).unwrap_or(u64::MAX);
    let count = AtomicU64::new(0);
    let disk = Disk::with_fault(Arc::new(move |_, _| {
        if count.fetch_add(1, Ordering::Relaxed) == die_at {
            std::process::abort();
        }
        Ok(())
    }));
    let mut store = match SledStore::open_on(Path::new(&dir), StoreFabric::Hardware, disk) {
        Ok(store) => store,
        Err(error) => return send_line("open-failed", &error.to_string()),
    };
    let (state, _) = store.load().unwrap();
    for n in state.plan_generation + 1..=commits {
        match store.commit(&changes(n)) {
            Ok(()) => send_line("acknowledged", &n.to_string()),
            Err(error) => {
                send_line("commit-failed", &error.to_string());
                // The store still answers, with the committed state.
                assert_eq!(store.load().unwrap().0, after(n - 1));
                assert!(store.commit(&changes(n)).is_err());
                return;
            }
        }
    }
    store.close().unwrap();
}

/// Writes a line to the parent at once; libtest would delay printed output until the test ends.
fn send_line(word: &str, what: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "@{word} {what}").unwrap();
    out.flush().unwrap();
}

/// Command that runs [`child`] on the store in `dir`.
fn command(dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(DIR, dir);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Lock that each test with children takes, so that these tests run one after the other. A child
/// that is forked while another test has a store open also holds the lock of that store until the
/// child executes its program; the next process that opens the store would find it in use.
static ONE_AT_A_TIME: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

/// The lines that the child writes with [`send_line`], each as word and text, as they arrive.
fn lines(child: &mut Child) -> impl Iterator<Item = (String, String)> + use<> {
    let out = BufReader::new(child.stdout.take().unwrap());
    out.lines().map_while(Result::ok).filter_map(|line| {
        // Text of libtest may precede the word on the same line.
        let (_, message) = line.split_once('@')?;
        let (word, what) = message.split_once(' ')?;
        Some((word.to_owned(), what.to_owned()))
    })
}

/// The number of the last acknowledged commit; 0 if there is none.
fn acknowledged(messages: impl Iterator<Item = (String, String)>) -> u64 {
    messages
        .filter(|(word, _)| word == "acknowledged")
        .filter_map(|(_, n)| n.parse().ok())
        .last()
        .unwrap_or(0)
}

/// Opens the store that a child left. Asserts that it has the state after some commit, which is the
/// last `acknowledged` one or a later one. Returns the number of this commit, and the load report.
fn inspect(dir: &Path, acknowledged: u64) -> (u64, LoadReport) {
    let mut store = SledStore::open(dir, StoreFabric::Hardware).unwrap();
    let (state, report) = store.load().unwrap();
    let reached = state.plan_generation;
    assert!(
        reached >= acknowledged,
        "commit {acknowledged} was acknowledged, {reached} is left: {report}"
    );
    assert!(report.quarantined.is_none(), "{report}");
    assert!(report.notes.is_empty(), "{report}");
    assert!(state == after(reached), "not the state after {reached}");
    (reached, report)
}

#[test]
fn crash_at_any_step_loses_no_acknowledged_commit() {
    let _alone = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir().unwrap();
    for die_at in 0.. {
        let path = dir.path().join(die_at.to_string());
        let mut child = command(&path)
            .env(COMMITS, "3")
            .env(DIE_AT, die_at.to_string())
            .spawn()
            .unwrap();
        let last = acknowledged(lines(&mut child));
        let status = child.wait().unwrap();
        let (reached, report) = inspect(&path, last);
        if status.success() {
            assert_eq!((last, reached, report.origin), (3, 3, Origin::Clean));
            assert!(die_at > 20, "only {die_at} steps");
            return;
        }
    }
}

/// Kills `rounds` children in turn while they write to one store.
fn kill_rounds(rounds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let mut reached = 0;
    for round in 0..rounds {
        let mut child = command(&path).spawn().unwrap();
        let mut messages = lines(&mut child);
        // The number of commits differs between rounds; the kill hits any point of the next commit.
        let commits = 1 + (round * 7) % 13;
        let seen = acknowledged(messages.by_ref().take(commits as usize));
        child.kill().unwrap();
        let last = seen.max(acknowledged(messages));
        child.wait().unwrap();
        assert!(last > reached, "no progress in round {round}");
        (reached, _) = inspect(&path, last);
    }
}

#[test]
fn kill_at_any_time_loses_no_acknowledged_commit() {
    let _alone = ONE_AT_A_TIME.lock();
    kill_rounds(20);
}

#[test]
#[ignore = "a soak of some minutes"]
fn soak_of_kills_at_any_time_loses_no_acknowledged_commit() {
    let _alone = ONE_AT_A_TIME.lock();
    kill_rounds(300);
}

/// A full disk is simulated by a limit on the size of files, which has the same effect on the
/// process.
#[test]
fn commit_on_a_full_disk_fails_and_loses_nothing() {
    let _alone = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    // The limit is one MiB for each file (2048 blocks of 512 bytes): enough for some commits, but
    // not for all.
    let program = command(&path);
    let mut child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$@\"", "sh"])
        .arg(program.get_program())
        .args(program.get_args())
        .env(DIR, &path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let messages: Vec<_> = lines(&mut child).collect();
    let status = child.wait().unwrap();
    let last = acknowledged(messages.iter().cloned());
    assert!(
        messages.iter().any(|(word, _)| word == "commit-failed"),
        "no commit reached the limit: {:?}, {status}",
        messages.last()
    );
    assert!(status.success(), "{status}: {:?}", messages.last());
    assert!(last > 0);
    inspect(&path, last);
}
