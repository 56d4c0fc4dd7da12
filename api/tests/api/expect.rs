//! `rsmctl expect` and AcceptMissing.

use rsm_api::model::{Keyed, MissingKind, PortId, PortState};
use rsm_api::v1;
use rsm_api::v1::convergence_service_client::ConvergenceServiceClient;
use rsm_ids::PortNum;

use crate::fake::{Fake, LEAF, guid};
use crate::rsmctl::{printed, run};
use crate::served::Served;

#[test]
fn missing_nodes_and_cables_are_listed_and_accepted() {
    let fake = Fake::tree(2, 1);
    let missing = |number, kind: MissingKind, name: &str, lost_unix_ms| {
        let key = PortId {
            node: guid(LEAF, 0),
            number: PortNum(number),
        };
        let message = v1::Missing {
            node_guid: key.node.to_string(),
            port: Some(number.into()).filter(|&port: &u32| port != 0),
            kind: kind.into(),
            name: name.to_owned(),
            place: "spine-1 port 3".to_owned(),
            lost_unix_ms,
            last_state: PortState::Active.into(),
            cables: 1,
            hosts_behind: 0,
            moved_routes: Some(12),
            left: "leaf-1 has 7 of 8 links to switches left".to_owned(),
            seen: "no signal at spine-1:3: no power, or the cable is out".to_owned(),
            of_present_host: false,
        };
        Keyed { key, message }
    };
    *fake.missing.lock() = vec![
        missing(0, MissingKind::Switch, "leaf-7", Some(1_795_132_800_000)),
        missing(7, MissingKind::Cable, "leaf-1", None),
    ];
    let served = Served::start(fake);
    let text = printed(&served, &["expect", "--wide"]);
    let lines: Vec<&str> = text.lines().collect();
    // A line that counts, the headings, and a row for each.
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[2].starts_with("2026-11-20T"), "{text}");
    assert!(lines[2].contains("switch") && lines[2].contains("leaf-7"));
    assert!(lines[3].contains("cable") && lines[3].contains("7 of 8 links"));
    assert!(lines[3].contains("no signal at spine-1:3"), "{text}");
    let json = printed(&served, &["expect", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["lost_unix_ms"], 1_795_132_800_000_u64);
    assert_eq!(
        (&json[1]["kind"], &json[1]["port"]),
        (&"cable".into(), &7.into())
    );
    let accepted = printed(
        &served,
        &["expect", "--accept", "leaf-7", "--format", "json"],
    );
    let accepted: serde_json::Value = serde_json::from_str(&accepted).unwrap();
    assert_eq!(accepted["accepted"], 1);
    assert_eq!(accepted["parts"]["switches"], 1);
    let again = run(&served, &["expect", "--accept", "leaf-7"]);
    assert_eq!(again.status.code(), Some(1));
    let tcp = format!("http://{}", served.tcp);
    let arguments = ["expect", "--accept-all", "--yes", "--server", &tcp];
    assert_eq!(run(&served, &arguments).status.code(), Some(1));
    assert_eq!(served.fake.missing.lock().len(), 1);
    let accepted = printed(&served, &["expect", "--accept-all", "--yes"]);
    assert_eq!(accepted, "accepted: 1 cable\n");
    assert!(served.fake.missing.lock().is_empty());
}

#[test]
fn all_missing_parts_are_accepted_after_a_question_and_exchanged_cables_by_their_own() {
    let fake = Fake::tree(2, 1);
    let missing = |number, kind: MissingKind, name: &str| Keyed {
        key: PortId {
            node: guid(LEAF, 0),
            number: PortNum(number),
        },
        message: v1::Missing {
            kind: kind.into(),
            name: name.to_owned(),
            cables: 2,
            ..v1::Missing::default()
        },
    };
    *fake.missing.lock() = vec![
        missing(0, MissingKind::Switch, "leaf-7"),
        missing(7, MissingKind::Cable, "leaf-1"),
        missing(8, MissingKind::Exchanged, "leaf-2"),
    ];
    let served = Served::start(fake);
    let left = || served.fake.missing.lock().len();
    for (option, listed, effect) in [
        ("--accept-all", ["leaf-7", "leaf-1"], "1 switch, 2 cables"),
        (
            "--accept-exchanged",
            ["leaf-2", "exchanged"],
            "2 exchanged cables",
        ),
    ] {
        let asked = run(&served, &["expect", option]);
        assert_eq!(asked.status.code(), Some(1), "no terminal to ask at");
        let list = String::from_utf8(asked.stdout).unwrap();
        assert!(listed.iter().all(|name| list.contains(name)), "{list}");
        let question = String::from_utf8(asked.stderr).unwrap();
        let question = question.replace('\n', " ");
        assert!(question.contains(effect), "{question}");
        assert!(question.contains("--yes"), "{question}");
        assert_eq!(left(), 3);
    }
    // A client of an earlier version sends `all` alone.
    let mut client = ConvergenceServiceClient::new(served.unix());
    let mut accept = |all, exchanged| {
        let request = v1::AcceptMissingRequest {
            name: String::new(),
            all,
            exchanged,
        };
        served.block_on(client.accept_missing(request))
    };
    assert!(accept(true, true).is_err() && accept(false, false).is_err());
    let parts = accept(true, false).unwrap().into_inner().parts.unwrap();
    assert_eq!((parts.switches, parts.exchanged_cables), (1, 0));
    assert_eq!(left(), 1, "the exchanged cables stay");
    let accepted = printed(&served, &["expect", "--accept-exchanged", "--yes"]);
    assert_eq!(accepted, "accepted: 2 exchanged cables\n");
    assert_eq!(left(), 0);
}
