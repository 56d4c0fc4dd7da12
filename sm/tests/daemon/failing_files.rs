//! Tests `rsm --once` with an output file that cannot be written: the subnet comes up, and the exit
//! code shows the failure to scripts.

use std::process::{Command, Output};

use serde_json::Value;

/// Arguments that bring a simulated fabric up, with a report for scripts.
const ARGUMENTS: [&str; 5] = [
    "--fabric",
    "sim:pgft:2;4,4;1,2;1,1",
    "--once",
    "--format",
    "json",
];

/// Output of `rsm --once` on a simulated fabric.
fn once(arguments: &[&str]) -> Output {
    let mut rsm = Command::new(env!("CARGO_BIN_EXE_rsm"));
    rsm.args([
        "--fabric",
        "sim:pgft:2;4,4;1,2;1,1",
        "--once",
        "--format",
        "json",
    ]);
    rsm.args(arguments).output().unwrap()
}

/// The report that `rsm --once` prints.
fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Texts of the findings of kind `storage`.
fn storage_findings(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| finding["kind"] == "storage")
        .map(|finding| finding["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn writable_files_leave_no_finding() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (dumps, state, trace) = (file("dumps"), file("state"), file("trace.pcapng"));
    let output = once(&[
        "--dump-dir",
        &dumps,
        "--state-dir",
        &state,
        "--trace",
        &trace,
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(storage_findings(&report(&output)), [""; 0]);
}

#[test]
fn unwritable_dump_folder_gives_a_finding_and_fails_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let dumps = file.join("dumps");
    let output = once(&["--dump-dir", dumps.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = report(&output);
    assert_eq!(report["state"], "up", "the subnet is not affected");
    let [text] = &storage_findings(&report)[..] else {
        panic!("one finding: {report}");
    };
    assert!(text.contains(file.to_str().unwrap()), "{text}");
}

#[test]
fn truncated_trace_gives_a_finding_and_fails_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.pcapng");
    // Files have at most 16 KiB, far less than the run's datagrams. The signal is ignored, so that
    // writes fail instead.
    let limited = "trap '' XFSZ; ulimit -f 16; exec \"$@\"";
    let mut rsm = Command::new("sh");
    rsm.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_rsm")]);
    rsm.args(ARGUMENTS).arg("--trace").arg(&trace);
    let output = rsm.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = report(&output);
    assert_eq!(report["state"], "up", "the subnet is not affected");
    let [text] = &storage_findings(&report)[..] else {
        panic!("one finding: {report}");
    };
    assert!(text.contains(trace.to_str().unwrap()), "{text}");
}
