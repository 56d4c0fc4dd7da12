//! The REST interface of UFM: the calls of its clients, and requests that are refused.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rsm_api::access::ApiTokens;
use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::web::{Answer, Site, exchange};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A fabric of 4 leaves with 2 hosts each, with the names of the generator.
const FABRIC: &str = "fat-tree:k=4,levels=2";

const LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// GUIDs that no port has, such as those of future virtual functions.
const VIRTUAL: [&str; 3] = ["02f1000000000001", "02f1000000000002", "02f1000000000003"];

/// An rsm with the interface, and a file of tokens.
pub(crate) struct Ufm {
    site: Site,
    folder: TempDir,
    /// A token with the role operate.
    token: String,
}

fn token_file(folder: &TempDir) -> String {
    folder.path().join("tokens").display().to_string()
}

/// Runs `rsmctl token`, and returns its output.
fn rsmctl_token(arguments: &[&str]) -> String {
    let done = Command::new(binaries::rsmctl())
        .arg("token")
        .args(arguments)
        .output();
    let done = done.expect("it can be started");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8(done.stdout)
        .expect("it is text")
        .trim()
        .to_owned()
}

impl Ufm {
    /// Starts rsm with the interface, a token with the role operate, and `more` configuration.
    pub(crate) fn start(more: &str) -> Ufm {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let file = token_file(&folder);
        let token = rsmctl_token(&["new", "kube", "operate", "--file", &file]);
        assert_eq!(token.len(), 64);
        let text = std::fs::read_to_string(&file).expect("it is there");
        assert!(!text.contains(&token), "only its digest is kept");
        let config = format!("{more}\n[http]\nufm = true\nufm_tokens_file = {file:?}\n");
        Ufm {
            site: Site::start_with(FABRIC, &config),
            folder,
            token,
        }
    }

    /// Creates another token, which rsm accepts after the next SIGHUP.
    fn new_token(&self, name: &str, roles: &str) -> String {
        rsmctl_token(&["new", name, roles, "--file", &token_file(&self.folder)])
    }

    /// Sends a request with `authorization` as the value of that header.
    fn ask(&self, method: &str, path: &str, authorization: &str, body: &str) -> Answer {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: ufm.example.org\r\nconnection: close\r\n\
             authorization: {authorization}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        exchange(self.site.address(), request.as_bytes())
    }

    /// Sends a request with the token of the role operate; returns the status and the body of the
    /// answer.
    pub(crate) fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let answer = self.ask(method, path, &format!("Basic {}", self.token), &body);
        (answer.status, answer.json())
    }

    /// The body of the answer to a GET, which must be answered with 200.
    fn get(&self, path: &str) -> Value {
        let (status, value) = self.call("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    /// Makes a change, which must be answered with 200 and an empty object.
    fn change(&self, method: &str, path: &str, body: &Value) {
        let answer = self.call(method, path, body);
        assert_eq!(answer, (200, json!({})), "{method} {path}");
    }

    /// Makes a change, which must be answered with 200 and a complete job; returns the job.
    fn job(&self, path: &str, body: &Value) -> Value {
        let (status, job) = self.call("POST", path, body);
        assert_eq!(
            (status, &job["Status"]),
            (200, &json!("Completed")),
            "{job}"
        );
        job
    }
}

/// Encodes text as base64 (RFC 4648), independently of the server's code.
fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let mut word = [0; 3];
        word[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, word[0], word[1], word[2]]);
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    out
}

