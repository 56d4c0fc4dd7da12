//! The page in Chromium: the overview with its charts, panels of ports and switches, findings by
//! cause, and the report on screen and on paper.

use std::time::Duration;

use rsm_tests::clock::wait_for_every;
use rsm_tests::peer::require_peers;
use rsm_tests::web::{Browser, Colours, PEERS, Site, get, write};
use serde_json::{Value, json};

use crate::peers_web::VIEWS;

/// A fabric of four leaves with four hosts each below two spines.
const TREE: &str = "pgft:2;4,4;1,2;1,1";

/// A configuration in which rsm reads counters every second.
const COUNTERS: &str =
    "[counters]\nenabled = true\ninterval_s = 1\nports_interval_s = 1\nadapters_interval_s = 1\n";

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// A script that returns whether the first element of a selector has this text.
fn shows(selector: &str, text: &str) -> String {
    format!(
        "return document.querySelector({})?.innerText.includes({})",
        json!(selector),
        json!(text)
    )
}

/// A script that returns whether an element of a selector has this text.
fn any_shows(selector: &str, text: &str) -> String {
    format!(
        "return [...document.querySelectorAll({})].some((one) => one.innerText.includes({}))",
        json!(selector),
        json!(text)
    )
}

/// The GUID of the node with this text in its description.
fn guid(site: &Site, name: &str) -> String {
    let node = get(site.address(), &format!("/api/v1/node?node={name}")).json();
    let guid = node["node"]["guid"].as_str();
    guid.unwrap_or_else(|| panic!("{node}")).to_owned()
}

