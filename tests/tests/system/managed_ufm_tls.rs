//! The REST interface of UFM over TLS, as its clients reach it: certificates are made by openssl,
//! and requests go through `openssl s_client`.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::certificates::Certificates;
use rsm_tests::clock::wait_for_every;
use rsm_tests::peer::{program_path, require_peers};
use rsm_tests::process::{Invocation, Running};
use serde_json::{Value, json};
use tempfile::TempDir;

const PEERS: &[&str] = &["openssl"];
const FABRIC: &str = "fat-tree:k=4,levels=2";
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Creates two authorities. `ca` signs the certificates of the server at 127.0.0.1 and of a client
/// with the name `uri`; `other-ca` signs the certificate of a stranger with the same name.
fn certify(directory: &Path, uri: &str) {
    let certificates = Certificates::at(directory);
    for authority in ["ca", "other-ca"] {
        certificates.authority(authority).unwrap();
    }
    let uri = format!("URI:{uri}");
    for (name, authority, alternative) in [
        ("server", "ca", "IP:127.0.0.1"),
        ("client", "ca", &uri),
        ("stranger", "other-ca", &uri),
    ] {
        certificates.sign(name, authority, alternative).unwrap();
    }
}

/// An rsm with the interface over TLS only.
struct Ufm {
    running: Running,
    folder: TempDir,
    address: String,
    token: String,
}

impl Ufm {
    fn start(uri: &str) -> Ufm {
        let folder = tempfile::tempdir().unwrap();
        certify(folder.path(), uri);
        let file = |name: &str| folder.path().join(name).display().to_string();
        let new = ["token", "new", "kube", "operate", "--file"];
        let new = Invocation::new(binaries::rsmctl(), folder.path()).args(new);
        let new = new
            .arg(file("tokens"))
            .run(LIMIT)
            .unwrap()
            .success()
            .unwrap();
        let config = format!(
            "[api]\ntls_certificate = {:?}\ntls_key = {:?}\ntls_client_ca = {:?}\nroles_file = {:?}\n\
             [http]\ntls = true\nufm = true\nufm_tokens_file = {:?}\n",
            file("server.pem"),
            file("server.key"),
            file("ca.pem"),
            file("roles"),
            file("tokens"),
        );
        std::fs::write(folder.path().join("roles"), format!("san {uri} operate\n")).unwrap();
        std::fs::write(folder.path().join("rsm.toml"), config).unwrap();
        let rsm = Invocation::new(binaries::rsm(), folder.path());
        let rsm = rsm.args([
            "--config",
            &file("rsm.toml"),
            "--fabric",
            &format!("sim:{FABRIC}"),
        ]);
        let rsm = rsm.args(["--http", "127.0.0.1:0", "--listen", "off", "--state-dir"]);
        let running = rsm.arg(file("state")).spawn().unwrap();
        let address = wait_for_every(POLL, LIMIT, || {
            let log = running.stderr_so_far();
            let (_, rest) = log.split_once("metrics at https://")?;
            let end =
                rest.find(|letter: char| !(letter.is_ascii_digit() || ".:".contains(letter)))?;
            Some(rest[..end].to_owned())
        });
        let Some(address) = address else {
            panic!("no address in the log:\n{}", running.stderr_so_far());
        };
        Ufm {
            running,
            folder,
            address,
            token: new.stdout.trim().to_owned(),
        }
    }

    /// Sends a request through `openssl s_client` with the options `tls`. `head` has more header
    /// lines. Returns the status and body of the answer, or the client's errors if there is none.
    fn ask(
        &self,
        tls: &[&str],
        method: &str,
        path: &str,
        head: &str,
        body: &str,
    ) -> Result<(u16, Value), String> {
        let client = Invocation::new(program_path("openssl"), self.folder.path());
        let client = client.args(["s_client", "-quiet", "-verify_return_error", "-connect"]);
        let client = client.arg(&self.address).args(tls).piped_stdin();
        let mut client = client.spawn().map_err(|error| error.to_string())?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: ufm.example.org\r\nconnection: close\r\n{head}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut input = client.take_stdin().expect("it was asked for");
        // A client that does not trust the server has ended before the request.
        let _ = input.write_all(request.as_bytes());
        let done = client.wait(LIMIT).map_err(|error| error.to_string())?;
        drop(input);
        let Some((head, body)) = done.stdout.split_once("\r\n\r\n") else {
            return Err(done.stderr);
        };
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Ok((
            status.unwrap_or(0),
            serde_json::from_str(body).unwrap_or_default(),
        ))
    }
}

