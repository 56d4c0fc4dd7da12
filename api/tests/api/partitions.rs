//! Changes of partitions: from requests and command lines to the subnet manager, and refusals.

use rsm_api::access::Grant;
use rsm_api::limits::{ACCEPTED_BY, CUT_OFF_PORTS, ERROR_DOMAIN, MAX_MEMBERS_PER_REQUEST};
use rsm_api::model::{
    EmptyPartition, ExistingPartition, MemberName, Membership, PartitionAction,
    PartitionProtection, PartitionSettings, Selector, TrustMode, WantedMember,
};
use rsm_ids::Guid;
use rsm_proto::v1;
use rsm_proto::v1::partition_service_client::PartitionServiceClient;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::fake::Fake;
use crate::rsmctl::{printed, run};
use crate::served::Served;

fn last(served: &Served) -> PartitionAction {
    let changes = served.fake.partition_changes.lock();
    changes.last().expect("there was a change").action.clone()
}

fn member(port: MemberName, membership: Membership, index0: bool) -> WantedMember {
    WantedMember {
        port,
        membership,
        index0,
    }
}

#[test]
fn commands_become_changes() {
    let served = Served::start(Fake::tree(2, 1));
    let text = printed(
        &served,
        &[
            "partition",
            "create",
            "0x8010",
            "0x0002c90300001234",
            "host-1",
            "host-1:1",
            "--name",
            "blue",
            "--ipoib",
            "--sl",
            "3",
            "--mtu",
            "4096",
            "--rate",
            "400",
            "--index0",
        ],
    );
    assert_eq!(text, "0x0010  in force: 1 membership changed\n");
    let name = |text: &str| MemberName::Present(text.parse::<Selector>().unwrap());
    let members = [
        MemberName::Guid(Guid(0x0002_c903_0000_1234)),
        name("host-1"),
        name("host-1:1"),
    ];
    let settings = PartitionSettings {
        name: "blue".to_owned(),
        ipoib: true,
        service_level: 3,
        mtu_bytes: 4096,
        rate_tenth_gbps: 4000,
    };
    let create = PartitionAction::Create {
        settings: settings.clone(),
        members: members
            .map(|port| member(port, Membership::Full, true))
            .to_vec(),
        existing: ExistingPartition::Same,
    };
    assert_eq!(last(&served), create);
    {
        let changes = served.fake.partition_changes.lock();
        assert_eq!(changes[0].p_key, 0x10);
        assert!(changes[0].by.starts_with("uid:"), "{}", changes[0].by);
        assert!(changes[0].grant.changes(0x10) && changes[0].grant != Grant::NONE);
    }
    let guid = MemberName::Guid(Guid(0x50000));
    for (arguments, action) in [
        (
            &["add", "0x10", "0x50000", "--membership", "both"][..],
            PartitionAction::Add(vec![member(guid.clone(), Membership::Both, false)]),
        ),
        (
            &["set", "0x10", "0x50000", "--membership", "limited"],
            PartitionAction::Replace(
                vec![member(guid.clone(), Membership::Limited, false)],
                EmptyPartition::Keep,
            ),
        ),
        (
            &["set", "0x10"],
            PartitionAction::Replace(Vec::new(), EmptyPartition::Keep),
        ),
        (
            &["remove", "0x10", "0x50000"],
            PartitionAction::Remove(vec![guid], EmptyPartition::Keep),
        ),
        (
            &["configure", "0x10", "--name", "red"],
            PartitionAction::Configure(PartitionSettings {
                name: "red".to_owned(),
                mtu_bytes: 4096,
                ..PartitionSettings::default()
            }),
        ),
        (
            &["configure", "0x8010", "--ipoib", "--sl", "3"],
            PartitionAction::Configure(PartitionSettings {
                name: "tenant-a".to_owned(),
                ipoib: true,
                service_level: 3,
                mtu_bytes: 4096,
                ..PartitionSettings::default()
            }),
        ),
        (
            &[
                "protect",
                "0x10",
                "--mgids",
                "ff12:a01d:10::/48,ff15:a01d:10::/48",
                "--guids",
                "0x0252000000100000/44",
                "--trust",
                "enforce",
            ],
            PartitionAction::Protect(PartitionProtection {
                trust: TrustMode::Enforce,
                mgids: ["ff12:a01d:10::/48", "ff15:a01d:10::/48"]
                    .map(str::to_owned)
                    .to_vec(),
                guids: vec!["0x0252000000100000/44".to_owned()],
            }),
        ),
        (
            &["protect", "0x10"],
            PartitionAction::Protect(PartitionProtection {
                trust: TrustMode::Unspecified,
                mgids: Vec::new(),
                guids: Vec::new(),
            }),
        ),
        (&["delete", "0x10"], PartitionAction::Delete),
        (&["default", "limited"], PartitionAction::LimitDefault(true)),
        (&["default", "file"], PartitionAction::LimitDefault(false)),
    ] {
        let arguments = [&["partition"][..], arguments].concat();
        printed(&served, &arguments);
        assert_eq!(last(&served), action, "{arguments:?}");
    }
    let json = printed(
        &served,
        &["--format", "json", "partition", "delete", "0x8010"],
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json, serde_json::json!({"p_key": 16, "changed": 1}));
}

