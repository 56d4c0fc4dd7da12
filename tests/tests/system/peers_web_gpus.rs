//! GPU hosts on the page, and a fault of a GPU host in the same words wherever findings are shown.

use std::time::Duration;

use rsm_tests::clock::wait_for_every;
use rsm_tests::gpu_matrix::gpu_matrix;
use rsm_tests::peer::require_peers;
use rsm_tests::web::{Browser, Colours, PEERS, Site, get, write};
use serde_json::{Value, json};

use crate::managed_gpu_absent::{OFF, site_with_hosts_off};

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

/// Imports the matrix of a host; the GPUs in `without_nvlinks` have lost their NVLinks.
fn import(site: &Site, host: &str, without_nvlinks: &[usize]) {
    let file = site.directory().join(format!("{host}.txt"));
    write(&file, gpu_matrix(without_nvlinks).as_bytes());
    let file = file.display().to_string();
    site.rsmctl(&[
        "gpu",
        "import",
        "--host",
        host,
        "--file-format",
        "nvidia-smi",
        &file,
    ]);
}

/// The findings of this kind, as the API lists them.
fn findings(site: &Site, kind: &str) -> Vec<Value> {
    let all = get(site.address(), "/api/v1/findings?page_size=1000").json();
    let all = all["findings"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|one| one["kind"] == kind).collect()
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn page_rsmctl_and_metrics_show_the_same_finding_about_a_gpu_without_nvlinks() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start("superpod:su=1");
    let browser = Browser::start(1400, 900, Colours::Light);
    site.open(&browser, "gpu-hosts");
    browser.wait(
        "no host",
        "return document.querySelector('.page .empty b')?.innerText.includes('No GPU host')",
    );
    let hosts: Vec<String> = (1..=32).map(|number| format!("host-{number:03}")).collect();
    for host in &hosts {
        let lost: &[usize] = if host == "host-003" { &[3] } else { &[] };
        import(&site, host, lost);
    }
    let raised = wait_for_every(POLL, LIMIT, || findings(&site, "nvlink-degraded").pop());
    let raised = raised.expect("the fault is a finding");
    let message = raised["message"].as_str().expect("it has a text");
    assert!(
        message.starts_with("host-003: GPU3 has 0 links: expected 18"),
        "{message}"
    );
    assert_eq!(findings(&site, "nvlink-degraded").len(), 1, "told once");

    // The page shows it in the list of findings, at the GPU host without a reload, and in the
    // strip.
    let (_, words) = message.split_once(": ").expect("host and words");
    let row = |text: &str| {
        format!(
            "return [...document.querySelectorAll('.page tbody tr')].some((row) => row.innerText.includes({}))",
            json!(text)
        )
    };
    browser.wait("the host's fault", &row(words));
    browser.wait("its kind", &row("nvlink-degraded"));
    site.open(&browser, "findings");
    browser.wait("the finding", &row(message));
    browser.wait(
        "the strip",
        "return document.querySelector('#strip').innerText.includes('1 error')",
    );
    // `rsmctl findings` and `rsmctl status` show it.
    let printed = site.printed(&["findings", "--format", "json"]);
    let listed: Value = serde_json::from_str(&printed).expect("JSON");
    let listed = listed.as_array().expect("a list").iter();
    assert_eq!(
        listed.filter(|one| one["message"] == message).count(),
        1,
        "{printed}"
    );
    let status = site.printed(&["status"]);
    assert!(status.contains("Findings          1 error, "), "{status}");
    let of_gpus = site.printed(&["gpu", "status"]);
    assert!(of_gpus.contains("1 error"), "{of_gpus}");
    let metrics = get(site.address(), "/metrics").text();
    let sample = "\nrsm_findings{kind=\"nvlink-degraded\",severity=\"error\"} 1\n";
    assert!(metrics.contains(sample), "{metrics}");

    // The page shows the host with its rails: one for each GPU, and the adapter beside it.
    site.open(&browser, "gpu-hosts");
    let host = browser.find(".page a[href='#/gpu-hosts?host=host-003']");
    browser.click(&host);
    browser.wait(
        "its rails",
        "return document.querySelector('.page caption')?.innerText.includes('host-003')",
    );
    let cells = "return [...document.querySelectorAll('.page table')].find((table) => table.caption) \
        .querySelector('tbody').innerText";
    let rails = browser.run(cells);
    let rails: Vec<&str> = rails.as_str().unwrap_or_default().lines().collect();
    assert_eq!(rails.len(), 8, "{rails:?}");
    for (gpu, line) in rails.iter().enumerate() {
        let start = format!("{gpu}\t{gpu}\tmlx5_{gpu}\tPIX");
        assert!(line.starts_with(&start), "{line}");
    }

    // When the links are back, the finding disappears everywhere.
    import(&site, "host-003", &[]);
    browser.wait(
        "no fault",
        "return [...document.querySelectorAll('.page tbody .tag.bad')].length === 0",
    );
    let is_gone = || findings(&site, "nvlink-degraded").is_empty().then_some(());
    assert!(wait_for_every(POLL, LIMIT, is_gone).is_some(), "it is over");
    site.open(&browser, "history?kind=finding");
    browser.wait("that it is over", &row("finding gone"));
    browser.assert_no_complaints();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs chromium and chromium-driver")]
fn page_shows_where_gpu_hosts_without_power_were() {
    if !require_peers(PEERS) {
        return;
    }
    let site = site_with_hosts_off();
    let browser = Browser::start(1400, 900, Colours::Light);
    site.open(&browser, "gpu-hosts");
    for (name, _, port) in OFF {
        let script = format!(
            "return [...document.querySelectorAll('.page tbody tr')].some((row) => \
             row.innerText.startsWith('{name}') && /was at su-01-leaf-0\\d port {port} until 20/.test(row.innerText) \
             && row.innerText.includes('host-absent'))"
        );
        browser.wait(name, &script);
    }
    browser.assert_no_complaints();
}