/// Waits until the stored counter history has errors of `part`; returns the sum of these errors.
fn wait_for_past(site: &Site, part: &str) -> u64 {
    let path = format!("/api/v1/counter-series?part={part}&since_unix_ms=1000");
    let errors = |series: &Value| {
        let steps = series["steps"].as_array()?.iter();
        let errors = steps.filter_map(|step| step["errors"].as_array()).flatten();
        let sum: u64 = errors.filter_map(|error| error["count"].as_u64()).sum();
        (sum > 0).then_some(sum)
    };
    let found = wait_for_every(POLL, LIMIT, || errors(&get(site.address(), &path).json()));
    found.unwrap_or_else(|| panic!("{}", get(site.address(), &path).text()))
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn the_start_page_shows_causes_charts_changes_and_managers() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start_with(TREE, COUNTERS);
    site.rsmctl(&["sim", "errors", "leaf-01:6", "SymbolErrorCounter", "50"]);
    for host in ["host-006", "host-007", "host-008"] {
        site.rsmctl(&["sim", "power-off", host]);
    }
    site.rsmctl(&["sim", "power-off", "spine-01"]);
    wait_for_past(&site, "leaf-01:6");
    let browser = Browser::start(1440, 900, Colours::Light);
    browser.open(&format!("http://{}/", site.address()));
    browser.wait("the overview", &shows("#tabs a[aria-current]", "Overview"));
    browser.wait("the state", &shows(".card.state", "1 switch"));
    browser.wait("one cause for three hosts", &any_shows(".cause", "×3"));
    browser.wait("the switch", &any_shows(".cause", "switch missing"));
    let order = "return [...document.querySelectorAll('.cause .tag')].map((tag) => tag.innerText)";
    let rank = |severity: &Value| {
        ["error", "warning", "info"]
            .iter()
            .position(|one| severity == one)
    };
    let severities = browser.run(order);
    let ranks: Vec<_> = severities
        .as_array()
        .expect("a list")
        .iter()
        .map(rank)
        .collect();
    assert!(ranks.is_sorted() && !ranks.contains(&None), "{severities}");
    browser.wait("last changes", &any_shows(".changes li", "node lost"));
    browser.wait("this manager", &shows(".managers", "master"));
    browser.wait(
        "no standby",
        &any_shows(".overview p", "No other manager stands by"),
    );

    browser.wait(
        "charts",
        "return document.documentElement.dataset.charted === 'fabric'",
    );
    browser.wait(
        "errors by counter",
        &any_shows(".totals li", "SymbolErrorCounter"),
    );
    let bars = "return document.querySelector('.chart path.bars').getAttribute('d').length > 0";
    assert_eq!(browser.run(bars), json!(true));
    // Symbols that error correction repaired, and errors that a remote port caused, do not count as
    // errors of the port.
    let errors = "return import('/past.js').then(({ errorsIn }) => errorsIn({ errors: [ \
        { name: 'PortFECCorrectedSymbolCtr', count: 5000 }, { name: 'SymbolErrorCounter', count: 2 }, \
        { name: 'PortRcvRemotePhysicalErrors', count: 7 }, \
        { name: 'PortRcvSwitchRelayErrors', count: 9 }] }))";
    assert_eq!(browser.run(errors), json!(2));
    // The pointer over a chart reads the step below it.
    let read = "const plot = [...document.querySelectorAll('.chart')].find((one) => one.innerText.includes('Errors')).querySelector('.plot'); \
        const box = plot.getBoundingClientRect(); \
        plot.dispatchEvent(new PointerEvent('pointermove', { clientX: box.right - 1 })); \
        return plot.previousElementSibling.innerText";
    let read = browser.run(read);
    assert!(
        read.as_str().is_some_and(|text| text.contains("errors")),
        "{read}"
    );

    // A part of a cause leads to its port or node.
    let part = "const part = [...document.querySelectorAll('.cause .part')].find((one) => one.innerText.includes('host-007')); \
        part.click(); return true";
    let _ = browser.run(part);
    browser.wait("where it was", &shows(".side", "was at leaf-02 port 3"));
    let complaints = browser.complaints();
    assert!(
        complaints.iter().all(|one| one.contains("404")),
        "{complaints:?}"
    );
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn a_finding_leads_to_its_port_with_counters_partitions_history_and_charts() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start_with(TREE, COUNTERS);
    let leaf = guid(&site, "leaf-01");
    site.rsmctl(&["sim", "errors", "leaf-01:5", "SymbolErrorCounter", "50"]);
    for counter in ["PortXmitData", "PortRcvData"] {
        site.rsmctl(&["sim", "errors", "leaf-01:5", counter, "1000000"]);
    }
    wait_for_past(&site, "leaf-01:5");
    let browser = Browser::start(1440, 900, Colours::Dark);
    site.open(&browser, "findings");
    let link =
        format!("return document.querySelector('.page tbody .part[href=\"#/fabric/{leaf}:5\"]')");
    browser.wait("the finding", &link);
    let _ = browser.run(&format!("{link}.click()"));
    browser.wait("its port", &shows(".side h2", "leaf-01 port 5"));
    browser.wait(
        "the finding",
        &any_shows(".side .found-list li", "link-errors"),
    );
    browser.wait("errors", &shows(".side table.errors", "SymbolErrorCounter"));
    browser.wait("rates", &any_shows(".side dd", "MB/s"));
    browser.wait(
        "the charts",
        &format!("return document.documentElement.dataset.charted === '{leaf}:5'"),
    );
    browser.wait(
        "errors of the past",
        &any_shows(".side .totals li", "SymbolErrorCounter"),
    );
    browser.wait("events", &any_shows(".side .changes li", "link-errors"));
    let port = get(site.address(), &format!("/api/v1/port?port={leaf}:5")).json();
    assert_eq!(
        port["partitions"],
        json!([]),
        "a port of a switch is in no partition"
    );

    // The other end of the cable has the finding too; a host's port has its partitions.
    let peer = browser.find(".side dl a");
    browser.click(&peer);
    browser.wait("the spine's port", &shows(".side h2", "spine-01 port 1"));
    browser.wait(
        "the finding",
        &any_shows(".side .found-list li", "link-errors"),
    );
    let host = guid(&site, "host-003");
    site.open(&browser, &format!("fabric/{host}:1"));
    browser.wait("the host's port", &shows(".side h2", "host-003"));
    browser.wait("its partition", &shows(".side .keys", "0x7fff"));
    browser.wait("the membership", &shows(".side .keys", "full"));

    // The switch has charts, and a small chart for each port; a port leads to its panel.
    site.open(&browser, &format!("fabric/{leaf}"));
    browser.wait(
        "small charts",
        "return document.querySelectorAll('.side .trend svg').length >= 6",
    );
    let errors = format!(
        "return document.querySelector('.side a.port[href=\"#/fabric/{leaf}:5\"]').parentElement.querySelector('.trend path.bars') !== null"
    );
    assert_eq!(browser.run(&errors), json!(true));
    browser.wait(
        "the charts",
        &format!("return document.documentElement.dataset.charted === '{leaf}'"),
    );
    browser.click(&browser.find(".side .list a.port"));
    browser.wait("a port", &shows(".side .kind", "Port of a switch"));
    browser.assert_no_complaints();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn equal_findings_share_one_row_that_stays_unfolded_after_an_update() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(TREE);
    let hosts: Vec<String> = (5..=12).map(|host| format!("host-{host:03}")).collect();
    for host in &hosts {
        site.rsmctl(&["sim", "power-off", host]);
    }
    let browser = Browser::start(1440, 900, Colours::Light);
    site.open(&browser, "findings");
    let row = "[...document.querySelectorAll('.page tbody tr')].find((row) => row.innerText.includes('host-missing'))";
    browser.wait(
        "one row",
        &format!("return {row}?.innerText.includes('each of the 8')"),
    );
    let rows = "return [...document.querySelectorAll('.page tbody tr')].filter((row) => row.innerText.includes('host-missing')).length";
    assert_eq!(browser.run(rows), json!(1));
    let _ = browser.run(&format!(
        "{row}.querySelector('td.text details').open = true"
    ));
    let each = format!("{row}.querySelectorAll('.each li').length");
    browser.wait("each finding", &format!("return {each} === 8"));
    site.rsmctl(&["sim", "power-on", "host-005"]);
    browser.wait(
        "seven of them, still unfolded",
        &format!("return {each} === 7"),
    );
    browser.assert_no_complaints();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn report_on_the_page_has_the_checks_of_rsmctl_and_prints_alone_on_white() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(TREE);
    site.rsmctl(&["sim", "power-off", "spine-01"]);
    let browser = Browser::start(1200, 800, Colours::Dark);
    site.open(&browser, "overview");
    browser.click(&browser.find(".overview a[href='#/report']"));
    browser.find(".checks .check");
    let (code, printed) = site.told(&["report", "--format", "json"]);
    assert!([0, 4, 5].contains(&code), "{code}: {printed}");
    let report: Value = serde_json::from_str(&printed).expect("JSON");
    let names = report["checks"].as_array().expect("a list").iter();
    let names: Vec<Value> = names.map(|check| check["name"].clone()).collect();
    let shown = "return [...document.querySelectorAll('.check b')].map((one) => one.innerText)";
    assert_eq!(browser.run(shown), json!(names));
    browser.wait("the missing switch", &any_shows(".check li", "spine-01"));
    browser.wait("the totals", &shows(".verdict", "fail"));

    browser.show_as_printed();
    let displayed = |selector: &str| {
        browser.run(&format!(
            "return getComputedStyle(document.querySelector('{selector}')).display"
        ))
    };
    for hidden in [".top", ".tabs", ".page .bar", ".lead"] {
        assert_eq!(displayed(hidden), json!("none"), "{hidden}");
    }
    assert_ne!(displayed(".checks"), json!("none"));
    let paper = "return [document.body, document.querySelector('.page .card')].map((one) => getComputedStyle(one).backgroundColor)";
    let white = "rgb(255, 255, 255)";
    assert_eq!(browser.run(paper), json!([white, white]));
    let whole = "return getComputedStyle(document.querySelector('main')).overflowY";
    assert_eq!(
        browser.run(whole),
        json!("visible"),
        "all pages are printed"
    );
    browser.assert_no_complaints();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn a_report_says_that_the_fabric_has_changed_since() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(TREE);
    let browser = Browser::start(1200, 800, Colours::Light);
    site.open(&browser, "report");
    browser.find(".checks .check");
    assert_eq!(
        browser.run("return document.querySelector('.bar p').hidden"),
        json!(true)
    );
    site.rsmctl(&["sim", "power-off", "spine-01"]);
    browser.wait(
        "the change",
        &shows(".bar p:not([hidden])", "has changed since"),
    );
    let again = "[...document.querySelectorAll('.bar button')].find((one) => one.innerText === 'Make it again').click()";
    let _ = browser.run(again);
    browser.wait(
        "the switch in the report",
        &any_shows(".check li", "spine-01"),
    );
    browser.assert_no_complaints();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn every_view_and_panel_fits_a_screen_400_pixels_wide() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start_with(TREE, COUNTERS);
    site.rsmctl(&["sim", "errors", "leaf-01:5", "SymbolErrorCounter", "50"]);
    site.rsmctl(&["sim", "power-off", "host-007"]);
    wait_for_past(&site, "leaf-01:5");
    let leaf = guid(&site, "leaf-01");
    let browser = Browser::start(800, 800, Colours::Light);
    browser.resize(400, 800);
    let panel = |part: &str| (format!("fabric/{leaf}{part}"), ".side .chart");
    let views = VIEWS.into_iter().map(|view| (view.to_owned(), ".page h1"));
    for (view, ready) in views.chain([panel(""), panel(":5")]) {
        browser.open("about:blank");
        site.open(&browser, &view);
        browser.find(ready);
        browser.wait(
            "the end of loading",
            "return [...document.querySelectorAll('main .spin')].every((one) => one.offsetParent === null)",
        );
        // Nothing is wider than the screen, and no card is cut off at its side.
        let wide = "const all = [document.documentElement, ...document.querySelectorAll('.card, .side, .page')]; \
            return all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.className || one.tagName)";
        assert_eq!(browser.run(wide), json!([]), "{view}");
    }
    browser.assert_no_complaints();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn hostile_names_are_text_in_the_overview_and_in_panels_of_ports() {
    if !require_peers(PEERS) {
        return;
    }
    const IMAGE: &str = "<img src=x onerror=alert(1)>";
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let file = folder.path().join("hostile.net");
    let text = format!(
        "Switch 4 \"S1\" # \"leaf\"\n[1] \"H1\"[1]\n[2] \"H2\"[1]\n[3] \"H3\"[1]\n\n\
         Ca 1 \"H1\" # \"one\"\n[1] \"S1\"[1]\n\nCa 1 \"H2\" # \"{IMAGE}\"\n[1] \"S1\"[2]\n\n\
         Ca 1 \"H3\" # \"\u{202e}{IMAGE}\"\n[1] \"S1\"[3]\n"
    );
    write(&file, text.as_bytes());
    let site = Site::start(&file.display().to_string());
    let leaf = guid(&site, "leaf");
    site.rsmctl(&["sim", "unlink", &leaf, "2"]);
    let browser = Browser::start(1200, 800, Colours::Light);
    site.open(&browser, "overview");
    browser.wait("the cause", &any_shows(".cause", IMAGE));
    browser.wait("the change", &any_shows(".changes li", IMAGE));
    site.open(&browser, &format!("fabric/{leaf}:3"));
    browser.wait("the other end", &shows(".side dl", "\\u{202e}<img"));
    site.open(&browser, "report");
    browser.find(".checks .check");
    let made = browser.run("return document.querySelectorAll('main img').length");
    assert_eq!(made, json!(0));
    browser.assert_no_complaints();
}
