//! A design file end to end: its export, its use after a reload, and the comparison with a fabric
//! whose cables are exchanged.

use std::fs;
use std::time::Duration;

use rsm_tests::clock::wait_for;
use rsm_tests::web::{Site, get};

/// A fabric of four leaves with four hosts each (ports 1 to 4) below two spines (ports 5 and 6).
const FABRIC: &str = "pgft:2;4,4;1,2;1,1";

const LIMIT: Duration = Duration::from_secs(60);

/// Waits until the output of a command fulfils a condition, and returns it.
fn wait_output(site: &Site, arguments: &[&str], is_met: impl Fn(&str) -> bool) -> String {
    let found = wait_for(LIMIT, || {
        let (_, output) = site.told(arguments);
        is_met(&output).then_some(output)
    });
    found.unwrap_or_else(|| panic!("{arguments:?}: {}", site.told(arguments).1))
}

/// Writes `text` as the design file, and has rsm read its configuration again.
fn reload(site: &Site, text: &str) {
    let file = site.directory().join("design.csv");
    fs::write(&file, text).unwrap();
    let config = format!("[design]\nfile = {:?}\n", file.display().to_string());
    fs::write(site.directory().join("rsm.toml"), config).unwrap();
    site.hang_up();
}

#[test]
fn exchanged_cables_are_one_finding_and_one_move_until_they_are_as_designed() {
    let site = Site::start(FABRIC);
    let (code, said) = site.told(&["design"]);
    assert!(code == 1 && said.contains("`design.file`"), "{said}");
    let exported = site.printed(&["design", "export"]);
    assert_eq!(exported.lines().count(), 1 + 24, "{exported}");
    reload(&site, &exported);
    let done = |output: &str| output.contains("cables as designed: 24 of 24 (100 %)");
    wait_output(&site, &["design"], done);

    site.rsmctl(&["sim", "swap", "leaf-01:5", "leaf-02:6"]);
    let design = wait_output(&site, &["design"], |output| output.contains("22 of 24"));
    assert!(
        design.contains("cables as designed: 22 of 24 (91 %), 2 wrong"),
        "{design}"
    );
    assert!(
        design.contains("1 move makes the others right:"),
        "{design}"
    );
    assert!(design.contains("   1  swap the plugs in "), "{design}");
    assert!(
        design.lines().all(|line| line.chars().count() <= 100),
        "{design}"
    );
    let status = site.printed(&["status"]);
    assert!(
        status.contains("22 of 24 cables as designed (91 %)"),
        "{status}"
    );
    let findings = ["findings", "--all", "--wide"];
    let found = site.printed(&findings);
    let kinds = [
        "cables-exchanged",
        "cable-miswired",
        "cable-missing",
        "cable-extra",
    ];
    let about = found
        .lines()
        .filter(|line| kinds.iter().any(|kind| line.contains(kind)));
    assert_eq!(about.count(), 1, "one cause is one finding: {found}");
    assert!(found.contains("cables-exchanged"), "{found}");
    for end in [
        "leaf-01 port 5 leads to spine-02 port 2",
        "leaf-02 port 6 leads to spine-01 port 1",
        "leaf-01 port 5 to spine-01 port 1",
    ] {
        assert!(found.contains(end), "{end}: {found}");
    }
    let (_, report) = site.told(&["report"]);
    assert!(
        report.contains("22 of 24 cables as designed, 0 not seen, 1 move to make"),
        "{report}"
    );
    let moves = get(site.address(), "/api/v1/design-moves").json();
    assert_eq!(moves["moves"][0]["kind"], "swap", "{moves}");

    // rsm refuses a file with a mistake, names the line, and keeps the former design.
    reload(&site, &format!("{exported}leaf-01,Port 5\n"));
    let refused = wait_output(&site, &findings, |output| output.contains("config-refused"));
    assert!(
        refused.contains("design.csv:26:1: error: 2 fields"),
        "{refused}"
    );
    let design = site.printed(&["design"]);
    assert!(design.contains("22 of 24"), "{design}");
    reload(&site, &exported);

    site.rsmctl(&["sim", "swap", "leaf-01:5", "leaf-02:6"]);
    wait_output(&site, &["design"], done);
    let clear = |output: &str| !output.contains("cable") && !output.contains("config-refused");
    wait_output(&site, &findings, clear);

    // The cable of a host without power is not seen, but not wrong.
    site.rsmctl(&["sim", "power-off", "host-007"]);
    let design = wait_output(&site, &["design"], |output| output.contains("23 of 24"));
    assert!(design.contains("1 not seen"), "{design}");
    assert!(!design.contains("   1  "), "no move: {design}");
}
