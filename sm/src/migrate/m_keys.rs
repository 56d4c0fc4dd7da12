//! Reads the M_Keys of `guid2mkey`, with which OpenSM reaches ports that have a foreign key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rsm_config::{ConfigSeverity, Findings, guid2mkey_entry};
use rsm_ids::Guid;

use super::source::{Files, SourceError};
use super::{Migration, line};

impl Migration {
    /// Adopts the M_Keys of ports. If all ports hold one key and the configuration has none, this
    /// key becomes the configured one; otherwise rsm tries the keys of the file where a port does
    /// not accept the configured key.
    pub(super) fn read_m_keys(
        &mut self,
        files: &mut Files,
        cache: &Path,
    ) -> Result<(), SourceError> {
        let path = cache.join("guid2mkey");
        let Some(text) = files.text(&path, &mut self.findings)? else {
            return Ok(());
        };
        let mut findings = Findings::new(&path, &text);
        let mut keys: BTreeMap<Guid, (usize, u64)> = BTreeMap::new();
        let mut offset = 0;
        for (line, content) in (1..).zip(text.split_inclusive('\n')) {
            let start = offset;
            offset += content.len();
            if content.trim().is_empty() {
                continue;
            }
            match guid2mkey_entry(content) {
                Some((port, key)) => {
                    keys.insert(port, (line, key));
                }
                // The line may contain a key, so the finding does not show it.
                None => findings.at(
                    &text,
                    start,
                    ConfigSeverity::Warning,
                    "the line is dropped",
                    "expected `0xGUID 0xM_KEY`",
                ),
            }
        }
        self.findings.extend(findings.finish());
        files.set_content(&path, format!("M_Keys of {} ports", keys.len()));
        let distinct: BTreeSet<u64> = keys.values().map(|(_, key)| *key).collect();
        let (Some(&only), 1) = (distinct.first(), distinct.len()) else {
            self.use_key_table(&path, &keys);
            return Ok(());
        };
        if only != 0 && self.config.sm.m_key == 0 {
            let line = keys.values().map(|(line, _)| *line).min().unwrap_or(1);
            let place = format!("{}:{line}", path.display());
            self.findings.push(line::finding(
                &place,
                ConfigSeverity::Warning,
                "all ports hold one M_Key, and the configuration has none".to_owned(),
                "sm.m_key is that key, so that rsm reaches the ports".to_owned(),
            ));
            self.config.sm.m_key = only;
            self.origins.set("sm", "m_key", place);
            return Ok(());
        }
        self.use_key_table(&path, &keys);
        Ok(())
    }

    /// Makes rsm try the keys of the file, with a finding that names the first port whose key
    /// differs from the configured one. Does nothing if no key differs.
    fn use_key_table(&mut self, path: &Path, keys: &BTreeMap<Guid, (usize, u64)>) {
        let own = self.config.sm.m_key;
        let mut others = keys.iter().filter(|(_, (_, key))| *key != own && *key != 0);
        let Some((guid, (line, _))) = others.next() else {
            return;
        };
        let more = others.count();
        self.findings.push(line::finding(
            &format!("{}:{line}", path.display()),
            ConfigSeverity::Warning,
            format!("port {guid} and {more} more hold another M_Key than the configuration has"),
            "sm.m_key_table_file names this file: keep it until rsm has given those ports its own key"
                .to_owned(),
        ));
        let place = path.display().to_string();
        self.config.sm.m_key_table_file = Some(path.to_owned());
        self.origins.set("sm", "m_key_table_file", place);
    }
}