#[test]
fn a_change_that_cuts_ports_off_names_them_and_wants_yes() {
    let served = Served::start(Fake::tree(2, 1));
    for command in [
        &["create", "0x67"][..],
        &["add", "0x67", "0x50000"],
        &["set", "0x67"],
        &["remove", "0x67", "0x50000"],
        &["delete", "0x67"],
    ] {
        let arguments = [&["partition"][..], command].concat();
        let refused = run(&served, &arguments);
        assert_eq!(refused.status.code(), Some(1), "{command:?}");
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(text.contains("2 ports cut off: host-1 port 1"), "{text}");
        assert_eq!(served.fake.partition_changes.lock().len(), 0, "{command:?}");
        let text = printed(&served, &[&arguments[..], &["--yes"]].concat());
        assert_eq!(
            text,
            "0x0067  in force: 1 membership changed; 2 ports cut off from others in it, 1 of them from every host\n"
        );
        served.fake.partition_changes.lock().clear();
    }
    let json = printed(
        &served,
        &["--format", "json", "partition", "delete", "0x67", "--yes"],
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["cut_off"]["ports"], 2, "{json}");
}

#[test]
fn change_that_the_hardware_does_not_hold_yet_has_an_exit_code_of_its_own() {
    let served = Served::start(Fake::tree(2, 1));
    let answer = run(&served, &["partition", "remove", "0x65", "0x50000"]);
    assert_eq!(answer.status.code(), Some(6));
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "");
    let text = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert!(text.contains("accepted and kept"), "{text}");
    assert!(
        text.contains("1 part of the fabric lacks it: host-1 port 1"),
        "{text}"
    );
    let mut client = PartitionServiceClient::new(served.unix());
    let request = v1::DeletePartitionRequest {
        p_key: 0x65,
        accept_cut_off: false,
    };
    let answer = served.block_on(client.delete_partition(request));
    let status = answer.expect_err("it is not written");
    assert_eq!(status.code(), Code::DeadlineExceeded);
    let info = status.get_details_error_info().expect("it is there");
    assert_eq!(
        (info.domain.as_str(), info.reason.as_str()),
        (ERROR_DOMAIN, "NOT_WRITTEN")
    );
}

#[test]
fn a_client_that_accepts_no_cut_is_refused_with_the_number_of_ports() {
    let served = Served::start(Fake::tree(2, 1));
    let mut client = PartitionServiceClient::new(served.unix());
    let mut request = v1::DeletePartitionRequest {
        p_key: 0x67,
        accept_cut_off: false,
    };
    let refused = served
        .block_on(client.delete_partition(request))
        .expect_err("it cuts ports off");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let info = refused.get_details_error_info().expect("it is there");
    assert_eq!(
        (info.domain.as_str(), info.reason.as_str()),
        (ERROR_DOMAIN, "CUT_OFF")
    );
    assert_eq!(info.metadata[CUT_OFF_PORTS], "2");
    assert!(
        info.metadata[ACCEPTED_BY].contains("accept_cut_off"),
        "{info:?}"
    );
    request.accept_cut_off = true;
    let done = served.block_on(client.delete_partition(request)).unwrap();
    let cut_off = done.into_inner().cut_off.expect("it cuts ports off");
    assert_eq!((cut_off.ports, cut_off.isolated_ports), (2, 1));
}

