use axum::http::{Method, StatusCode};
use rsm_api::access::{Grant, Need};
use rsm_api::model::{MemberName, Membership};
use rsm_api::v1::{self, event::Change};
use rsm_ids::Guid;

use super::body::{form_unescaped, host_names, hosts, membership, p_key, qos, unescaped};
use super::inventory::{shown_event, shown_unhealthy};
use super::jobs::Jobs;
use super::route::{Change as Asked, PortFilter, Reading, Route, Shown, System};
use super::show::is_named;
use super::{below, is_path};
use crate::limits::MAX_UFM_JOBS;

fn route(method: &str, path: &str, query: &str) -> Result<Route, StatusCode> {
    let method: Method = method.parse().expect("a method");
    Route::of(&method, path, query).map_err(|(code, _)| code)
}

#[test]
fn only_paths_below_the_prefixes_belong_to_the_interface() {
    for (path, rest) in [
        ("/ufmRest/app/ufm_version", Some("/app/ufm_version")),
        ("/ufmRestV2/app", Some("/app")),
        ("/ufmRestV3", Some("")),
        ("/ufmRestV4/app", None),
        ("/ufmRestful", None),
        ("/api/v1/ufmRest/", None),
    ] {
        assert_eq!(below(path), rest, "{path}");
        assert_eq!(is_path(path), rest.is_some());
    }
}

#[test]
fn routes_tolerate_slashes_and_spellings_of_true() {
    let all = |shown| Ok(Route::Read(Reading::Pkeys { of: None, shown }));
    let guids = Shown {
        guids: true,
        qos: false,
    };
    for path in ["/resources/pkeys", "/resources/pkeys/", "resources/pkeys"] {
        assert_eq!(route("GET", path, "guids_data=True"), all(guids), "{path}");
        assert_eq!(
            route("GET", path, "guids_data=false&other=1"),
            all(Shown::default())
        );
        assert_eq!(route("POST", path, ""), Ok(Route::Change(Asked::Add)));
    }
    let one = Route::Read(Reading::Pkeys {
        of: Some(5),
        shown: Shown {
            guids: true,
            qos: true,
        },
    });
    assert_eq!(
        route(
            "GET",
            "/resources/pkeys/0x8005",
            "guids_data=true&qos_conf=true"
        ),
        Ok(one)
    );
    let computers = PortFilter {
        system: Some(System::Computer),
        of: Some("host-1".to_owned()),
        active: true,
    };
    let ports = Route::Read(Reading::Ports(computers));
    let query = "sys_type=computer&active=true&system=host-1&high_ber_only=False";
    assert_eq!(route("GET", "/resources/ports", query), Ok(ports));
    // `active=false` is as UFM's default: all ports.
    let all = Route::Read(Reading::Ports(PortFilter::default()));
    for query in ["", "active=False", "external=false"] {
        let found = route("GET", "/resources/ports", query);
        assert_eq!(found.as_ref(), Ok(&all), "{query}");
    }
    let list = Asked::RemoveGuidsOf(5, "a,b".to_owned());
    assert_eq!(
        route("DELETE", "/resources/pkeys/0x5/guids/a%2Cb", ""),
        Ok(Route::Change(list))
    );
}

#[test]
fn unknown_routes_are_not_found_and_wrong_values_are_bad_requests() {
    for (method, path, query, code) in [
        ("GET", "", "", 404),
        ("PATCH", "/resources/pkeys", "", 404),
        ("DELETE", "/resources/pkeys", "", 404),
        ("GET", "/app/users", "", 404),
        ("GET", "/resources/pkeys/0x5/guids", "", 404),
        ("GET", "/resources/pkeys/5", "", 400),
        ("DELETE", "/resources/pkeys/0x0", "", 400),
        ("GET", "/resources/ports", "sys_type=%ff", 400),
        ("GET", "/resources/ports", "high_ber_only=true", 400),
        ("GET", "/resources/ports", "active=1", 400),
        ("GET", "/resources/ports", "active", 400),
        ("GET", "/resources/ports", "external=true", 400),
        ("GET", "/resources/pkeys", "guids_data=yes", 400),
        ("GET", "/resources/pkeys/0x5", "qos_conf=", 400),
        ("GET", "/resources/ports", "page_number=1&rpp=20", 400),
        ("GET", "/resources/links", "page_number=1", 400),
        ("GET", "/resources/systems", "type=gateway", 400),
        ("GET", "/jobs/-1", "", 400),
        ("POST", "/jobs/abortall", "", 404),
    ] {
        let refused = route(method, path, query).expect_err(path);
        assert_eq!(refused.as_u16(), code, "{method} {path}");
    }
}

