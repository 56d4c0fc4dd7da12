//! The page in Chromium, and metrics checked by promtool.

use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::fabrics::real_topologies;
use rsm_tests::peer::require_peers;
use rsm_tests::process::Invocation;
use rsm_tests::web::{Browser, Colours, Element, PEERS, Site, get, plain_name, write};
use serde_json::json;

/// The views beside the picture of the fabric, as addresses name them.
pub(crate) const VIEWS: [&str; 9] = [
    "overview",
    "findings",
    "report",
    "history",
    "links",
    "partitions",
    "what-if",
    "gpu-hosts",
    "path",
];

/// The key Enter in WebDriver's numbering.
const ENTER: &str = "\u{e007}";

/// A configuration in which rsm reads counters every second.
const COUNTERS: &str = "[counters]\nenabled = true\ninterval_s = 1\nports_interval_s = 1\n";

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// A script that returns whether the first picture is drawn.
const DRAWN: &str = "return document.documentElement.dataset.firstPicture";

fn open(site: &Site, browser: &Browser, view: &str) {
    browser.open(&format!("http://{}/#/{view}", site.address()));
}

fn assert_no_complaints(browser: &Browser) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn an_operator_finds_a_host_opens_a_leaf_and_sees_a_path_and_a_change() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start("superpod");
    let browser = Browser::start(1400, 900, Colours::Light);
    open(&site, &browser, "fabric");
    browser.wait("a picture", DRAWN);
    browser.wait(
        "the state",
        "return document.querySelector('#strip').innerText.includes('up')",
    );

    let hosts = get(site.address(), "/api/v1/nodes?kind=ca&page_size=3").json();
    let host = |at: usize| {
        hosts["nodes"][at]["description"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let guid = |at: usize| hosts["nodes"][at]["guid"].as_str().unwrap().to_owned();
    let find = browser.find("#find");
    browser.type_into(&find, &guid(1));
    browser.find("#found li[role=option]");
    browser.type_into(&find, ENTER);
    let shown = format!(
        "return document.querySelector('.side h2')?.innerText.includes({})",
        json!(host(1))
    );
    browser.wait("the host", &shown);

    let leaf: Element = browser.find(".side .list button");
    browser.click(&leaf);
    browser.wait(
        "hosts of the leaf",
        "return document.querySelectorAll('.side .hosts li').length > 1",
    );

    open(
        &site,
        &browser,
        &format!("path?from={}&to={}", guid(0), guid(2)),
    );
    browser.wait(
        "hops",
        "return document.querySelectorAll('.hops li').length >= 3",
    );
    assert!(browser.text(".tag.good").contains("delivered"));

    open(&site, &browser, "fabric");
    browser.wait("a picture", DRAWN);
    let links = get(site.address(), "/api/v1/links?between_switches=true").json();
    let end = &links["links"][0]["a"]["port"];
    let node = end["node_guid"].as_str().unwrap();
    site.rsmctl(&["sim", "unlink", node, &end["number"].to_string()]);
    browser.wait(
        "the missing cable, without a reload",
        "return document.querySelector('.legend').innerText.includes('1 gone') \
         && document.querySelector('#strip').innerText.includes('1 cable missing')",
    );
    for view in [
        "overview",
        "findings",
        "report",
        "history",
        "links",
        "partitions",
        "what-if",
        "gpu-hosts",
    ] {
        open(&site, &browser, view);
        browser.wait(view, "return document.querySelector('.page h1') !== null && document.querySelector('.page .error') === null");
    }
    assert_no_complaints(&browser);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn errors_of_a_cable_colour_its_link_and_put_it_first_in_the_table_of_links() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start_with("superpod", COUNTERS);
    let browser = Browser::start(1400, 900, Colours::Light);
    let links = get(site.address(), "/api/v1/links?between_switches=true").json();
    let end = &links["links"][0]["a"];
    let (node, port) = (&end["port"]["node_guid"], &end["port"]["number"]);
    let (node, port) = (node.as_str().unwrap(), port.to_string());
    site.rsmctl(&["sim", "errors", node, &port, "SymbolErrorCounter", "50"]);
    open(&site, &browser, "fabric");
    browser.wait("a picture", DRAWN);
    let _ = browser.run(
        "const choice = document.querySelector('.legend select'); choice.value = 'errors'; \
         choice.dispatchEvent(new Event('change'))",
    );
    browser.wait(
        "links by errors",
        "return document.documentElement.dataset.painted === 'errors'",
    );
    browser.wait(
        "one link with many errors",
        "return document.querySelector('.legend').innerText.includes('1 120 and more')",
    );
    open(&site, &browser, "links");
    let _ = browser.run(
        "const choice = document.querySelector('.bar select'); choice.value = 'errors'; \
         choice.dispatchEvent(new Event('change'))",
    );
    let first = format!(
        "return document.querySelector('.page tbody tr')?.innerText.includes({})",
        json!(end["description"].as_str().map(plain_name))
    );
    browser.wait("the port with errors", &first);
    let row = browser.text(".page tbody tr");
    assert!(row.contains("SymbolErrorCounter"), "{row}");
    assert_no_complaints(&browser);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn descriptions_of_hostile_devices_are_shown_as_text() {
    if !require_peers(PEERS) {
        return;
    }
    const IMAGE: &str = "<img src=x onerror=alert(1)>";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hostile.net");
    let text = format!(
        "Switch 4 \"S1\" # \"{IMAGE}\"\n[1] \"H1\"[1]\n[2] \"H2\"[1]\n\n\
         Ca 1 \"H1\" # \"\u{202e}reversed\"\n[1] \"S1\"[1]\n\n\
         Ca 1 \"H2\" # \"';|</script><b>`$(x){{}}\"\n[1] \"S1\"[2]\n"
    );
    write(&file, text.as_bytes());
    let site = Site::start(&file.display().to_string());
    let browser = Browser::start(1000, 700, Colours::Dark);
    open(&site, &browser, "fabric");
    browser.wait("a picture", DRAWN);
    let switches = get(site.address(), "/api/v1/nodes?kind=switch").json();
    let guid = switches["nodes"][0]["guid"].as_str().unwrap();
    assert_eq!(switches["nodes"][0]["description"], IMAGE);
    open(&site, &browser, &format!("fabric/{guid}"));
    browser.wait(
        "both hosts",
        "return document.querySelectorAll('.side .hosts li').length === 2",
    );
    let text = browser.text(".side");
    assert!(text.contains(IMAGE), "{text}");
    assert!(text.contains("\\u{202e}reversed"), "{text}");
    assert!(text.contains("</script><b>"), "{text}");
    let made = "return document.querySelectorAll('main img, main b:not(.side b, .legend b), main script').length";
    assert_eq!(browser.run(made), json!(0));
    assert_no_complaints(&browser);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs prometheus")]
fn promtool_accepts_the_metrics_of_each_scrape() {
    if !require_peers(&["promtool"]) {
        return;
    }
    let site = Site::start_with("superpod", COUNTERS);
    let links = get(site.address(), "/api/v1/links?between_switches=true").json();
    let end = &links["links"][0]["a"]["port"];
    let (node, port) = (end["node_guid"].as_str().unwrap(), &end["number"]);
    let errors = [
        "sim",
        "errors",
        node,
        &port.to_string(),
        "SymbolErrorCounter",
        "9",
    ];
    site.rsmctl(&errors);
    let counted = wait_for_every(POLL, LIMIT, || {
        let metrics = get(site.address(), "/metrics").text();
        metrics
            .contains("\ninfiniband_switch_port_symbol_error_total{")
            .then_some(())
    });
    assert!(
        counted.is_some(),
        "{}",
        get(site.address(), "/metrics").text()
    );
    for path in [
        "/metrics",
        "/metrics?detail=ports",
        "/metrics?detail=ports&shard=2/3",
    ] {
        let answer = get(site.address(), path);
        assert_eq!(answer.status, 200);
        let has_ports = answer.text().contains("port_transmit_data_bytes_total{");
        assert_eq!(has_ports, path.contains("detail"), "{path}");
        let file = site.directory().join("metrics.txt");
        write(&file, &answer.body);
        let promtool = Invocation::new("sh", site.directory());
        let promtool = promtool.args(["-c", "promtool check metrics < metrics.txt"]);
        let checked = promtool.run(LIMIT).unwrap();
        assert!(
            checked.status.success(),
            "{path}: {}{}",
            checked.stdout,
            checked.stderr
        );
    }
}

#[test]
#[cfg_attr(not(peers), ignore = "needs prometheus")]
fn alerts_fire_only_for_their_faults() {
    if !require_peers(&["promtool"]) {
        return;
    }
    let rules = binaries::workspace().join("packaging/prometheus");
    for arguments in [
        ["check", "rules", "rsm.rules.yml"],
        ["test", "rules", "rsm.test.yml"],
    ] {
        let promtool = Invocation::new("promtool", &rules).args(arguments);
        let checked = promtool.run(LIMIT).unwrap();
        assert!(
            checked.status.success(),
            "{arguments:?}: {}{}",
            checked.stdout,
            checked.stderr
        );
    }
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
#[expect(clippy::print_stderr, reason = "a test that checks nothing says so")]
fn a_real_fabric_is_drawn_in_both_colours_and_on_a_narrow_screen() {
    if !require_peers(PEERS) {
        return;
    }
    let mut files = real_topologies().unwrap().into_iter();
    let selene = files.find(|file| file.ends_with("nvidia-selene-compute.txt"));
    let Some(selene) = selene else {
        eprintln!("no ../shared/data/topologies: not drawn");
        return;
    };
    // The first plan of this fabric takes half a minute in a debug build on a busy machine.
    let site = Site::start_within(LIMIT * 5, selene.to_str().unwrap(), "");
    for (width, colours) in [
        (1400, Colours::Light),
        (1400, Colours::Dark),
        (420, Colours::Dark),
    ] {
        let browser = Browser::start(width, 900, colours);
        open(&site, &browser, "fabric");
        browser.wait("a picture", DRAWN);
        let overflow = browser.run(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth",
        );
        assert!(
            overflow.as_i64().is_some_and(|pixels| pixels <= 0),
            "{width}: {overflow}"
        );
        for view in [
            "overview",
            "findings",
            "report",
            "history",
            "links",
            "partitions",
            "what-if",
            "gpu-hosts",
        ] {
            open(&site, &browser, view);
            browser.wait(view, "return document.querySelector('.page h1') !== null && document.querySelector('.page .error') === null");
        }
        assert_no_complaints(&browser);
    }
}

/// The node GUID of one end of the last link in the server's list.
fn end_of_last_link(site: &Site) -> String {
    let mut token = String::new();
    loop {
        let path = format!("/api/v1/links?page_size=1000&page_token={token}");
        let page = get(site.address(), &path).json();
        token = page["next_page_token"].as_str().unwrap().to_owned();
        if token.is_empty() {
            let last = page["links"].as_array().and_then(|links| links.last());
            let end = &last.expect("a page is not empty")["a"]["port"]["node_guid"];
            return end.as_str().unwrap().to_owned();
        }
    }
}

/// Opens the table of all links, and finds the last link by its GUID.
fn find_last_link(site: &Site, browser: &Browser) {
    open(site, browser, "links");
    browser.find(".page .bar select");
    let _ = browser.run(
        "const choice = document.querySelector('.bar select'); choice.value = 'all'; \
         choice.dispatchEvent(new Event('change'))",
    );
    browser.wait(
        "the first links alone",
        "return document.querySelector('.page .bar .next') !== null",
    );
    let guid = end_of_last_link(site);
    browser.type_into(&browser.find(".page .bar input"), &guid.to_uppercase());
    let shown = format!(
        "return document.querySelector('.page .bar .next') === null && \
         document.querySelector('.page tbody a[href=\"#/fabric/{guid}\"]') !== null"
    );
    browser.wait("the last link", &shown);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn links_beyond_the_first_thousands_are_found_by_name_and_read_on_demand() {
    if !require_peers(PEERS) {
        return;
    }
    // The fabric has 2,000 hosts, and as many links between any two levels.
    let site = Site::start("fat-tree:k=20,levels=3");
    let browser = Browser::start(1400, 900, Colours::Light);
    find_last_link(&site, &browser);
    let _ = browser.run(
        "const text = document.querySelector('.page .bar input'); text.value = ''; \
         text.dispatchEvent(new Event('input'))",
    );
    let next = browser.find(".page .bar .next");
    browser.click(&next);
    browser.wait(
        "all links",
        "return /6.?000 links/.test(document.querySelector('.page .bar').innerText) && \
         document.querySelector('.page .bar .next') === null",
    );
    assert_no_complaints(&browser);
}

/// Run with `cargo test --workspace --test system page_of_45056_hosts -- --ignored --nocapture`;
/// writes pictures into RSM_PICTURES if that is set.
#[test]
#[expect(clippy::print_stdout, reason = "a measurement shows its figures")]
#[ignore = "minutes: brings up 45,056 hosts, and draws them in Chromium"]
fn page_of_45056_hosts_is_drawn_and_searched() {
    let site = Site::start_within(LIMIT * 30, "pgft:3;32,32,44;1,32,16;1,1,2", "");
    let browser = Browser::start(1400, 900, Colours::Light);
    open(&site, &browser, "fabric");
    let time = browser.wait("a picture", DRAWN);
    println!("first picture after {time} ms of the page's time");
    let pictures = std::env::var("RSM_PICTURES").map(std::path::PathBuf::from);
    let picture = |name: &str| {
        let folder = pictures.clone();
        let file = folder.unwrap_or(site.directory().to_owned()).join(name);
        browser.screenshot(&file);
        let size = std::fs::metadata(&file).map_or(0, |file| file.len());
        assert!(size > 20_000, "{name}: {size} bytes");
    };
    picture("45056-fabric.png");
    let hosts = get(site.address(), "/api/v1/nodes?kind=ca&page_size=1").json();
    let host = hosts["nodes"][0]["guid"].as_str().unwrap();
    browser.type_into(&browser.find("#find"), host);
    browser.find("#found li[role=option]");
    browser.type_into(&browser.find("#find"), ENTER);
    browser.wait(
        "the host",
        "return document.querySelector('.side h2') !== null",
    );
    picture("45056-host.png");
    find_last_link(&site, &browser);
    picture("45056-links.png");
    assert_no_complaints(&browser);
}

/// Run with `RSM_PAGE=127.0.0.1:9316 RSM_PICTURES=folder cargo test --test system -- --ignored
/// pictures_of`.
#[test]
#[expect(clippy::print_stdout, reason = "a measurement shows its figures")]
#[ignore = "draws the page of the rsm at RSM_PAGE, with pictures of its views into RSM_PICTURES"]
fn pictures_of_a_running_rsm() {
    let (page, folder) = (std::env::var("RSM_PAGE"), std::env::var("RSM_PICTURES"));
    let (Ok(page), Ok(folder)) = (page, folder) else {
        panic!("expected RSM_PAGE and RSM_PICTURES");
    };
    let folder = std::path::PathBuf::from(folder);
    for (name, width, height, colours) in [
        ("light", 1400, 900, Colours::Light),
        ("dark", 1400, 900, Colours::Dark),
        ("narrow", 420, 900, Colours::Light),
    ] {
        let browser = Browser::start(width, height, colours);
        browser.open(&format!("http://{page}/#/fabric"));
        let time = browser.wait("a picture", DRAWN);
        println!("{name}: first picture after {time} ms of the page's time");
        std::thread::sleep(Duration::from_secs(2));
        browser.screenshot(&folder.join(format!("{name}-fabric.png")));
        for view in VIEWS {
            browser.open(&format!("http://{page}/#/{view}"));
            browser.wait(view, "return document.querySelector('.page h1') !== null");
            std::thread::sleep(Duration::from_secs(1));
            browser.screenshot(&folder.join(format!("{name}-{view}.png")));
        }
    }
}