#[test]
fn members_are_listed_present_or_not() {
    let served = Served::start(Fake::tree(2, 1));
    let text = printed(&served, &["partition", "show", "0x10"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(
        lines[1].starts_with("0x0000000000000001") && lines[1].contains("index 0"),
        "{text}"
    );
    assert!(
        lines[2].contains("limited") && lines[2].contains("not present"),
        "{text}"
    );
    let mut client = PartitionServiceClient::new(served.unix());
    let request = v1::ListPartitionGuidsRequest {
        page_size: 2,
        p_key: 0x8010,
        ..v1::ListPartitionGuidsRequest::default()
    };
    let page = served
        .block_on(client.list_partition_guids(request.clone()))
        .unwrap()
        .into_inner();
    let rest = v1::ListPartitionGuidsRequest {
        page_token: page.next_page_token,
        ..request
    };
    let rest = served
        .block_on(client.list_partition_guids(rest))
        .unwrap()
        .into_inner();
    assert_eq!((page.guids.len(), rest.guids.len()), (2, 1));
    assert_eq!(rest.next_page_token, "");
    let unknown = run(&served, &["partition", "show", "0x11"]);
    let text = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(text.contains("no partition has the P_Key 0x0011"), "{text}");
}

#[test]
fn wrong_requests_are_refused_before_the_subnet_manager() {
    let served = Served::start(Fake::tree(1, 1));
    let mut client = PartitionServiceClient::new(served.unix());
    let wanted = |port: &str| v1::WantedMember {
        port: port.to_owned(),
        ..v1::WantedMember::default()
    };
    let mut add = |p_key, members: Vec<v1::WantedMember>| -> Status {
        let request = v1::AddPartitionMembersRequest {
            p_key,
            members,
            ..v1::AddPartitionMembersRequest::default()
        };
        let refused = served.block_on(client.add_partition_members(request));
        refused.expect_err("it is wrong")
    };
    let good = wanted("0x50000");
    for (p_key, members, part) in [
        (0, vec![good.clone()], "p_key"),
        (0x8000, vec![good.clone()], "p_key"),
        (0x1_0010, vec![good.clone()], "p_key"),
        (0x10, vec![], "members"),
        (
            0x10,
            vec![good.clone(); MAX_MEMBERS_PER_REQUEST + 1],
            "members",
        ),
        (0x10, vec![wanted("")], "port"),
        (0x10, vec![wanted("guid:xyz")], "port"),
        (
            0x10,
            vec![v1::WantedMember {
                membership: 9,
                ..good.clone()
            }],
            "membership",
        ),
    ] {
        let status = add(p_key, members);
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(part), "{status}");
    }
    let huge = add(0x10, vec![wanted(&"x".repeat(250)); 4096]);
    assert_eq!(huge.code(), Code::OutOfRange, "{huge}");
    let full = add(0x66, vec![good]);
    assert_eq!(full.code(), Code::ResourceExhausted);
    let settings = |settings: v1::PartitionSettings| {
        let request = v1::CreatePartitionRequest {
            p_key: 0x10,
            settings: Some(settings),
            ..v1::CreatePartitionRequest::default()
        };
        let mut client = PartitionServiceClient::new(served.unix());
        served
            .block_on(client.create_partition(request))
            .expect_err("it is wrong")
    };
    let plain = v1::PartitionSettings::default;
    for wrong in [
        v1::PartitionSettings {
            rate_gbps: f64::NAN,
            ..plain()
        },
        v1::PartitionSettings {
            rate_gbps: -10.0,
            ..plain()
        },
        v1::PartitionSettings {
            rate_gbps: 2.55,
            ..plain()
        },
        v1::PartitionSettings {
            service_level: 16,
            ..plain()
        },
        v1::PartitionSettings {
            name: "x".repeat(1000),
            ..plain()
        },
    ] {
        assert_eq!(settings(wrong).code(), Code::InvalidArgument);
    }
    assert_eq!(served.fake.partition_changes.lock().len(), 0);
    for wrong in [
        &["add", "0x0", "1"][..],
        &["add", "0x10"],
        &["add", "0x10", "5", "--membership", "owner"],
    ] {
        let arguments = [&["partition"][..], wrong].concat();
        assert!(!run(&served, &arguments).status.success(), "{wrong:?}");
    }
}
