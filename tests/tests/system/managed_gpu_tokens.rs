//! The agent of GPU hosts over TLS with a bearer token: its role, expiry and issuer, and the audit
//! log.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rsm_tests::binaries;
use rsm_tests::clock::wait_for;
use rsm_tests::process::{Invocation, Running};
use serde_json::{Value, json};

use crate::managed_gpu_agents::sys;
use crate::managed_gpu_identity::manager;

const LIMIT: Duration = Duration::from_secs(60);

/// The name of the issuer's key.
const KEY: &str = "first";

/// An issuer of tokens.
struct Issuer {
    key: EncodingKey,
}

impl Issuer {
    /// Creates an issuer with a new key, which openssl generates.
    fn new() -> Issuer {
        let make = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 | \
            openssl pkcs8 -topk8 -nocrypt -outform DER";
        let made = Command::new("sh")
            .args(["-c", make])
            .output()
            .expect("a shell");
        assert!(made.status.success(), "{made:?}");
        Issuer {
            key: EncodingKey::from_ec_der(&made.stdout),
        }
    }

    /// The key set for the manager.
    fn key_set(&self) -> String {
        let mut key = Jwk::from_encoding_key(&self.key, Algorithm::ES256).expect("a key");
        key.common.key_id = Some(KEY.to_owned());
        json!({ "keys": [key] }).to_string()
    }

    /// A token with these claims, signed with the issuer's key.
    fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(KEY.to_owned());
        encode(&header, claims, &self.key).expect("claims can be signed")
    }
}

/// The claims of a subject with a role. They expire `seconds` from now; if negative, they have
/// expired.
fn claims(subject: &str, role: &str, seconds: i64) -> Value {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("it is later");
    let now = i64::try_from(since.as_secs()).expect("it is not so late");
    json!({
        "iss": "https://issuer",
        "aud": "rsm",
        "sub": subject,
        "exp": now + seconds,
        "roles": [role],
    })
}

/// A manager that accepts the tokens of one issuer, with the folder of its files.
struct Site {
    directory: tempfile::TempDir,
    running: Running,
    server: String,
    issuer: Issuer,
}