#[test]
fn every_change_needs_the_right_to_change_partitions() {
    for (method, path) in [
        ("POST", "/resources/pkeys"),
        ("PUT", "/resources/pkeys"),
        ("POST", "/resources/pkeys/add"),
        ("POST", "/resources/pkeys/hosts"),
        ("PUT", "/resources/pkeys/qos_conf"),
        ("POST", "/resources/pkeys/qos_conf"),
        ("POST", "/actions/remove_guids_from_pkey"),
        ("DELETE", "/resources/pkeys/0x5"),
        ("DELETE", "/resources/pkeys/0x5/guids/1"),
        ("DELETE", "/resources/pkeys/0x5/hosts/n1"),
    ] {
        let need = route(method, path, "").map(|route| route.need());
        assert_eq!(need, Ok(Need::ChangePartitions), "{method} {path}");
    }
    for path in [
        "/app/smconf",
        "/app/events",
        "/app/unhealthy_ports",
        "/resources/ports",
        "/resources/links",
        "/resources/systems",
    ] {
        let need = route("GET", path, "").map(|route| route.need());
        assert_eq!(need, Ok(Need::Read), "{path}");
    }
}

#[test]
fn jobs_are_numbered_and_the_oldest_are_dropped() {
    let jobs = Jobs::default();
    for _ in 0..=MAX_UFM_JOBS {
        jobs.completed(5, 2, "kube");
    }
    let all = Grant::everything();
    assert_eq!(
        jobs.shown(&all, Some(1)).map_err(|(code, _)| code.as_u16()),
        Err(404)
    );
    let last = jobs.shown(&all, Some(1001)).expect("it is the latest");
    assert_eq!(
        (&last["ID"], &last["CreatedBy"]),
        (&"1001".into(), &"kube".into())
    );
    let shown = jobs.shown(&all, None).expect("they are shown");
    assert_eq!(shown.as_array().map(Vec::len), Some(MAX_UFM_JOBS));
    let tenant = Grant::tenant([6..=7]);
    assert_eq!(jobs.shown(&tenant, None), Ok(serde_json::json!([])));
    assert!(jobs.shown(&tenant, Some(1001)).is_err());
}

#[test]
fn names_of_systems_are_guid_description_or_first_word() {
    for (name, named) in [
        ("0002c90300001234", true),
        ("0x0002C90300001234", true),
        ("host-1 mlx5_0", true),
        ("host-1", true),
        ("host", false),
        ("", false),
    ] {
        let is_named = is_named(name, "0x0002c90300001234", "host-1 mlx5_0");
        assert_eq!(is_named, named, "{name}");
    }
}

#[test]
fn drained_ports_have_the_condition_manual_and_isolated_ports_unhealthy() {
    let mut port = v1::Port {
        key: Some(v1::PortKey {
            node_guid: "0x0002c90300001234".to_owned(),
            number: 7,
        }),
        node_description: "leaf-1".to_owned(),
        ..v1::Port::default()
    };
    assert_eq!(shown_unhealthy(&port, None), None);
    for (avoidance, condition) in [
        (v1::Avoidance::Drained, "MANUAL"),
        (v1::Avoidance::DrainedInUse, "MANUAL"),
        (v1::Avoidance::Isolated, "UNHEALTHY"),
    ] {
        port.set_avoidance(avoidance);
        let shown = shown_unhealthy(&port, Some(0)).expect("routes go around it");
        assert_eq!(shown["Condition"], condition);
        assert_eq!(shown["UnhealthyPort"], "leaf-1/7");
        assert_eq!(shown["UnhealthyGUID"], "0002c90300001234");
    }
}

#[test]
fn node_events_have_the_numbers_of_ufm_and_route_events_are_left_out() {
    let node = v1::Node {
        guid: "0x0002c90300001234".to_owned(),
        description: "host-1 mlx5_0".to_owned(),
        ..v1::Node::default()
    };
    let event = |change| v1::Event {
        sequence: 9,
        at_unix_ms: 1_000,
        change: Some(change),
        ..v1::Event::default()
    };
    let shown = shown_event(&event(Change::NodeVanished(node))).expect("it is shown");
    assert_eq!(shown["type"], "331");
    assert_eq!(shown["timestamp"], "1970-01-01 00:00:01");
    assert_eq!(shown["object_name"], "0002c90300001234");
    let routes = Change::RoutesChanged(v1::RoutesChanged::default());
    assert_eq!(shown_event(&event(routes)), None);
}

