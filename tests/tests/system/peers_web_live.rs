//! The page in Chromium while the fabric changes, and while rsm does not answer.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rsm_tests::clock::wait_for_every;
use rsm_tests::peer::require_peers;
use rsm_tests::web::{Browser, Colours, PEERS, Site, get};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// A script that makes every answer take longer than the time between two messages about changes; a
/// request that is aborted ends at once.
const SLOW_ANSWERS: &str = "const real = window.fetch; \
    window.fetch = (address, options) => new Promise((done, failed) => { \
        const give_up = () => failed(new DOMException('given up', 'AbortError')); \
        if (options?.signal?.aborted) return give_up(); \
        options?.signal?.addEventListener('abort', give_up); \
        setTimeout(() => options?.signal?.aborted || real(address, options).then(done, failed), 900); \
    }); return true";

/// One end of a cable between switches, and a port of the same switch with a host other than the
/// manager's, with the host's name.
struct Parts {
    /// The GUID of the switch.
    switch: String,
    /// The number of the port with the cable to another switch.
    cable: String,
    /// The number of the port with the host.
    host_port: String,
    /// The description of the host.
    host: String,
}

impl Parts {
    fn of(site: &Site) -> Parts {
        let links = get(site.address(), "/api/v1/links?page_size=1000").json();
        let links = links["links"].as_array().expect("it is a list").clone();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let with_switch_first = |link: &Value, other: &str| {
            let (a, b) = (link["a"].clone(), link["b"].clone());
            match (a["kind"].as_str()?, b["kind"].as_str()?) {
                ("switch", kind) if kind == other => Some((a, b)),
                (kind, "switch") if kind == other => Some((b, a)),
                _ => None,
            }
        };
        let mut hosts = links.iter().rev();
        let (leaf, host) = hosts
            .find_map(|link| with_switch_first(link, "ca"))
            .expect("there are hosts");
        let switch = text(&leaf["port"]["node_guid"]).expect("it has a GUID");
        let cable = links.iter().find_map(|link| {
            let (a, b) = with_switch_first(link, "switch")?;
            let ends = [a, b];
            let mut ends = ends.iter();
            ends.find(|end| end["port"]["node_guid"] == switch.as_str())
                .map(|end| end["port"]["number"].to_string())
        });
        Parts {
            host_port: leaf["port"]["number"].to_string(),
            host: text(&host["description"]).expect("it has a name"),
            cable: cable.expect("a leaf has a cable to a spine"),
            switch,
        }
    }
}

/// Time between two changes of a flapping cable: far shorter than an answer takes, but so long that
/// the first page of the history has room for the events while an answer is under way.
const BETWEEN_CHANGES: Duration = Duration::from_millis(100);

