//! Slow links: the findings, `rsmctl slow`, `rsmctl links` and the page name the same links.

use std::collections::BTreeSet;

use rsm_ids::PortNum;
use rsm_routing::generate::generate;
use rsm_routing::ibnetdiscover;
use rsm_routing::netlist::{Cable, LinkSpeed, LinkWidth, Netlist};
use rsm_tests::peer::require_peers;
use rsm_tests::web::{Browser, Colours, PEERS, Site, get, write};
use serde_json::Value;

/// The slow links of [`netlist`]: the nodes at the ends, and why the link is slow in the text of
/// `rsmctl slow`.
const SLOW: [([&str; 2], &str); 2] = [
    (
        ["leaf-04", "spine-02"],
        "most of its siblings carry 200 Gb/s",
    ),
    (["host-006", "leaf-02"], "both ends could have 4x hdr"),
];

/// Six leaves with four hosts each (ports 1 to 4) below two spines (ports 5 and 6), all HDR with
/// three exceptions: a cable of one leaf is EDR; another leaf and its hosts support EDR only, which
/// is no fault; and a host has a second cable that is EDR between ports that support HDR.
fn netlist() -> Netlist {
    let netlist = generate("pgft:2;4,6;1,2;1,1").expect("it is a fabric");
    let node = |text: &str| {
        let mut nodes = netlist.nodes().iter();
        let found = nodes.position(|node| node.name().contains(text));
        found.expect("it is there")
    };
    let [leaf_2, leaf_3, leaf_4, host] = ["leaf-02", "leaf-03", "leaf-04", "host-006"].map(node);
    let (mut nodes, mut cables) = netlist.into_parts();
    let old_leaf = (1..=6).map(|port| (leaf_3, PortNum(port)));
    for end in old_leaf.chain([(leaf_4, PortNum(6))]) {
        let cable = cables
            .iter_mut()
            .find(|cable| [cable.a, cable.b].contains(&end));
        cable.expect("it is cabled").speed = LinkSpeed::Edr;
    }
    nodes[host].num_ports = 2;
    nodes[leaf_2].num_ports = nodes[leaf_2].num_ports.max(7);
    let (a, b) = ((leaf_2, PortNum(7)), (host, PortNum(2)));
    cables.push(Cable {
        a: a.min(b),
        b: a.max(b),
        width: LinkWidth::X4,
        speed: LinkSpeed::Edr,
    });
    Netlist::new(nodes, cables).expect("it is a fabric")
}

/// An rsm on the fabric of [`netlist`].
fn site() -> Site {
    let directory = tempfile::tempdir().expect("there is room for a folder");
    let file = directory.path().join("fabric.txt");
    let mut text = Vec::new();
    ibnetdiscover::write(&netlist(), &mut text).expect("it fits into memory");
    write(&file, &text);
    Site::start(&file.display().to_string())
}

/// The JSON output of an `rsmctl` command.
fn json(site: &Site, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--format", "json"]].concat();
    serde_json::from_str(&site.printed(&arguments)).expect("it is JSON")
}

/// The GUIDs at the ends of a link, ascending.
fn guids(link: &Value) -> [String; 2] {
    let guid = |end: &str| {
        link[end]["port"]["node_guid"]
            .as_str()
            .expect("a GUID")
            .to_owned()
    };
    let mut ends = [guid("a"), guid("b")];
    ends.sort();
    ends
}