#[test]
fn p_keys_are_hexadecimal_and_their_membership_bit_is_dropped() {
    for (text, key) in [
        ("0x5", Some(5)),
        ("0x0005", Some(5)),
        ("0X8005", Some(5)),
        ("0xffff", Some(0x7fff)),
        ("0x0", None),
        ("0x8000", None),
        ("0x10005", None),
        ("0x", None),
        ("0x+5", None),
        ("5", None),
        ("", None),
    ] {
        assert_eq!(p_key(text).ok(), key, "{text}");
    }
}

#[test]
fn escapes_have_two_digits_and_must_form_utf_8() {
    assert_eq!(unescaped("a%2cb+c").as_deref(), Ok("a,b+c"));
    assert_eq!(form_unescaped("a%2Bb+c").as_deref(), Ok("a+b c"));
    assert_eq!(unescaped("%C3%BC").as_deref(), Ok("ü"));
    for wrong in ["%", "%4", "%4g", "%+1", "%ff"] {
        assert!(unescaped(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn members_have_the_common_membership_or_one_each() {
    let text = br#"{"pkey":"0x5","index0":true,"membership":"limited","more":[1],
        "guids":["0002c90300001234","0x0002C90300001235"]}"#;
    let (key, members, _) = membership(text).expect("it is right");
    assert_eq!(key, 5);
    let wanted = members.wanted_members().expect("they are right");
    let first = MemberName::Guid(Guid(0x0002_c903_0000_1234));
    assert_eq!(wanted[0].port, first);
    assert!(
        wanted
            .iter()
            .all(|one| one.membership == Membership::Limited && one.index0)
    );
    let text = br#"{"pkey":"0x5","guids":["0002c90300001234"],"memberships":["both"]}"#;
    let (_, members, settings) = membership(text).expect("it is right");
    assert_eq!(
        members.wanted_members().expect("they are right")[0].membership,
        Membership::Both
    );
    let settings = settings.of_new(5).expect("they are right");
    assert_eq!(
        (settings.name.as_str(), settings.ipoib),
        ("api_pkey_0x5", true)
    );
}

#[test]
fn hosts_and_quality_of_service_are_read_and_checked() {
    let text = br#"{"pkey":"0x5","hosts_names":"n1, n2,","index0":false,"ip_over_ib":false}"#;
    let (_, wanted, settings) = hosts(text).expect("it is right");
    let names: Vec<&MemberName> = wanted.iter().map(|one| &one.port).collect();
    let host = |name: &str| MemberName::Host(name.to_owned());
    assert_eq!(names, [&host("n1"), &host("n2")]);
    assert!(!settings.of_new(5).expect("they are right").ipoib);
    assert!(host_names(&"x".repeat(65)).is_err() && host_names(" , ").is_err());
    let text = br#"{"pkey":"0x5","mtu_limit":4,"service_level":3,"rate_limit":2.5}"#;
    let (_, settings) = qos(text).expect("it is right");
    let settings = settings.of_new(5).expect("they are right");
    assert_eq!((settings.mtu_bytes, settings.rate_tenth_gbps), (4096, 25));
    assert_eq!(settings.service_level, 3);
    for wrong in [
        r#"{"pkey":"0x5","mtu_limit":8}"#,
        r#"{"pkey":"0x5","service_level":16}"#,
        r#"{"pkey":"0x5","rate_limit":-1}"#,
        r#"{"pkey":"0x5","rate_limit":1e300}"#,
        r#"{"pkey":"0x5","rate_limit":2.55}"#,
    ] {
        let (_, settings) = qos(wrong.as_bytes()).expect("it is JSON");
        assert!(settings.of_new(5).is_err(), "{wrong}");
    }
    for wrong in [
        "",
        "null",
        "[]",
        "{\"pkey\":5}",
        "{\"pkey\":\"0x5\",\"guids\":\"a\"}",
    ] {
        assert!(membership(wrong.as_bytes()).is_err(), "{wrong}");
    }
}
