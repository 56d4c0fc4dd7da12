//! Sign-on to the web page through a proxy: a real nginx asks for a user and a password, and rsm
//! shows a user what the user's roles permit.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::peer::{program_path, require_peer};
use rsm_tests::process::{Invocation, Running};
use serde_json::{Value, json};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// The address of the proxy, as rsm sees it: the tests themselves come from 127.0.0.1.
const PROXY: &str = "127.0.0.2";

/// The header `authorization` of alice with the password `secret`. alice has the role read.
const ALICE: &str = "authorization: Basic YWxpY2U6c2VjcmV0\r\n";
/// The header `authorization` of dave with the password `secret`. dave has no role.
const DAVE: &str = "authorization: Basic ZGF2ZTpzZWNyZXQ=\r\n";

/// An rsm, and an nginx that passes requests of known users on to it.
struct Site {
    _rsm: Running,
    _nginx: Running,
    folder: TempDir,
    address: String,
}

impl Site {
    fn start() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(file(name), text).unwrap();
        write("roles", "user alice read\n");
        write(
            "rsm.toml",
            &format!(
                "[api]\nroles_file = {:?}\n[http]\nproxies = \"{PROXY}\"\n",
                file("roles")
            ),
        );
        let rsm = Invocation::new(binaries::rsm(), folder.path())
            .args([
                "--config",
                "rsm.toml",
                "--fabric",
                "sim:fat-tree:k=4,levels=2",
            ])
            .args([
                "--http",
                "127.0.0.1:0",
                "--listen",
                "off",
                "--state-dir",
                "state",
            ])
            .spawn()
            .unwrap();
        let address = wait_for_every(POLL, LIMIT, || {
            let log = rsm.stderr_so_far();
            let (_, rest) = log.split_once("metrics at http://")?;
            let end =
                rest.find(|letter: char| !(letter.is_ascii_digit() || ".:".contains(letter)))?;
            Some(rest[..end].to_owned())
        });
        let Some(address) = address else {
            panic!("no address in the log:\n{}", rsm.stderr_so_far());
        };
        write("users", "alice:{PLAIN}secret\ndave:{PLAIN}secret\n");
        write("nginx.conf", &proxy(folder.path(), &address));
        let nginx = Invocation::new(program_path("nginx"), folder.path())
            .args(["-p", ".", "-e", "error.log", "-c", "nginx.conf"])
            .spawn()
            .unwrap();
        let site = Site {
            _rsm: rsm,
            _nginx: nginx,
            folder,
            address,
        };
        let up = wait_for_every(POLL, LIMIT, || {
            UnixStream::connect(site.folder.path().join("proxy.sock")).ok()
        });
        assert!(up.is_some(), "{}", site._nginx.stderr_so_far());
        site
    }

    /// The status and the body of the answer to a request by the proxy.
    fn ask(&self, path: &str, head: &str) -> (u16, Value) {
        let stream = UnixStream::connect(self.folder.path().join("proxy.sock")).unwrap();
        send_get(stream, path, head)
    }

    /// The status and the body of the answer to a request that bypasses the proxy.
    fn ask_directly(&self, path: &str, head: &str) -> (u16, Value) {
        send_get(TcpStream::connect(&self.address).unwrap(), path, head)
    }
}

/// The configuration of an nginx that asks for passwords and passes requests on to rsm at the
/// address `rsm`.
fn proxy(folder: &Path, rsm: &str) -> String {
    let folder = folder.display();
    format!(
        "daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nevents {{}}\nhttp {{\n\
         access_log off;\n\
         client_body_temp_path {folder}/b;\nproxy_temp_path {folder}/p;\nfastcgi_temp_path {folder}/f;\n\
         uwsgi_temp_path {folder}/u;\nscgi_temp_path {folder}/s;\n\
         server {{\nlisten unix:{folder}/proxy.sock;\nlocation / {{\n\
         auth_basic \"fabric\";\nauth_basic_user_file {folder}/users;\n\
         proxy_pass http://{rsm};\nproxy_http_version 1.1;\nproxy_bind {PROXY};\n\
         proxy_set_header X-Forwarded-User $remote_user;\nproxy_set_header X-Forwarded-Groups \"\";\n\
         }}\n}}\n}}\n"
    )
}

/// Sends a GET with the header lines `head`. Returns the status of the answer, and its JSON object
/// or null.
fn send_get(
    mut stream: impl std::io::Read + std::io::Write,
    path: &str,
    head: &str,
) -> (u16, Value) {
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    // A chunked body has numbers around the object. A short answer is one chunk.
    let body = body.find('{').map_or("", |at| &body[at..]);
    let body = body.rfind('}').map_or("", |at| &body[..=at]);
    (
        status.unwrap_or(0),
        serde_json::from_str(body).unwrap_or_default(),
    )
}

#[test]
#[cfg_attr(not(peers), ignore = "needs nginx")]
fn users_of_a_proxy_see_what_their_roles_permit_and_all_other_users_are_refused() {
    if !require_peer("nginx") {
        return;
    }
    let site = Site::start();
    let me = "/api/v1/me";
    assert_eq!(site.ask(me, "").0, 401, "nginx asks for a user");
    let alice = json!({"name": "alice", "roles": "read"});
    assert_eq!(site.ask(me, ALICE), (200, alice.clone()));
    // The proxy replaces these headers of a client.
    let forged = format!("{ALICE}x-forwarded-user: root\r\nx-forwarded-groups: ib-ops\r\n");
    assert_eq!(site.ask(me, &forged), (200, alice));
    for path in ["/", "/main.js", "/metrics", "/api/v1/status"] {
        assert_eq!(site.ask(path, ALICE).0, 200, "{path}");
        let (status, refusal) = site.ask(path, DAVE);
        assert_eq!(status, 403, "{path}");
        let refusal = refusal["error"].as_str().unwrap_or_default();
        assert!(refusal.starts_with("dave has no role"), "{refusal}");
        // rsm ignores the header in a request that bypasses the proxy.
        let forged = "x-forwarded-user: alice\r\n";
        assert_eq!(site.ask_directly(path, forged).0, 401, "{path}");
        assert_eq!(site.ask_directly(path, "").0, 401, "{path}");
    }
    let refused = wait_for_every(POLL, LIMIT, || {
        let audit = site.folder.path().join("state/audit.jsonl");
        let audit = std::fs::read_to_string(audit).ok()?;
        (audit.contains("\"dave\"") && audit.contains("\"proxy\"")).then_some(())
    });
    assert!(refused.is_some(), "no refusal in the audit log");
}