#[test]
fn calls_of_ib_kubernetes_are_answered_as_it_expects() {
    let ufm = Ufm::start("");
    let authorization = format!("Basic {}", base64(&format!("kube:{}", ufm.token)));
    let call = |method: &str, path: &str, body: &Value| {
        let answer = ufm.ask(
            method,
            &format!("/ufmRest{path}"),
            &authorization,
            &body.to_string(),
        );
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    };
    call("GET", "/app/ufm_version", &Value::Null);
    let add = json!({
        "pkey": "0x0005", "index0": true, "ip_over_ib": true, "membership": "full", "guids": VIRTUAL,
    });
    for _ in 0..2 {
        call("POST", "/resources/pkeys", &add);
    }
    let all = call("GET", "/resources/pkeys/?guids_data=true", &Value::Null);
    let guids = all["0x5"]["guids"].as_array().expect("a list");
    let guids: Vec<&str> = guids
        .iter()
        .filter_map(|one| one["guid"].as_str())
        .collect();
    assert_eq!(guids, VIRTUAL);
    // The P_Key of a request may have the bit of full membership.
    let remove = |guids: &[&str]| json!({"pkey": "0x8005", "guids": guids});
    for guids in [&VIRTUAL[..1], &VIRTUAL[..], &VIRTUAL[..]] {
        call("POST", "/actions/remove_guids_from_pkey", &remove(guids));
    }
    let all = call("GET", "/resources/pkeys/?guids_data=true", &Value::Null);
    assert_eq!(all.get("0x5"), None, "it went with its last member: {all}");
}

/// Clients of UFM cannot confirm a change, so rsm makes it at once and logs how many ports it cuts
/// off.
#[test]
fn ports_that_a_deletion_cuts_off_are_counted_in_the_audit_log() {
    let ufm = Ufm::start("");
    let hosts = json!({"pkey": "0x9", "hosts_names": "host-002,host-003,host-004"});
    ufm.job("/ufmRest/resources/pkeys/hosts", &hosts);
    ufm.change("DELETE", "/ufmRest/resources/pkeys/0x9", &Value::Null);
    let audit = ufm.site.directory().join("state/audit.jsonl");
    let is_there = wait_for_every(POLL, LIMIT, || {
        let text = std::fs::read_to_string(&audit).unwrap_or_default();
        let mut lines = text.lines();
        let counted = |line: &str| {
            line.contains("DELETE /ufmRest/resources/pkeys/0x9")
                && line.contains("ports cut off: 3, of these from every host: 0")
        };
        lines.any(counted).then_some(())
    });
    let text = std::fs::read_to_string(&audit).unwrap_or_default();
    assert!(is_there.is_some(), "{text}");
}

#[test]
fn calls_of_infra_controller_are_answered_as_it_expects() {
    let ufm = Ufm::start("");
    let v3 = |path: &str| format!("/ufmRestV3{path}");
    let version = ufm.get(&v3("/app/ufm_version"));
    assert!(
        version["ufm_release_version"]
            .as_str()
            .is_some_and(|text| text.starts_with("6."))
    );
    let conf = ufm.get(&v3("/app/smconf"));
    assert_eq!(conf["subnet_prefix"], "0xfe80000000000000");
    assert_eq!(conf["m_key_per_port"], false);
    assert_eq!(
        (&conf["m_key"], &conf["sm_key"]),
        (&json!("0x0000000000000000"), &json!("0x0000000000000001"))
    );
    let ports = ufm.get(&v3("/resources/ports?sys_type=Computer"));
    let ports = ports.as_array().expect("a list");
    assert_eq!(ports.len(), 8);
    for port in ports {
        assert_eq!(port["logical_state"], "Active");
        assert!(port["lid"].as_u64().is_some_and(|lid| lid > 0));
        let guid = port["guid"].as_str().expect("a GUID");
        assert_eq!(guid.len(), 16);
        assert_eq!(port["name"], format!("{guid}_1"));
        for field in ["systemID", "system_name", "dname", "physical_state"] {
            assert!(port[field].is_string(), "{field}: {port}");
        }
    }
    let guid = ports[1]["guid"].as_str().expect("a GUID");
    assert_eq!(
        ufm.get(&v3("/resources/pkeys/0x31a?guids_data=true")),
        json!({})
    );
    let bind = |guid: &str| {
        let body = json!({
            "pkey": "0x31a", "ip_over_ib": true, "membership": "full", "index0": false, "guids": [guid],
        });
        ufm.change("POST", &v3("/resources/pkeys"), &body);
    };
    bind(guid);
    bind(VIRTUAL[0]);
    let qos = json!({"pkey": "0x31a", "mtu_limit": 4, "service_level": 1, "rate_limit": 100.0});
    ufm.change("PUT", &v3("/resources/pkeys/qos_conf"), &qos);
    let one = ufm.get(&v3("/resources/pkeys/0x31a?guids_data=true&qos_conf=true"));
    assert_eq!(one["partition"], "api_pkey_0x31a");
    assert_eq!(one["ip_over_ib"], true);
    let member = |guid: &str| json!({"guid": guid, "index0": false, "membership": "full"});
    let mut expected = [guid, VIRTUAL[0]];
    expected.sort_unstable();
    assert_eq!(one["guids"], json!(expected.map(member)));
    let expected = json!({"mtu_limit": 4, "service_level": 1, "rate_limit": 100.0});
    assert_eq!(one["qos_conf"], expected);
    let all = ufm.get(&v3("/resources/pkeys?guids_data=true"));
    assert_eq!(all["0x31a"]["guids"], one["guids"]);
    assert_eq!(all["0x7fff"]["partition"], "management");
    assert_eq!(all["0x7fff"]["membership"], "full");
    assert_eq!(all["0x7fff"]["guids"].as_array().map(Vec::len), Some(14));
    ufm.site
        .rsmctl(&["partition", "default", "limited", "--yes"]);
    assert_eq!(
        ufm.get(&v3("/resources/pkeys/0x7fff"))["membership"],
        "limited"
    );
    for guid in [guid, VIRTUAL[0]] {
        let body = json!({"pkey": "0x31a", "guids": [guid]});
        ufm.change("POST", &v3("/actions/remove_guids_from_pkey"), &body);
    }
    assert_eq!(
        ufm.get(&v3("/resources/pkeys/0x31a?guids_data=true")),
        json!({})
    );
}