impl Site {
    fn start() -> Site {
        let directory = tempfile::tempdir().expect("there is room");
        let issuer = Issuer::new();
        let keys = directory.path().join("jwks.json");
        std::fs::write(&keys, issuer.key_set()).expect("there is room");
        let config = format!(
            "jwks_file = {keys:?}\njwt_issuer = \"https://issuer\"\njwt_audience = \"rsm\"\n"
        );
        let roles = "jwt gpu-hosts report\njwt watchers read\n";
        let (running, server) = manager(directory.path(), &config, roles);
        Site {
            directory,
            running,
            server,
            issuer,
        }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Prepares the agent of a host, which reads its token from the file `token` and its hardware
    /// from `tree`.
    fn agent(&self, host: &str, token: &Path, tree: &Path) -> Invocation {
        let agent = Invocation::new(binaries::rsm_agent(), self.directory.path());
        let agent = agent.args(["--server", &self.server, "--host", host, "--nvml", "off"]);
        let agent = agent.args(["--patience", "5", "--tls-ca", &self.path("ca.pem")]);
        agent.arg("--token-file").arg(token).arg("--sys").arg(tree)
    }

    /// Sends one report with this token; returns the exit code and the log.
    fn report(&self, host: &str, token: &str, tree: &Path) -> (Option<i32>, String) {
        let file = self.directory.path().join(format!("{host}.token"));
        std::fs::write(&file, token).expect("there is room");
        let finished = self.agent(host, &file, tree).run(LIMIT).expect("it ends");
        (finished.status.code(), finished.stderr)
    }

    /// The output of `rsmctl gpu hosts`.
    fn hosts(&self) -> String {
        let rsmctl = Invocation::new(binaries::rsmctl(), self.directory.path());
        let socket = format!("unix:{}", self.path("state/rsm.sock"));
        let rsmctl = rsmctl.args(["--server", &socket, "gpu", "hosts"]);
        rsmctl.run(LIMIT).expect("it ends").stdout
    }

    /// Waits for a line of the audit log that contains all of these parts.
    fn wait_audited(&self, parts: &[&str]) {
        let text = || std::fs::read_to_string(self.path("state/audit.jsonl")).unwrap_or_default();
        let is_it = |line: &str| parts.iter().all(|part| line.contains(part));
        let found = wait_for(LIMIT, || text().lines().any(is_it).then_some(()));
        assert!(found.is_some(), "{parts:?} in\n{}", text());
    }
}

#[test]
#[cfg_attr(not(peers), ignore = "needs openssl")]
fn agent_reports_only_with_a_valid_token_of_its_role_and_refusals_are_audited() {
    let site = Site::start();
    let tree = sys(site.directory.path(), 2, 1);
    let foreign = Issuer::new();
    let good = claims("gpu-agent", "gpu-hosts", 600);
    let with = |name: &str, value: &str| {
        let mut claims = good.clone();
        claims[name] = json!(value);
        site.issuer.sign(&claims)
    };
    let role = site.issuer.sign(&claims("reader", "watchers", 600));
    let refused = [
        ("gpu-role", role, "\"reader\"", "role"),
        ("gpu-none", "no-token-at-all".to_owned(), "\"unproved\"", ""),
        (
            "gpu-late",
            site.issuer.sign(&claims("gpu-agent", "gpu-hosts", -3600)),
            "\"unproved\"",
            "the token has expired: get a new one",
        ),
        (
            "gpu-foreign",
            foreign.sign(&good),
            "\"unproved\"",
            "signature",
        ),
        (
            "gpu-issuer",
            with("iss", "https://other"),
            "\"unproved\"",
            "iss",
        ),
        ("gpu-audience", with("aud", "other"), "\"unproved\"", "aud"),
    ];
    for (host, token, identity, reason) in refused {
        let (code, text) = site.report(host, &token, &tree);
        assert_eq!(code, Some(1), "{host}: {text}");
        assert!(text.contains(reason), "{host}: {text}");
        assert!(!text.contains(&token), "{host}: {text}");
        // The audit log has at most one line per second about refusals of one identity.
        let parts = [identity, "\"refused\"", "GpuService/", reason];
        site.wait_audited(&parts);
        std::thread::sleep(Duration::from_millis(1100));
    }
    assert!(!site.hosts().contains("gpu-"), "{}", site.hosts());

    let (code, text) = site.report("gpu-right", &site.issuer.sign(&good), &tree);
    assert_eq!(code, Some(0), "{text} {}", site.running.stderr_so_far());
    assert!(site.hosts().contains("gpu-right"), "{}", site.hosts());
    site.wait_audited(&["\"gpu-agent\"", "\"token\"", "\"done\""]);
    let audit = std::fs::read_to_string(site.path("state/audit.jsonl")).expect("it is there");
    let log = site.running.stderr_so_far();
    let secret = std::fs::read_to_string(site.path("gpu-right.token")).expect("it is there");
    assert!(!audit.contains(&secret) && !log.contains(&secret));
}

#[test]
#[cfg_attr(not(peers), ignore = "needs openssl")]
fn running_agent_reports_once_its_expired_token_is_replaced() {
    let site = Site::start();
    let tree = sys(site.directory.path(), 2, 1);
    let file = site.directory.path().join("token");
    let put = |seconds| {
        let token = site.issuer.sign(&claims("gpu-agent", "gpu-hosts", seconds));
        // The token is replaced in one step, as programs that renew tokens do.
        let next = site.directory.path().join("token.next");
        std::fs::write(&next, token).expect("there is room");
        std::fs::rename(next, &file).expect("it is ours");
    };
    put(-3600);
    let agent = site.agent("gpu-stays", &file, &tree).args(["--every", "5"]);
    let agent = agent.spawn().expect("it can be started");
    let refused = || agent.stderr_so_far().contains("has expired").then_some(());
    assert!(
        wait_for(LIMIT, refused).is_some(),
        "{}",
        agent.stderr_so_far()
    );
    assert!(!site.hosts().contains("gpu-stays"), "{}", site.hosts());
    put(600);
    let reported = || site.hosts().contains("gpu-stays").then_some(());
    assert!(
        wait_for(LIMIT, reported).is_some(),
        "{}",
        agent.stderr_so_far()
    );
}
