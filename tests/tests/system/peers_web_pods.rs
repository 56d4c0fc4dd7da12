//! The page in Chromium: a fabric too large for a picture of its switches has a tile for each pod.

use std::time::Duration;

use rsm_tests::clock::wait_for_every;
use rsm_tests::peer::require_peers;
use rsm_tests::web::{Browser, Colours, PEERS, Site, get};
use serde_json::{Value, json};

/// Forty pods of eight leaves, each with two hosts, and eight spines, below 32 cores.
const PODS: &str = "pgft:3;2,8,40;1,8,4;1,1,1";

const COUNTERS: &str =
    "[counters]\nenabled = true\ninterval_s = 1\nports_interval_s = 1\nadapters_interval_s = 1\n";

const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);

/// A script that returns of each pod: its name, the number of hosts, of switches, and of parts that
/// need a look, and whether a switch is lost.
const TILES: &str = "return Promise.all([import('/fabric.js'), import('/pods.js')]).then(([{ shared }, { Pods }]) => \
    new Pods(shared.scene).pods.map((pod) => [pod.name, pod.hosts, pod.switches, pod.looks, pod.isLost]))";

/// Waits until the picture has tiles for `count` pods; an empty `count` means none.
fn wait_pods(browser: &Browser, count: &str) {
    let script = format!("return document.documentElement.dataset.pods === '{count}'");
    browser.wait(&format!("{count} pods"), &script);
}

/// A script that moves the pointer into the middle of the picture and returns the text at it.
const TEXT_AT_POINTER: &str = "const canvas = document.querySelector('canvas'); const box = canvas.getBoundingClientRect(); \
    canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 })); \
    return document.querySelector('.tip').innerText";

/// Words at the pointer once the load is known.
const LOAD_TEXT: &str = "% of its links' rate";

/// A script that holds answers with the load back until `releaseLoad` is called.
const HOLD_LOAD: &str = "const ask = window.fetch; const held = new Promise((done) => { window.releaseLoad = done; }); \
    window.fetch = (address, options) => String(address).includes('graph-load') ? held.then(() => ask(address, options)) : ask(address, options); \
    return true";

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn pods_of_a_large_fabric_have_tiles_with_state_and_load() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start_with(PODS, COUNTERS);
    let browser = Browser::start(1400, 900, Colours::Light);
    browser.open(&format!("http://{}/#/fabric", site.address()));
    wait_pods(&browser, "40");
    let tiles = browser.run(TILES);
    let tiles = tiles.as_array().unwrap();
    assert_eq!(tiles.len(), 40, "{tiles:?}");
    for tile in tiles {
        let [_, hosts, switches, looks, lost] = &tile.as_array().unwrap()[..] else {
            panic!("{tile}");
        };
        assert_eq!(
            [hosts, switches, looks],
            [&json!(16), &json!(16), &json!(0)],
            "{tile}"
        );
        assert_eq!(lost, &json!(false), "{tile}");
    }
    // Counters are read soon, and the pointer reads a tile.
    let read = wait_for_every(POLL, LIMIT, || {
        let load = get(site.address(), "/api/v1/graph-load").json();
        load["use"]
            .as_array()?
            .iter()
            .any(|share| share.as_i64() >= Some(0))
            .then_some(())
    });
    assert!(read.is_some(), "no load");
    browser.open(&format!("http://{}/#/overview", site.address()));
    let pointed = |words: &str| {
        let text = wait_for_every(POLL, LIMIT, || {
            let text = browser.run(TEXT_AT_POINTER).as_str()?.to_owned();
            text.contains(words).then_some(text)
        });
        text.unwrap_or_else(|| panic!("{}", browser.run(TEXT_AT_POINTER)))
    };
    // The pointer is on the tile before the load comes, and stays there.
    browser.run(HOLD_LOAD);
    browser.open(&format!("http://{}/#/fabric", site.address()));
    wait_pods(&browser, "40");
    pointed("load not known");
    browser.run("window.releaseLoad(); return true");
    let text = pointed(LOAD_TEXT);
    assert!(
        text.starts_with("pod ") && text.contains("16 hosts"),
        "{text}"
    );
    assert!(text.contains("in order"), "{text}");

    // A lost switch shows at its pod alone.
    site.rsmctl(&["sim", "power-off", "leaf-010"]);
    let is_one = |tiles: &Value| {
        let lost = tiles.as_array()?.iter().filter(|tile| tile[4] == true);
        (lost.count() == 1).then_some(())
    };
    let shown = wait_for_every(POLL, LIMIT, || is_one(&browser.run(TILES)));
    assert!(shown.is_some(), "{}", browser.run(TILES));
    wait_pods(&browser, "40");
    // The pods keep their load when the picture changes.
    pointed(LOAD_TEXT);

    // A click goes to the pod, and its switches are drawn; then all of it is shown again.
    let drawn = "return Number(document.documentElement.dataset.drawn.split(' ')[0])";
    let all = browser.run(drawn).as_f64().unwrap();
    browser.click(&browser.find("canvas"));
    wait_pods(&browser, "");
    let near = browser.run(drawn).as_f64().unwrap();
    assert!(near < all, "{near} of {all} switches");
    browser.press("0");
    wait_pods(&browser, "40");
    browser.resize(400, 860);
    wait_pods(&browser, "40");
    let wide = "return document.documentElement.scrollWidth <= window.innerWidth";
    assert_eq!(browser.run(wide), json!(true));
    browser.assert_no_complaints();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn load_shown_for_pods_is_the_measure_that_colours_links() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(PODS);
    let browser = Browser::start(1400, 900, Colours::Dark);
    browser.open(&format!("http://{}/#/fabric", site.address()));
    wait_pods(&browser, "40");
    // Half of the links of the first pod at 60 %, the other links idle; errors at one link.
    let weighed = |paint: &str| {
        let script = format!(
            "return Promise.all([import('/fabric.js'), import('/pods.js')]).then(([{{ shared: {{ scene }} }}, {{ Pods }}]) => {{ \
               const pods = new Pods(scene); \
               const load = {{ shape: scene.shape, ports: 1, use: [], wait: [], errors: [] }}; \
               let turn = 0; \
               for (let link = 0; link < scene.linkCount; link++) {{ \
                 const isFirst = pods.of[scene.group[scene.links[link * 5]]] === pods.pods[0] || pods.of[scene.group[scene.links[link * 5 + 1]]] === pods.pods[0]; \
                 load.use.push(isFirst ? (turn++ % 2 ? 600 : 0) : 0); \
                 load.wait.push(-1); load.errors.push(isFirst && turn === 1 ? 50 : 0); \
               }} \
               pods.weigh('{paint}', load); \
               return [pods.loadText(pods.pods[0]), pods.pods[0].sums?.level ?? null, pods.loadText(pods.pods[1])]; }})"
        );
        browser.run(&script)
    };
    assert_eq!(
        weighed("state"),
        json!(["30 % of its links' rate", 2, "0 % of its links' rate"])
    );
    assert_eq!(
        weighed("wait"),
        json!(["load not known", null, "load not known"])
    );
    let errors = weighed("errors");
    assert_eq!(errors[0], json!("1 link with errors"), "{errors}");
    assert_eq!(errors[1], json!(2), "{errors}");
    assert_eq!(errors[2], json!("no link has errors"));
    browser.assert_no_complaints();
}
