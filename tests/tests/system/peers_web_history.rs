//! The history on the page in Chromium: of this run and of earlier runs, filtered, and in pages.

use std::time::Duration;

use rsm_tests::clock::wait_for_every;
use rsm_tests::peer::require_peers;
use rsm_tests::web::{Browser, Colours, PEERS, Site, get, write};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// A script that returns the number of events in the table.
const ROWS: &str = "return document.querySelectorAll('.page tbody tr').length";

/// The GUID of a leaf, the number of one of its ports with a host other than the manager's, and the
/// description of that host.
fn host_of_a_leaf(site: &Site) -> (String, String, String) {
    let links = get(site.address(), "/api/v1/links?page_size=1000").json();
    let links = links["links"].as_array().expect("it is a list").clone();
    let found = links.into_iter().rev().find_map(|link| {
        let (a, b) = (&link["a"], &link["b"]);
        let (host, leaf) = match (a["kind"].as_str()?, b["kind"].as_str()?) {
            ("ca", "switch") => (a, b),
            ("switch", "ca") => (b, a),
            _ => return None,
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let port = leaf["port"]["number"].to_string();
        Some((
            text(&leaf["port"]["node_guid"])?,
            port,
            text(&host["description"])?,
        ))
    });
    found.expect("there are hosts")
}

/// The number of events on the disk that match `filters`, 1,000 at most.
fn events(site: &Site, filters: &str) -> usize {
    let path = format!("/api/v1/events?newest_first=true&page_size=1000&{filters}");
    let events = get(site.address(), &path).json();
    events["events"].as_array().map_or(0, Vec::len)
}

/// Waits until at least `least` events that match `filters` are on the disk.
fn wait_for_events(site: &Site, filters: &str, least: usize) {
    let found = wait_for_every(POLL, LIMIT, || {
        (events(site, filters) >= least).then_some(())
    });
    assert!(
        found.is_some(),
        "{filters}: {} events",
        events(site, filters)
    );
}

/// Opens the history with filters, and waits for a text in the first row of its table.
fn open_history(site: &Site, browser: &Browser, filters: &str, first: &str) {
    site.open(browser, &format!("history?{filters}"));
    let shown = format!(
        "return document.querySelector('.page tbody tr')?.innerText.includes({})",
        json!(first)
    );
    browser.wait(first, &shown);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn history_of_an_earlier_run_is_shown_with_its_operators_and_can_be_filtered() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start("superpod");
    let (leaf, port, host) = host_of_a_leaf(&site);
    site.rsmctl(&["sim", "unlink", &leaf, &port]);
    wait_for_events(&site, "kind=node", 1);
    site.rsmctl(&["sweep"]);
    wait_for_events(&site, "kind=operator", 1);
    let site = site.restart();
    let browser = Browser::start(1400, 900, Colours::Light);

    // The questions: which host was lost in the previous run, and which request did an operator
    // make?
    let of_host = format!("kind=node&since=1h&node={}", host.replace(' ', "%20"));
    open_history(&site, &browser, &of_host, &host);
    let lost = "return [...document.querySelectorAll('.page tbody tr')].some((row) => row.innerText.includes('node lost'))";
    browser.wait("the lost host", lost);
    open_history(&site, &browser, "kind=operator", "resweep");
    let request = browser.text(".page tbody tr");
    assert!(
        request.contains("by ") && request.contains("uid"),
        "{request}"
    );
    open_history(&site, &browser, "kind=manager", "up");
    let starts = "return [...document.querySelectorAll('.page tbody .tag')].filter((tag) => tag.innerText === 'started').length === 2";
    browser.wait("two starts", starts);

    // The same filters find as many events as on the command line.
    let find = |name: &str, text: &str| browser.type_into(&browser.find(name), text);
    site.open(&browser, "history");
    find("#node", &host);
    find("#since", "1h");
    find("#until", "now\u{e007}");
    browser.wait(
        "an address that can be kept",
        "return location.hash.includes('until=now')",
    );
    let count = |arguments: &[&str]| {
        let printed = site.printed(&[&["events"][..], arguments].concat());
        assert!(printed.lines().count() > 0, "{arguments:?}");
        format!("{ROWS} === {}", printed.lines().count())
    };
    let of_host = count(&["--node", &host, "--since", "1h"]);
    browser.wait("all events of the host", &of_host);
    site.open(&browser, "history?cause=resweep&kind=operator");
    browser.wait(
        "the request",
        &count(&["--cause", "resweep", "--kind", "operator"]),
    );

    // An invalid time is named, and an empty answer is explained.
    site.open(&browser, "history?since=tomorrow");
    let named = "return document.querySelector('.page .error')?.innerText.includes('is no time')";
    browser.wait("the wrong time", named);
    site.open(&browser, "history?until=2000-01-01");
    let none = "return document.querySelector('.page .empty b')?.innerText === 'No event'";
    browser.wait("no event", none);
    browser.assert_no_complaints();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn older_events_load_on_demand_and_shown_rows_stay_while_new_events_come() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start("superpod");
    let (leaf, port, _) = host_of_a_leaf(&site);
    // A leaf that loses power and gets it back causes events about all its links.
    let of_leaf = format!("kind=node&node={leaf}");
    let mut seen = events(&site, &of_leaf);
    while events(&site, "") <= 200 {
        for action in ["power-off", "power-on"] {
            site.rsmctl(&["sim", action, &leaf]);
            seen += 1;
            wait_for_events(&site, &of_leaf, seen);
        }
    }
    let browser = Browser::start(1400, 900, Colours::Light);
    site.open(&browser, "history");
    browser.wait("the newest", &format!("{ROWS} === 200"));
    browser.click(&browser.find(".page .older"));
    let rows = events(&site, "").min(400);
    browser.wait("older ones", &format!("{ROWS} === {rows}"));

    site.rsmctl(&["sim", "unlink", &leaf, &port]);
    let newest = browser.find(".page p:not([hidden]) .newest");
    assert_eq!(browser.run(ROWS), json!(rows), "rows do not move away");
    browser.click(&newest);
    browser.wait("the newest again", &format!("{ROWS} === 200"));
    browser.assert_no_complaints();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn page_reads_times_as_rsmctl_does() {
    if !require_peers(PEERS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hostile.net");
    const IMAGE: &str = "<img src=x onerror=alert(1)>";
    let text = format!(
        "Switch 4 \"S1\" # \"leaf\"\n[1] \"H1\"[1]\n[2] \"H2\"[1]\n\n\
         Ca 1 \"H1\" # \"one\"\n[1] \"S1\"[1]\n\nCa 1 \"H2\" # \"{IMAGE}\"\n[1] \"S1\"[2]\n"
    );
    write(&file, text.as_bytes());
    let site = Site::start(&file.display().to_string());
    let browser = Browser::start(1000, 700, Colours::Dark);
    site.open(&browser, "history");
    // `now` is 05:30 on 24 November in the browser's zone. rsmctl's own test has the same forms.
    let read = |text: &str| {
        let script = format!(
            "return import('/time.js').then(({{ parseTime }}) => {{ \
             const now = new Date(2026, 10, 24, 5, 30); \
             try {{ const at = new Date(parseTime({}, now)); \
             return [at.getMonth() + 1, at.getDate(), at.getHours(), at.getMinutes(), at.getSeconds()].join(' ') }} \
             catch (error) {{ return error.message }} }})",
            json!(text)
        );
        browser.run(&script).as_str().unwrap_or_default().to_owned()
    };
    for (text, expected) in [
        ("now", "11 24 5 30 0"),
        ("today", "11 24 0 0 0"),
        ("yesterday", "11 23 0 0 0"),
        ("2h", "11 24 3 30 0"),
        ("90min", "11 24 4 0 0"),
        ("3d", "11 21 5 30 0"),
        ("22:00", "11 23 22 0 0"),
        ("05:29:59", "11 24 5 29 59"),
        ("2026-11-20", "11 20 0 0 0"),
        ("2026-11-20 12:00", "11 20 12 0 0"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    for wrong in [
        "h",
        "2",
        "2y",
        "25:00",
        "22:0",
        "tomorrow",
        "-2h",
        "2026-02-30",
        "999999999d",
        IMAGE,
    ] {
        assert!(
            read(wrong).contains("is no time"),
            "{wrong}: {}",
            read(wrong)
        );
    }

    // A name that contains markup is plain text in the history, too.
    let switches = get(site.address(), "/api/v1/nodes?kind=switch").json();
    let leaf = switches["nodes"][0]["guid"].as_str().unwrap();
    site.rsmctl(&["sim", "unlink", leaf, "2"]);
    let shown = format!(
        "return [...document.querySelectorAll('.page tbody tr')].some((row) => row.innerText.includes({}))",
        json!(IMAGE)
    );
    browser.wait("the name as text", &shown);
    assert_eq!(
        browser.run("return document.querySelectorAll('main img').length"),
        json!(0)
    );
    browser.assert_no_complaints();
}