/// The options of a client without a certificate that trusts rsm's.
const TRUST: &[&str] = &["-CAfile", "ca.pem"];
const PORTS: &str = "/resources/ports?sys_type=Computer";

#[test]
#[cfg_attr(not(peers), ignore = "needs openssl")]
fn clients_with_a_token_or_a_certificate_are_served_over_tls_and_other_clients_are_not() {
    if !require_peers(PEERS) {
        return;
    }
    let ufm = Ufm::start("spiffe://example.org/ufm");
    let basic = format!("authorization: Basic {}\r\n", ufm.token);
    let path = format!("/ufmRestV3{PORTS}");
    let up = wait_for_every(POLL, LIMIT, || {
        let (status, ports) = ufm.ask(TRUST, "GET", &path, &basic, "").ok()?;
        let count = ports.as_array().map_or(0, Vec::len);
        (status == 200 && count == 8).then_some(ports)
    });
    let log = || ufm.running.stderr_so_far();
    let ports =
        up.unwrap_or_else(|| panic!("{:?}\n{}", ufm.ask(TRUST, "GET", &path, &basic, ""), log()));
    let guid = ports[0]["guid"].as_str().expect("a GUID");

    // Two clients make and read a partition: one with the token, one with its certificate.
    let body = json!({
        "pkey": "0x31a", "ip_over_ib": true, "membership": "full", "index0": false, "guids": [guid],
    });
    let pkeys = "/ufmRestV3/resources/pkeys";
    let made = ufm.ask(TRUST, "POST", pkeys, &basic, &body.to_string());
    assert_eq!(made, Ok((200, json!({}))), "{}", log());
    let own = [
        "-CAfile",
        "ca.pem",
        "-cert",
        "client.pem",
        "-key",
        "client.key",
    ];
    let one = "/ufmRestV2/resources/pkeys/0x31a?guids_data=true";
    let (status, read) = ufm.ask(&own, "GET", one, "", "").unwrap();
    assert_eq!(status, 200, "{read}");
    assert_eq!(read["guids"][0]["guid"], guid);
    let remove = json!({"pkey": "0x31a", "guids": [guid]}).to_string();
    let removed = ufm.ask(
        &own,
        "POST",
        "/ufmRestV2/actions/remove_guids_from_pkey",
        "",
        &remove,
    );
    assert_eq!(removed, Ok((200, json!({}))), "{}", log());

    // Refused are: no identity, a wrong token, and a certificate of another authority.
    let (status, _) = ufm.ask(TRUST, "GET", &path, "", "").unwrap();
    assert_eq!(status, 401);
    let wrong = format!("authorization: Basic {}\r\n", "0".repeat(64));
    let (status, _) = ufm.ask(TRUST, "GET", &path, &wrong, "").unwrap();
    assert_eq!(status, 401);
    let stranger = [
        "-CAfile",
        "ca.pem",
        "-cert",
        "stranger.pem",
        "-key",
        "stranger.key",
    ];
    let refused = ufm.ask(&stranger, "GET", one, "", "");
    assert!(refused.is_err(), "{refused:?}");
    // A client that trusts another authority gets no answer, and neither does a client without TLS.
    let distrust = ufm.ask(&["-CAfile", "other-ca.pem"], "GET", &path, &basic, "");
    assert!(distrust.is_err(), "{distrust:?}");
    let plain = rsm_tests::web::get(&ufm.address, &path);
    assert_ne!(plain.status, 200);
    let stopped = ufm.running.terminate(LIMIT).unwrap();
    stopped.success().unwrap();
}