#[test]
fn findings_commands_and_graph_name_the_same_slow_links() {
    let site = site();
    let links = json(&site, &["links"]);
    let links = links.as_array().expect("a list");
    let names = |link: &Value| ["a", "b"].map(|end| link[end]["description"].to_string());
    let expected = SLOW.map(|(ends, _)| {
        let is_it = |link: &&Value| {
            let names = names(link);
            let has = |end: &&str| names.iter().any(|name| name.contains(*end));
            let is_slow = link["speed"] == "edr";
            ends.iter().all(has) && is_slow
        };
        links.iter().find(is_it).expect("it is there")
    });
    let expected: BTreeSet<[String; 2]> = expected.into_iter().map(guids).collect();
    assert_eq!(expected.len(), SLOW.len());

    let findings = json(&site, &["findings"]);
    let findings = findings.as_array().expect("a list").iter();
    let found = findings
        .filter(|one| one["kind"] == "link-slow")
        .map(|one| {
            let is_end = |end: &Value| {
                end["port"]["node_guid"] == one["node_guid"] && end["port"]["number"] == one["port"]
            };
            let link = links
                .iter()
                .find(|link| is_end(&link["a"]) || is_end(&link["b"]));
            guids(link.expect("the finding names a link"))
        });
    assert_eq!(found.collect::<BTreeSet<_>>(), expected);

    let listed = json(&site, &["links", "--slow"]);
    let listed = listed.as_array().expect("a list").iter();
    assert_eq!(listed.map(guids).collect::<BTreeSet<_>>(), expected);
    let filtered = get(site.address(), "/api/v1/links?slow=true").json();
    let filtered = filtered["links"].as_array().expect("a list").iter();
    assert_eq!(filtered.map(guids).collect::<BTreeSet<_>>(), expected);

    let slow = json(&site, &["slow"]);
    let slow = slow.as_array().expect("a list").iter();
    let slow: Vec<&Value> = slow.filter(|one| one["kind"] == "link").collect();
    assert_eq!(slow.len(), SLOW.len(), "{slow:?}");
    for (ends, wanted) in SLOW {
        let is_it = |one: &&&Value| {
            let place = one["place"].as_str().unwrap_or_default();
            ends.iter().all(|end| place.contains(end))
        };
        let one = slow.iter().find(is_it);
        let one = one.unwrap_or_else(|| panic!("{ends:?} is not in {slow:?}"));
        let text = one["text"].as_str().unwrap_or_default();
        assert!(
            text.starts_with("4x edr, while ") && text.contains(wanted),
            "{text}"
        );
    }

    // The page draws bundles of links between switches, and counts links to hosts at their leaf.
    let graph = get(site.address(), "/api/v1/graph").json();
    let guid = |index: &Value| {
        let index = index.as_u64().expect("an index") as usize;
        graph["switches"]["guid"][index]
            .as_str()
            .expect("a GUID")
            .to_owned()
    };
    let bundles = graph["links"].as_array().expect("a list").chunks(5);
    let drawn: BTreeSet<[String; 2]> = bundles
        .filter(|bundle| bundle[4] == 2)
        .map(|bundle| {
            let mut ends = [guid(&bundle[0]), guid(&bundle[1])];
            ends.sort();
            ends
        })
        .collect();
    let between = links.iter().filter(|link| {
        let kinds = ["a", "b"].map(|end| link[end]["kind"] == "switch");
        kinds == [true, true] && expected.contains(&guids(link))
    });
    assert_eq!(drawn, between.map(guids).collect());
    let bad = graph["switches"]["hosts_bad"]
        .as_array()
        .expect("a list")
        .iter();
    assert_eq!(bad.filter_map(Value::as_u64).sum::<u64>(), 1);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn page_lists_only_the_slow_links_if_they_are_selected() {
    if !require_peers(PEERS) {
        return;
    }
    let site = site();
    let browser = Browser::start(1400, 900, Colours::Light);
    site.open(&browser, "links");
    browser.find(".page table tbody tr");
    let choose = "const one = document.querySelector('select[aria-label=\"Which links\"]'); \
        one.value = 'slow'; one.dispatchEvent(new Event('change'))";
    let _ = browser.run(choose);
    let rows = "const rows = [...document.querySelectorAll('.page table tbody tr')]; \
        return rows.length === 2 ? rows.map((row) => row.innerText) : null";
    let rows = browser.wait("two rows", rows);
    let rows: Vec<&str> = rows
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for (ends, _) in SLOW {
        let has = |row: &&&str| ends.iter().all(|end| row.contains(end));
        let row = rows.iter().find(has);
        let row = row.unwrap_or_else(|| panic!("{ends:?} is not in {rows:?}"));
        assert!(row.contains("slow"), "{row}");
    }
    browser.assert_no_complaints();
}