#[test]
fn calls_of_volcano_slurm_and_other_clients_are_answered() {
    let ufm = Ufm::start("[partitions]\nallow_both = true\n");
    let v2 = |path: &str| format!("/ufmRestV2{path}");
    let ports = ufm.get(&v2("/resources/ports"));
    let ports = ports.as_array().expect("a list");
    let computers = ports.iter().filter(|port| {
        port["description"]
            .as_str()
            .is_some_and(|text| text.contains("Computer"))
    });
    let computers: Vec<&Value> = computers.collect();
    assert_eq!(computers.len(), 8);
    for port in &computers {
        assert!(port["peer_node_name"].is_string() && port["node_description"].is_string());
        assert!(port["tier"].as_u64().is_some_and(|tier| tier > 0), "{port}");
    }
    let hosts: Vec<&str> = computers
        .iter()
        .filter_map(|port| port["system_name"].as_str())
        .collect();
    let names = hosts[2..4]
        .iter()
        .map(|name| name.split(' ').next().unwrap_or(name));
    let names: Vec<&str> = names.collect();
    let add = json!({"hosts_names": names.join(","), "pkey": "0x20", "ip_over_ib": false, "index0": true});
    ufm.job(&v2("/resources/pkeys/hosts"), &add);
    let members = |p_key: &str| {
        let one = ufm.get(&v2(&format!("/resources/pkeys/{p_key}/?guids_data=True")));
        one["guids"].as_array().cloned().unwrap_or_default()
    };
    let guid_of = |at: usize| computers[at]["guid"].as_str().expect("a GUID");
    assert_eq!(members("0x20").len(), 2);
    assert!(members("0x20").iter().all(|one| one["index0"] == true));
    ufm.change(
        "DELETE",
        &v2(&format!("/resources/pkeys/0x20/hosts/{}", names[0])),
        &Value::Null,
    );
    assert_eq!(members("0x20")[0]["guid"], guid_of(3));
    // The partition is created empty, then gets a set of members, each with its membership, then
    // another set in place of the first set.
    let empty =
        json!({"pkey": "0x21", "ip_over_ib": true, "index0": false, "partition_name": "green"});
    ufm.change("POST", &v2("/resources/pkeys/add"), &empty);
    let again = ufm.call("POST", &v2("/resources/pkeys/add"), &empty);
    assert_eq!(again.0, 400);
    assert!(again.1.to_string().contains("exist"), "{}", again.1);
    assert_eq!(ufm.get(&v2("/resources/pkeys/0x21"))["partition"], "green");
    let set = |guids: &[&str], memberships: &[&str]| {
        let body = json!({"pkey": "0x21", "guids": guids, "memberships": memberships});
        ufm.change("PUT", &v2("/resources/pkeys/"), &body);
        let set_members = members("0x21").into_iter().map(|one| {
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            (text("guid"), text("membership"))
        });
        set_members.collect::<Vec<_>>()
    };
    let pair = |guid: &str, membership: &str| (guid.to_owned(), membership.to_owned());
    let set_members = set(&VIRTUAL[..2], &["full", "limited"]);
    assert_eq!(
        set_members,
        [pair(VIRTUAL[0], "full"), pair(VIRTUAL[1], "limited")]
    );
    let set_members = set(&VIRTUAL[1..], &["both", "full"]);
    assert_eq!(
        set_members,
        [pair(VIRTUAL[1], "both"), pair(VIRTUAL[2], "full")]
    );
    let list = format!(
        "/resources/pkeys/0x21/guids/{},0x{}",
        VIRTUAL[1], VIRTUAL[0]
    );
    ufm.change("DELETE", &v2(&list), &Value::Null);
    assert_eq!(members("0x21").len(), 1);
    ufm.change("DELETE", &v2("/resources/pkeys/0x21"), &Value::Null);
    assert_eq!(
        ufm.call("DELETE", &v2("/resources/pkeys/0x21"), &Value::Null)
            .0,
        404
    );
    let active = ufm.get(&v2("/resources/ports?active=true"));
    assert!(
        active
            .as_array()
            .is_some_and(|active| active.len() <= ports.len() && active.len() >= 16)
    );
}

