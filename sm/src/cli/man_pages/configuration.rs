//! `rsm.toml(5)`: every key of the configuration.

use std::fs;
use std::io;
use std::path::Path;

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use rsm_api::manual::{inlines, keep_words, literal, section_folder};
use rsm_config::{Applies, Config, KeyReference};

/// Section of the manual for file formats.
const SECTION: &str = "5";

/// Paragraphs of the section DESCRIPTION.
const DESCRIPTION: &[&str] = &[
    "The configuration of the InfiniBand subnet manager `rsm` is a TOML file: keys in \
     sections, and comments behind `#`. A key that the file does not have has its default.",
    "An error, such as an unknown key or a number out of range, changes nothing: at the start \
     rsm ends and names file, line and what was expected; at a reload the configuration in \
     force stays, and the finding `config-refused` gives the reason. `rsm check-config` FILE \
     reports errors beforehand, and `rsm check-config --sample` prints a file with every key.",
    "A running rsm reads the file again on SIGHUP (`systemctl reload rsm`). Some keys take \
     effect at the next start: their text says so, and the finding `restart-needed` names \
     them until then. Options of the command line win over the file.",
    "rsm also reads OpenSM's `opensm.conf`, where `--config` names one. The text of a key \
     names the key of OpenSM with the same effect; `opensm-keys.md` in /usr/share/doc/rsm \
     lists all keys of OpenSM.",
];

/// Text of the section EXAMPLES.
const EXAMPLE: &str = "\
[sm]
priority = 14

[lids]
lmc = 1

[routing]
engine = \"updn\"

[http]
listen = \"127.0.0.1:9316\"";

/// Paths of the section FILES, with their meanings.
const FILES: &[(&str, &str)] = &[
    ("/etc/rsm/rsm.toml", "The configuration of `rsm.service`."),
    (
        "/etc/rsm/NAME.toml",
        "The configuration of the instance `rsm@NAME.service`.",
    ),
    (
        "/etc/rsm/sa.key",
        "The key of requests that the SA trusts, where `sm.sa_key_file` names no other file.",
    ),
    (
        "/usr/share/doc/rsm/examples/rsm.toml",
        "Every key with its default.",
    ),
];

/// Writes the page into the manual folder `root`.
pub(super) fn write(root: &Path) -> io::Result<()> {
    let dir = section_folder(root, SECTION)?;
    fs::write(dir.join("rsm.toml.5"), page().render())
}

/// The whole page.
fn page() -> Roff {
    let mut page = Roff::new();
    let version = concat!("rsm ", env!("CARGO_PKG_VERSION"));
    page.control("TH", ["rsm.toml", SECTION, "", version, ""]);
    keep_words(&mut page);
    page.control("SH", ["NAME"]);
    page.text([roman(
        "rsm.toml - the configuration of the subnet manager rsm",
    )]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([italic("/etc/rsm/rsm.toml")]);
    page.control("SH", ["DESCRIPTION"]);
    for paragraph in DESCRIPTION {
        page.control("PP", []).text(inlines(paragraph));
    }
    for section in Config::reference() {
        page.control("SH", [format!("[{}]", section.name).as_str()]);
        page.text(inlines(section.about));
        for key in &section.keys {
            describe(&mut page, key);
        }
    }
    page.control("SH", ["EXAMPLES"]);
    literal(&mut page, EXAMPLE.lines());
    page.control("SH", ["FILES"]);
    for (path, meaning) in FILES {
        page.control("TP", []).text([italic(*path)]);
        page.text(inlines(meaning));
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([roman("rsm(8), rsmctl(1)")]);
    page
}

/// Maximum length in bytes of an example that stands within a line of text; a longer one stands
/// alone.
const EXAMPLE_WITHIN: usize = 50;

/// Adds a key: name and default, then its meaning, its values, OpenSM's name and an example.
fn describe(page: &mut Roff, key: &KeyReference) {
    page.control("TP", []);
    let mut heading: Vec<Inline> = vec![bold(key.name)];
    heading.push(match &key.default {
        Some(default) => roman(format!(" = {default}")),
        None => roman(" (not set)"),
    });
    page.text(heading);
    page.text(inlines(&key.doc.join(" ")));
    let mut facts = format!("Takes {}.", key.takes);
    if let Some(opensm_name) = key.opensm {
        facts += &format!(" OpenSM: `{opensm_name}`.");
    }
    if key.applies == Applies::AtStart {
        facts += " A change takes effect at the next start.";
    }
    let example = key.default.is_none().then_some(key.example);
    let is_short = example.is_none_or(|example| example.len() <= EXAMPLE_WITHIN);
    match example {
        Some(example) if is_short => facts += &format!(" Example: `{example}`."),
        Some(_) => facts += " Example:",
        None => {}
    }
    page.control("br", []).text(inlines(&facts));
    if let Some(example) = example
        && !is_short
    {
        literal(page, [example]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_sample_is_on_the_page() {
        let page = page().render();
        let sample = Config::sample();
        let keys = sample.lines().filter_map(|line| {
            let (key, _) = line.trim_start_matches('#').split_once(" = ")?;
            key.chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_')
                .then_some(key)
        });
        let mut seen = 0;
        for key in keys {
            assert!(page.contains(&format!("\n\\fB{key}\\fR")), "{key}");
            seen += 1;
        }
        assert!(seen > 100, "the sample has {seen} keys");
    }

    #[test]
    fn a_key_has_its_default_its_values_and_opensms_name() {
        let page = page().render();
        for text in [
            ".SH [sm]\n",
            "\\fBpriority\\fR = 0\n",
            "Takes an integer from 0 to 15. OpenSM: \\fBsm_priority\\fR.\n",
            "\\fBguid\\fR (not set)\n",
            ".nf\n[sm]\npriority = 14\n",
        ] {
            assert!(page.contains(text), "{text}");
        }
    }

    #[test]
    fn the_example_is_a_valid_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rsm.toml");
        fs::write(&file, EXAMPLE).unwrap();
        assert!(Config::load(&file).unwrap().findings.is_empty());
    }
}
