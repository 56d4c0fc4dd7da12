use std::os::unix::fs::PermissionsExt as _;

use parking_lot::Mutex;

use super::*;

fn entry(request: u64) -> AuditEntry {
    AuditEntry {
        time: "2026-01-01T00:00:00.000Z".to_owned(),
        request,
        identity: "uid:7".to_owned(),
        proof: "unix-peer",
        peer: "unix uid 7 pid 1".to_owned(),
        call: "rsm.v1.MaintenanceService/Drain".to_owned(),
        digest: String::new(),
        verdict: "done",
        reason: String::new(),
        generation_before: 1,
        generation_after: Some(2),
        more_refused: 0,
    }
}

fn requests(path: &Path) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let values = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let values = values.filter_map(|value: serde_json::Value| value["request"].as_u64());
    values.collect()
}

type Reports = Arc<Mutex<Vec<Option<String>>>>;

fn health(reports: &Reports) -> AuditHealth {
    let reports = reports.clone();
    Box::new(move |report| reports.lock().push(report))
}

#[test]
fn files_rotate_and_stay_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let one = line(&entry(1)).len() as u64;
    let reports = Reports::default();
    let sink = AuditFile::start(folder.path(), one * 3 + 20, health(&reports)).unwrap();
    for request in 1..=20 {
        sink.put(entry(request));
    }
    sink.finish();
    let path = folder.path().join(FILE_NAME);
    assert_eq!(requests(&path), [19, 20]);
    assert_eq!(requests(&folder.path().join("audit.jsonl.1")), [16, 17, 18]);
    assert_eq!(requests(&folder.path().join("audit.jsonl.4")), [7, 8, 9]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), OLD_FILES + 1);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(reports.lock().is_empty());
}

#[test]
fn an_entry_after_a_line_cut_off_by_a_crash_has_a_line_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    fs::write(&path, b"{\"request\":1}\n{\"requ").unwrap();
    let sink = AuditFile::start(folder.path(), 1 << 20, health(&Reports::default())).unwrap();
    sink.put(entry(2));
    sink.finish();
    let text = fs::read_to_string(&path).unwrap();
    let last = text.lines().last().unwrap();
    let value: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(value["request"], 2);
}

#[test]
fn lost_entries_are_reported_and_counted_in_the_next_line() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    let reports = Reports::default();
    let sink = AuditFile::start(&gone, 1 << 20, health(&reports)).unwrap();
    sink.put(entry(1));
    sink.put(entry(2));
    while reports.lock().len() < 2 {
        std::thread::yield_now();
    }
    fs::create_dir(&gone).unwrap();
    sink.put(entry(3));
    sink.finish();
    let text = fs::read_to_string(gone.join(FILE_NAME)).unwrap();
    assert!(text.starts_with("{\"lost_entries\":2}\n"), "{text}");
    assert_eq!(requests(&gone.join(FILE_NAME)), [3]);
    let reports = reports.lock();
    assert!(reports[0].as_ref().unwrap().contains("audit.jsonl"));
    assert_eq!(reports.last(), Some(&None));
}

#[test]
fn a_full_disk_blocks_no_caller() {
    // Every write to this device fails as on a full disk.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let reports = Reports::default();
    let sink = AuditFile::start(folder.path(), 1 << 20, health(&reports)).unwrap();
    for request in 0..3 * QUEUE as u64 {
        sink.put(entry(request));
    }
    sink.finish();
    let reports = reports.lock();
    assert!(reports[0].as_ref().unwrap().contains("No space left"));
}
