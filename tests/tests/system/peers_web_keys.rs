//! The page in Chromium, operated by keys alone; what-if questions about the loss of parts; and
//! hosts below leaves.

use rsm_tests::peer::require_peers;
use rsm_tests::web::{Browser, Colours, PEERS, Site, get, plain_name};
use serde_json::{Value, json};

// Keys in WebDriver's numbering.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const LEFT: &str = "\u{e012}";
const UP: &str = "\u{e013}";
const RIGHT: &str = "\u{e014}";
const DOWN: &str = "\u{e015}";

/// A script that returns whether the first picture is drawn.
const DRAWN: &str = "return document.documentElement.dataset.firstPicture";

/// A script that returns whether the panel names this node.
fn panel_names(name: &str) -> String {
    format!(
        "return document.querySelector('.side:not([hidden]) h2')?.innerText.includes({})",
        json!(plain_name(name))
    )
}

/// The tag, identifier and text of the focused element.
fn focus(browser: &Browser) -> String {
    let script = "const one = document.activeElement; \
        return `${one.tagName} ${one.id} ${one.innerText ?? ''}`";
    browser.run(script).as_str().unwrap_or_default().to_owned()
}

/// The drawn switches from left to right, the top tier first, as columns: `name`, `guid`, ….
fn switches(site: &Site) -> Value {
    get(site.address(), "/api/v1/graph").json()["switches"].take()
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn keys_alone_find_a_leaf_move_through_the_fabric_and_open_and_close_its_panel() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start("superpod");
    let browser = Browser::start(1400, 900, Colours::Light);
    site.open(&browser, "findings");
    browser.find(".page h1");
    let drawn = switches(&site);
    let names: Vec<&str> = drawn["name"].as_array().map_or(Vec::new(), |names| {
        names.iter().filter_map(Value::as_str).collect()
    });
    let is_leaf = |name: &&&str| name.contains("leaf");
    let leaf = names
        .iter()
        .position(|name| is_leaf(&name))
        .expect("leaves");
    let guid = drawn["guid"][leaf].as_str().expect("a GUID");

    // The keys are `/` from any view, Escape back, and the name of the leaf.
    browser.press("/");
    assert!(focus(&browser).starts_with("INPUT find"));
    browser.press(ESCAPE);
    assert!(!focus(&browser).starts_with("INPUT"));
    browser.press("/");
    browser.press(guid);
    browser.find("#found li[aria-selected=true]");
    browser.press(ENTER);
    browser.wait("the leaf", &panel_names(names[leaf]));

    // The focus is in the fabric: arrow keys go to its neighbours.
    assert!(focus(&browser).starts_with("CANVAS"));
    browser.press(RIGHT);
    browser.wait("the leaf at its right", &panel_names(names[leaf + 1]));
    browser.press(LEFT);
    browser.wait("the first again", &panel_names(names[leaf]));
    browser.press(UP);
    browser.wait("a spine", &panel_names("spine"));
    browser.press(DOWN);
    browser.wait("a leaf", &panel_names("leaf"));
    browser.find(".side .list.hosts button");

    // Enter goes into the panel, whose list also has arrow keys; Escape returns the focus.
    browser.press(ENTER);
    let first = focus(&browser);
    assert!(
        first.starts_with("BUTTON") && first.contains("mlx5"),
        "{first}"
    );
    browser.press(DOWN);
    let second = focus(&browser);
    assert!(second.contains("mlx5") && second != first, "{second}");
    browser.press(ENTER);
    browser.wait(
        "the host",
        "return document.querySelector('.side .kind')?.innerText === 'Host adapter'",
    );
    let canvas = browser.find("canvas");
    browser.click(&canvas);
    browser.press(ESCAPE);
    browser.wait(
        "no panel",
        "return document.querySelector('.side').hidden && location.hash === '#/fabric'",
    );
    assert!(focus(&browser).starts_with("CANVAS"));
    browser.assert_no_complaints();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn arrow_keys_move_between_tabs_which_keep_the_focus_while_the_fabric_changes() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start("superpod");
    let browser = Browser::start(1400, 900, Colours::Dark);
    site.open(&browser, "fabric");
    browser.wait("a picture", DRAWN);

    // The first Tab offers the content, which is no view of its own.
    browser.press(TAB);
    assert!(focus(&browser).contains("Skip to content"));
    browser.press(ENTER);
    assert!(focus(&browser).starts_with("MAIN view"));
    assert_eq!(browser.run("return location.hash"), json!("#/fabric"));

    let _ = browser.run("document.querySelector('#tabs a[aria-current]').focus()");
    browser.press(&format!("{RIGHT}{RIGHT}{ENTER}"));
    browser.wait(
        "findings",
        "return document.querySelector('.page h1')?.innerText === 'Findings'",
    );
    assert!(
        focus(&browser).starts_with("A  Findings"),
        "{}",
        focus(&browser)
    );
    let links = get(site.address(), "/api/v1/links?between_switches=true").json();
    let end = &links["links"][0]["a"]["port"];
    let node = end["node_guid"].as_str().expect("a GUID");
    site.rsmctl(&["sim", "unlink", node, &end["number"].to_string()]);
    browser.wait(
        "the finding, and how many there are",
        "return document.querySelector('.page tbody tr') !== null && \
         document.querySelector('#tabs a[aria-current]').innerText.includes('1')",
    );
    assert!(
        focus(&browser).starts_with("A  Findings"),
        "{}",
        focus(&browser)
    );

    // A finding about one cable leads to its port.
    let first = end["number"].as_u64().unwrap_or(0);
    let of_port = format!(
        "return document.querySelector('.page tbody a[href=\"#/fabric/{node}:{first}\"]') !== null"
    );
    browser.wait("the port", &of_port);
    let unlink = |port: u64, cables: &str| {
        site.rsmctl(&["sim", "unlink", node, &port.to_string()]);
        let shown = format!(
            "return document.querySelector('.page tbody tr')?.innerText.includes('{cables}')"
        );
        browser.wait("the cables in the finding", &shown);
    };
    unlink(first + 1, "2 cables");

    // A link of the table is drawn again with each reading, and keeps the focus.
    let _ = browser.run("document.querySelector('.page tbody a').focus()");
    let address = "return document.activeElement.getAttribute('href')";
    let at = browser.run(address);
    assert_eq!(at, json!(format!("#/fabric/{node}")));
    unlink(first + 2, "3 cables");
    assert_eq!(browser.run(address), at);
    browser.assert_no_complaints();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn what_if_says_that_loss_of_a_spine_is_safe_and_loss_of_a_leaf_cuts_hosts_off() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start("superpod");
    let browser = Browser::start(1400, 900, Colours::Light);
    let drawn = switches(&site);
    let last_of = |kind: &str| {
        let names = drawn["name"].as_array().expect("names");
        let at = names
            .iter()
            .rposition(|name| name.as_str().is_some_and(|name| name.contains(kind)));
        let at = at.expect("there is one");
        (
            drawn["guid"][at].as_str().expect("a GUID").to_owned(),
            drawn["hosts"][at].as_u64().expect("a number"),
        )
    };
    // The test removes the last leaf: the manager is at the first leaf, and does not predict its
    // own loss.
    let ((spine, _), (leaf, hosts)) = (last_of("spine"), last_of("leaf"));
    let verdict = |text: &str| {
        format!(
            "return document.querySelector('.page .card .tag')?.parentElement.innerText.includes({})",
            json!(text)
        )
    };

    // In the list of parts, Enter begins a new line, and Ctrl+Enter asks the question.
    site.open(&browser, "what-if");
    browser.find("#remove");
    let _ = browser.run("document.querySelector('#remove').focus()");
    browser.press(&spine);
    browser.press_with("\u{e009}", ENTER);
    browser.wait("a verdict", &verdict("Nothing else is cut off"));
    assert!(browser.text(".page .tag").contains("safe"));
    let cables = browser.text(".page .figures div b");
    assert_eq!(cables, "64", "a spine of this fabric has 64 cables");

    // The panel of a switch links to the question; the answer equals rsmctl's.
    site.open(&browser, &format!("fabric/{leaf}"));
    browser.find(".side .list.hosts button");
    let ask = browser.find(".side a.btn");
    browser.click(&ask);
    browser.wait(
        "a verdict",
        &verdict(&format!("{hosts} ports would be cut off")),
    );
    let rows =
        "return document.querySelectorAll('.page table')[0].querySelectorAll('tbody tr').length";
    assert_eq!(browser.run(rows), json!(hosts));
    let printed = site.printed(&["whatif", &format!("remove={leaf}"), "--format", "json"]);
    let answer: Value = serde_json::from_str(&printed).expect("JSON");
    let cut_off = answer["cut_off"].as_array().map(Vec::len);
    assert_eq!(cut_off, Some(hosts as usize), "{printed}");

    // An unknown name is reported.
    site.open(&browser, "what-if?remove=nothing-has-this-name");
    browser.find(".page .error");
    let _ = browser.complaints();
    let status = get(site.address(), "/api/v1/status").json();
    assert_eq!(status["status"]["switches"], 48, "nothing has changed");
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn hosts_are_folded_below_leaves_in_two_lines_at_every_zoom() {
    if !require_peers(PEERS) {
        return;
    }
    // The fabric has 128 leaves, which take two lines, with two hosts each.
    let site = Site::start("pgft:2;2,128;1,8;1,1");
    let browser = Browser::start(1000, 800, Colours::Light);
    site.open(&browser, "fabric");
    browser.wait("a picture", DRAWN);
    // The script counts runs of the hosts' colour from top to bottom, in all columns of the
    // picture: as many as there are lines of leaves with hosts below them.
    let lines = "const canvas = document.querySelector('canvas'); \
        const { width, height } = canvas; \
        const { data } = canvas.getContext('2d').getImageData(0, 0, width, height); \
        const lines = new Array(height).fill(false); \
        for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) { \
            const at = (y * width + x) * 4; \
            if (data[at] === 0xa9 && data[at + 1] === 0xb8 && data[at + 2] === 0xcc) lines[y] = true; \
        }";
    let runs = format!("{lines} return lines.filter((line, y) => line && !lines[y - 1]).length");
    let two_lines = format!("return (() => {{ {runs} }})() === 2");
    browser.wait("two lines of hosts", &two_lines);
    let in_sight = "Number(document.documentElement.dataset.folded)";
    assert_eq!(browser.run(&format!("return {in_sight}")), json!(256));
    // Near some leaves the other leaves and their hosts are out of sight; further away all are
    // back.
    let zoom = format!(
        "{lines} const box = canvas.getBoundingClientRect(); \
         const clientY = box.top + lines.indexOf(true); \
         for (let step = 0; step < 6; step++) canvas.dispatchEvent(new WheelEvent('wheel', \
             {{ deltaY: -120, clientX: box.left + box.width / 2, clientY, cancelable: true }}))"
    );
    let _ = browser.run(&zoom);
    let is_near = format!("return {in_sight} > 0 && {in_sight} < 256");
    browser.wait("some leaves", &is_near);
    browser.wait(
        "their hosts",
        &format!("return (() => {{ {runs} }})() >= 1"),
    );
    let _ = browser.run("document.querySelector('canvas').focus()");
    browser.press("0");
    browser.wait("all again", &format!("return {in_sight} === 256"));
    browser.wait("two lines of hosts", &two_lines);
    // The browser remarks on the test's own reading of the canvas.
    let mut complaints = browser.complaints();
    complaints.retain(|text| !text.contains("getImageData"));
    assert_eq!(complaints, Vec::<String>::new());
}