/// Runs `work` while a cable flaps. `work` gets the number of flaps so far.
fn while_flapping(site: &Site, parts: &Parts, work: impl FnOnce(&AtomicU32)) {
    let (is_over, flaps) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for action in ["unlink", "relink"] {
                    site.rsmctl(&["sim", action, &parts.switch, &parts.cable]);
                    std::thread::sleep(BETWEEN_CHANGES);
                }
                flaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        // The flapping must end even if the work panics.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&flaps)));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Waits until the host is in the fabric again.
fn wait_for_host(site: &Site, host: &str) {
    let path = format!(
        "/api/v1/nodes?kind=ca&description_contains={}",
        host.replace(' ', "%20")
    );
    let back = wait_for_every(POLL, LIMIT, || {
        let nodes = get(site.address(), &path).json();
        let is_there = nodes["nodes"]
            .as_array()
            .is_some_and(|nodes| !nodes.is_empty());
        is_there.then_some(())
    });
    assert!(back.is_some(), "{host} does not come back");
}

/// A script that returns whether `selector` matches a row with this text.
fn row(selector: &str, text: &str) -> String {
    format!(
        "return [...document.querySelectorAll({})].some((row) => row.innerText.includes({}))",
        json!(selector),
        json!(text)
    )
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn views_follow_changes_while_a_cable_flaps_faster_than_answers_come() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start("superpod");
    let parts = Parts::of(&site);
    let browser = Browser::start(1400, 900, Colours::Light);
    let hosts = ".side .hosts li";
    let all_hosts = format!("return document.querySelectorAll('{hosts}').length");
    let panel = format!("fabric/{}", parts.switch);
    site.open(&browser, &panel);
    browser.wait("hosts of the leaf", &format!("{all_hosts} > 1"));
    let before = browser.run(&all_hosts).as_u64().expect("a number");
    let one_less = format!("{all_hosts} === {}", before - 1);
    for (view, ready, shown) in [
        (
            "history",
            ".page tbody tr",
            row(".page tbody tr", &parts.host),
        ),
        (
            "findings",
            ".page .card",
            row(".page tbody tr", &parts.host),
        ),
        (&panel, hosts, one_less),
    ] {
        browser.open("about:blank");
        site.open(&browser, view);
        browser.find(ready);
        let _ = browser.run(SLOW_ANSWERS);
        while_flapping(&site, &parts, |flaps| {
            let before = flaps.load(Ordering::Relaxed);
            site.rsmctl(&["sim", "unlink", &parts.switch, &parts.host_port]);
            browser.wait(view, &shown);
            assert!(flaps.load(Ordering::Relaxed) > before, "{view}: quiet");
        });
        site.rsmctl(&["sim", "relink", &parts.switch, &parts.host_port]);
        wait_for_host(&site, &parts.host);
    }
    browser.assert_no_complaints();
}

/// The script expression for the state in the strip.
const STRIP: &str = "document.querySelector('#strip .chip')?.innerText";
/// The script expression for the text of the notice above the views; empty if the notice is hidden.
const NOTICE: &str =
    "(document.querySelector('#notice').hidden ? '' : document.querySelector('#notice').innerText)";

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn page_says_that_rsm_hangs_or_has_stopped_and_follows_it_again_once_it_answers() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start("pgft:2;4,4;1,2;1,1");
    let browser = Browser::start(1200, 800, Colours::Light);
    site.open(&browser, "findings");
    let is_up = format!("return {STRIP} === 'up' && {NOTICE} === ''");
    browser.wait("a state", &is_up);

    // The connection stays open, and no data arrives.
    site.suspend();
    let is_lost = format!(
        "return {STRIP}.startsWith('not connected') && {NOTICE}.includes('No connection to rsm since') \
         && document.documentElement.dataset.state === 'not-connected'"
    );
    browser.wait("the silence", &is_lost);
    site.resume();
    browser.wait("that it is back", &is_up);
    browser.wait(
        "a list that is read",
        "return document.querySelector('.page .error') === null && document.querySelector('.page .card') !== null",
    );

    // A standby shows values that are not in force.
    let stand_by = "return import('/data.js').then(({ store }) => { \
        store.status = { ...store.status, state: 'standby', verify: null, \
            master: { guid: '0x0002c90300fedcba', priority: 9 } }; \
        for (const listener of store.listeners) listener({}); return true })";
    let _ = browser.run(stand_by);
    let says = format!(
        "return {STRIP} === 'standby' && {NOTICE}.includes('0x0002c90300fedcba is master') \
         && !document.querySelector('#strip').innerText.includes('no findings')"
    );
    browser.wait("that another one is master", &says);

    site.stop();
    browser.wait("the end", &is_lost);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn gone_parts_are_drawn_named_by_the_search_and_counted_beside_the_state() {
    if !require_peers(PEERS) {
        return;
    }
    // The fabric has four leaves with four hosts each below two spines.
    let site = Site::start("pgft:2;4,4;1,2;1,1");
    let browser = Browser::start(1400, 900, Colours::Light);
    site.open(&browser, "fabric");
    let shows = |selector: &str, text: &str| {
        format!(
            "return document.querySelector({})?.innerText.includes({})",
            json!(selector),
            json!(text)
        )
    };
    browser.wait(
        "a picture",
        "return document.documentElement.dataset.firstPicture",
    );
    site.rsmctl(&["sim", "power-off", "spine-02"]);
    site.rsmctl(&["sim", "power-off", "host-007"]);
    let missing = "1 switch, 4 cables and 1 host missing";
    browser.wait("missing parts beside the state", &shows("#strip", missing));
    browser.wait("the legend", &shows(".legend", "1 switch gone"));
    browser.wait("gone links", &shows(".legend", "4 gone"));
    let find = browser.find("#find");
    browser.type_into(&find, "host-007");
    browser.wait(
        "the place of the host",
        &shows("#found", "was at leaf-02 port 3"),
    );
    site.open(&browser, "fabric");
    browser.run("document.querySelector('#find').value = ''; return true");
    browser.type_into(&find, "spine-02");
    browser.wait("the gone switch", &shows("#found li[role=option]", "gone"));
    browser.type_into(&find, "\u{e007}");
    browser.wait("its panel", &shows(".side h2", "Switch, gone"));
    browser.wait("its place", &shows(".side", "was at leaf-01 port 6"));
    // Only look-ups of parts that have gone are refused.
    let complaints = browser.complaints();
    assert!(
        complaints.iter().all(|one| one.contains("404")),
        "{complaints:?}"
    );
}