#[test]
fn invalid_requests_are_refused_with_a_reason_and_change_nothing() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let partitions = folder.path().join("partitions.conf");
    let text = "Default=0x7fff : ALL=full ;\nBlue=0x30 : 0x5=full ;\n";
    std::fs::write(&partitions, text).expect("there is room for a file");
    let ufm = Ufm::start(&format!("[partitions]\nfile = {partitions:?}\n"));
    let path = "/ufmRest/resources/pkeys";
    let before = ufm.get(path);
    let good = json!({"pkey": "0x40", "guids": VIRTUAL}).to_string();
    let basic = format!("Basic {}", ufm.token);
    for (method, path, body, status) in [
        ("POST", path, "{", 400),
        ("POST", path, "[]", 400),
        ("POST", path, "{}", 400),
        ("POST", path, r#"{"pkey": 5, "guids": []}"#, 400),
        ("POST", path, r#"{"pkey": "0x0", "guids": []}"#, 400),
        ("POST", path, r#"{"pkey": "0x8000", "guids": []}"#, 400),
        ("POST", path, r#"{"pkey": "0x10040", "guids": []}"#, 400),
        ("POST", path, r#"{"pkey": "64", "guids": []}"#, 400),
        ("POST", path, r#"{"pkey": "0x40", "guids": ["5"]}"#, 400),
        (
            "POST",
            path,
            r#"{"pkey": "0x40", "guids": ["0000000000000000"]}"#,
            400,
        ),
        (
            "POST",
            path,
            r#"{"pkey": "0x40", "guids": ["02f1000000000001", "+2f1000000000002"]}"#,
            400,
        ),
        (
            "POST",
            path,
            r#"{"pkey": "0x40", "guids": [], "membership": "owner"}"#,
            400,
        ),
        (
            "POST",
            path,
            r#"{"pkey": "0x40", "guids": [], "memberships": ["full"]}"#,
            400,
        ),
        (
            "POST",
            path,
            r#"{"pkey": "0x40", "guids": ["02f1000000000001"], "membership": "both"}"#,
            409,
        ),
        (
            "POST",
            path,
            r#"{"pkey": "0x40", "guids": [], "mtu_limit": 3}"#,
            400,
        ),
        (
            "POST",
            path,
            r#"{"pkey": "0x40", "guids": [], "rate_limit": 7}"#,
            400,
        ),
        (
            "POST",
            path,
            r#"{"pkey": "0x40", "guids": [], "service_level": 16}"#,
            400,
        ),
        (
            "POST",
            path,
            r#"{"pkey": "0x30", "guids": ["02f1000000000001"]}"#,
            409,
        ),
        (
            "POST",
            path,
            r#"{"pkey": "0x40", "guids": [], "partition_name": "Blue"}"#,
            409,
        ),
        (
            "POST",
            "/ufmRest/resources/pkeys/add",
            r#"{"pkey": "0x7fff"}"#,
            400,
        ),
        (
            "POST",
            "/ufmRest/resources/pkeys/hosts",
            r#"{"pkey": "0x40", "hosts_names": ""}"#,
            400,
        ),
        (
            "POST",
            "/ufmRest/resources/pkeys/hosts",
            r#"{"pkey": "0x40", "hosts_names": "nobody"}"#,
            404,
        ),
        (
            "PUT",
            "/ufmRest/resources/pkeys/qos_conf",
            r#"{"pkey": "0x41", "mtu_limit": 2}"#,
            404,
        ),
        (
            "POST",
            "/ufmRest/actions/remove_guids_from_pkey",
            r#"{"pkey": "0x40", "guids": []}"#,
            400,
        ),
        ("DELETE", "/ufmRest/resources/pkeys/0x7fff", "", 400),
        ("DELETE", "/ufmRest/resources/pkeys/0x40/guids/%zz", "", 400),
        ("GET", "/ufmRest/resources/pkeys/nothing", "", 400),
        ("GET", "/ufmRest/resources/ports?sys_type=Toaster", "", 400),
        ("GET", "/ufmRest/resources/modules", "", 404),
        ("PATCH", path, &good, 404),
        ("GET", "/ufmRestV4/app/ufm_version", "", 421),
    ] {
        let answer = ufm.ask(method, path, &basic, body);
        assert_eq!(
            answer.status,
            status,
            "{method} {path} {body}: {}",
            answer.text()
        );
        let error = answer.json();
        assert!(
            error["error"].as_str().is_some_and(|text| !text.is_empty()),
            "{error}"
        );
    }
    let large = format!("{{\"pkey\": \"0x40\", \"x\": \"{}\"}}", "y".repeat(1 << 20));
    let answer = ufm.ask("POST", path, &basic, &large);
    assert!(matches!(answer.status, 413 | 0), "{}", answer.text());
    assert_eq!(ufm.get(path), before);
}

#[test]
fn tokens_permit_what_their_roles_do_until_they_expire_and_requests_are_audited() {
    let ufm = Ufm::start("");
    let path = "/ufmRestV3/resources/pkeys";
    let reader = ufm.new_token("reader", "read");
    let blue = ufm.new_token("blue", "tenant:0x50-0x5f");
    let file = token_file(&ufm.folder);
    let ended = ApiTokens::line("ended", 1_000_000_000, "once-good", &["admin".to_owned()]);
    let mut text = std::fs::read_to_string(&file).expect("it is there");
    text.push_str(&format!("{}\n", ended.expect("it is right")));
    std::fs::write(&file, text).expect("there is room");
    let status = |token: &str, method: &str, path: &str, body: &str| {
        ufm.ask(method, path, &format!("Bearer {token}"), body)
            .status
    };
    assert_eq!(status(&reader, "GET", path, ""), 401, "before SIGHUP");
    ufm.site.hang_up();
    let known = wait_for_every(POLL, LIMIT, || {
        (status(&reader, "GET", path, "") == 200).then_some(())
    });
    assert!(known.is_some(), "{}", ufm.site.log());
    let add = |p_key: &str| json!({"pkey": p_key, "guids": [VIRTUAL[0]]}).to_string();
    assert_eq!(status(&reader, "POST", path, &add("0x50")), 403);
    assert_eq!(status(&blue, "POST", path, &add("0x60")), 403);
    assert_eq!(status(&blue, "POST", path, &add("0x50")), 200);
    assert_eq!(status(&blue, "GET", "/ufmRestV3/resources/ports", ""), 403);
    assert_eq!(status(&blue, "GET", &format!("{path}/0x7fff"), ""), 403);
    let seen = ufm.ask("GET", path, &format!("Bearer {blue}"), "").json();
    let seen: Vec<&String> = seen.as_object().expect("a map").keys().collect();
    assert_eq!(seen, ["0x50"]);
    let hosts = json!({"pkey": "0x70", "hosts_names": "host-002"});
    let number = ufm.job(&format!("{path}/hosts"), &hosts)["ID"].clone();
    let job = format!("/ufmRestV3/jobs/{}", number.as_str().expect("a number"));
    assert_eq!(status(&reader, "GET", &job, ""), 200);
    assert_eq!(status(&blue, "GET", &job, ""), 404, "of another tenant");
    let ended = ufm.ask("GET", path, "Bearer once-good", "");
    assert_eq!(ended.status, 401);
    assert!(ended.text().contains("has ended"), "{}", ended.text());
    let none = exchange(
        ufm.site.address(),
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes(),
    );
    assert_eq!(none.status, 401);
    assert_eq!(none.header("www-authenticate"), Some("Basic realm=\"rsm\""));
    let foreign = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nsec-fetch-site: cross-site\r\n\
         sec-fetch-mode: navigate\r\nauthorization: Bearer {reader}\r\n\r\n"
    );
    assert_eq!(exchange(ufm.site.address(), foreign.as_bytes()).status, 403);
    rsmctl_token(&["revoke", "blue", "--file", &file]);
    ufm.site.hang_up();
    let gone = wait_for_every(POLL, LIMIT, || {
        (status(&blue, "GET", path, "") == 401).then_some(())
    });
    assert!(gone.is_some());
    assert_eq!(status(&reader, "GET", path, ""), 200);

    let audit = ufm.site.directory().join("state/audit.jsonl");
    let has_all = wait_for_every(POLL, LIMIT, || {
        let text = std::fs::read_to_string(&audit).unwrap_or_default();
        let has = |parts: &[&str]| {
            text.lines()
                .any(|line| parts.iter().all(|part| line.contains(part)))
        };
        let post = format!("POST {path}");
        (has(&["\"blue\"", "api-token", &post, "\"done\""])
            && has(&["\"blue\"", &post, "\"failed\""])
            && has(&["\"reader\"", &post, "\"refused\""])
            && has(&["\"unproved\"", "has ended", "\"refused\""]))
        .then_some(text)
    });
    let audit = has_all
        .unwrap_or_else(|| panic!("{}", std::fs::read_to_string(&audit).unwrap_or_default()));
    for secret in [&ufm.token, &reader, &blue] {
        assert!(!audit.contains(secret.as_str()) && !ufm.site.log().contains(secret.as_str()));
    }
}

#[test]
fn ufm_interface_is_off_by_default() {
    let site = Site::start(FABRIC);
    for method in ["GET", "POST"] {
        let request = format!(
            "{method} /ufmRest/app/ufm_version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        assert_eq!(exchange(site.address(), request.as_bytes()).status, 404);
    }
}

#[test]
fn token_file_is_private_and_refused_commands_do_not_change_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let file = token_file(&folder);
    rsmctl_token(&["new", "kube", "operate", "--file", &file]);
    let mode = |file: &str| {
        std::fs::metadata(file)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&file), 0o600);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("it is ours");
    rsmctl_token(&["new", "blue", "tenant:0x10", "--days", "1", "--file", &file]);
    assert_eq!(mode(&file), 0o640);
    let refused = |arguments: &[&str]| {
        let before = std::fs::read_to_string(&file).expect("it is there");
        let done = Command::new(binaries::rsmctl())
            .arg("token")
            .args(arguments)
            .output();
        assert!(
            !done.expect("it can be started").status.success(),
            "{arguments:?}"
        );
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), before);
    };
    refused(&["new", "kube", "read", "--file", &file]);
    refused(&["new", "red", "root", "--file", &file]);
    refused(&["new", "a:b", "read", "--file", &file]);
    refused(&["new", "red", "read", "--days", "0", "--file", &file]);
    refused(&["revoke", "red", "--file", &file]);
    std::fs::write(&file, "nonsense\n").expect("there is room");
    refused(&["new", "red", "read", "--file", &file]);
    assert!(!Path::new(&format!("{file}.new")).exists());
}

#[test]
fn scripts_of_the_sdk_read_links_systems_unhealthy_ports_and_events() {
    let ufm = Ufm::start("");
    let list = |path: &str| {
        let answer = ufm.get(&format!("/ufmRest{path}"));
        answer
            .as_array()
            .cloned()
            .unwrap_or_else(|| panic!("{path}: {answer}"))
    };
    let links = list("/resources/links?cable_info=True&monitoring_counters_info=False");
    assert_eq!(links.len(), 16);
    for link in &links {
        let text = |field: &str| link[field].as_str().unwrap_or_default().to_owned();
        let end = |end: &str| {
            format!(
                "{}_{}",
                text(&format!("{end}_guid")),
                text(&format!("{end}_port"))
            )
        };
        assert_eq!(
            text("name"),
            format!("{}:{}", end("source"), end("destination"))
        );
        assert_eq!(
            (text("width"), text("severity")),
            ("4x".to_owned(), "Info".to_owned())
        );
    }
    assert_eq!(list("/resources/links?system=host-001").len(), 1);
    assert_eq!(list("/resources/ports?system=host-001").len(), 1);
    assert_eq!(list("/resources/systems").len(), 14);
    let switches = list("/resources/systems?type=switch");
    assert_eq!(switches.len(), 6);
    assert_eq!(list("/app/unhealthy_ports"), Vec::<Value>::new());

    let leaf = switches[0]["system_name"].as_str().expect("a name");
    ufm.site.rsmctl(&["drain", &format!("{leaf}:3")]);
    let unhealthy = list("/app/unhealthy_ports");
    assert_eq!(unhealthy.len(), 2, "{unhealthy:?}");
    for port in &unhealthy {
        assert_eq!(port["Condition"], "MANUAL");
    }
    ufm.site.rsmctl(&["sim", "unlink", &format!("{leaf}:3")]);
    let down = wait_for_every(POLL, LIMIT, || {
        let events = list("/app/events");
        events.into_iter().find(|event| event["type"] == "329")
    });
    let down = down.expect("the loss of the cable is told");
    assert_eq!(down["name"], "Link is Down");
}

/// ufmfabric and the scripts of UFM's SDK take the job from the answer or from its header Location,
/// and query the job until it is complete.
#[test]
fn hosts_are_added_by_a_job_that_clients_wait_for() {
    let ufm = Ufm::start("");
    let path = "/ufmRest/resources/pkeys/hosts";
    let add = json!({
        "hosts_names": "host-002,host-003", "pkey": "0x1234", "ip_over_ib": true, "index0": false,
        "membership": "full",
    });
    let authorization = format!("Basic {}", ufm.token);
    let answer = ufm.ask("POST", path, &authorization, &add.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let made = answer.json();
    // Clients in Go match the names of fields in any case.
    let fields = made.as_object().expect("a job").keys();
    assert!(fields.clone().any(|name| name.eq_ignore_ascii_case("id")));
    let location = answer.header("location").expect("a job has a place");
    let number = location.rsplit('/').next().expect("a number");
    assert_eq!(made["ID"], number);

    let job = ufm.get(&format!("/ufmRest/jobs/{number}?advanced_information=true"));
    assert_eq!(job, made);
    assert_eq!(
        (&job["Status"], &job["Progress"]),
        (&json!("Completed"), &json!(100))
    );
    assert_eq!(job["CreatedBy"], "kube");
    assert_eq!(job["Summary"], "PKey 0x1234 has the ports of 2 hosts");
    let members = ufm.get("/ufmRest/resources/pkeys/0x1234?guids_data=true");
    assert_eq!(members["guids"].as_array().map(Vec::len), Some(2));

    // A refused change makes no job.
    let unknown = json!({"hosts_names": "nobody", "pkey": "0x1234"});
    assert_eq!(ufm.call("POST", path, &unknown).0, 404);
    assert_eq!(ufm.get("/ufmRest/jobs"), json!([made]));
    assert_eq!(ufm.call("GET", "/ufmRest/jobs/2", &Value::Null).0, 404);
    assert_eq!(ufm.call("GET", "/ufmRest/jobs/one", &Value::Null).0, 400);
}
