//! gRPC's C core, through Python, as a client of the Unix socket.

use std::fs;

use rsm_tests::binaries;
use rsm_tests::bringup::LIMIT;
use rsm_tests::clock::wait_for;
use rsm_tests::peer::{PYTHON, require_python_module};
use rsm_tests::process::Invocation;

/// The Python example of docs/api.md.
fn example() -> String {
    let page = fs::read_to_string(binaries::workspace().join("docs/api.md")).unwrap();
    let (_, rest) = page
        .split_once("```python\n")
        .expect("there is an example in Python");
    let (example, _) = rest.split_once("```").expect("a fence closes it");
    example.to_owned()
}

/// The C core sends the percent-encoded path of the socket as `:authority`, which h2 refuses.
#[test]
fn the_python_example_of_the_api_page_gets_an_answer() {
    if !require_python_module("grpc", "python3-grpcio") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--fabric", "sim:ring:4", "--state-dir", "run"];
    let rsm = Invocation::new(binaries::rsm(), directory.path())
        .args(arguments)
        .args(["--listen", "off"]);
    let rsm = rsm.spawn().unwrap();
    let socket = directory.path().join("run/rsm.sock");
    let ready = wait_for(LIMIT, || socket.exists().then_some(()));
    assert!(ready.is_some(), "{}", rsm.stderr_so_far());
    let client = Invocation::new(PYTHON, directory.path()).args(["-c", &example()]);
    let answer = client.run(LIMIT).unwrap().success().unwrap();
    assert!(answer.stdout.ends_with(" bytes\n"), "{}", answer.stdout);
    rsm.terminate(LIMIT).unwrap();
}
