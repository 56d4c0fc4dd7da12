//! Reads the cables of `neighbors`, with which OpenSM finds the M_Keys of ports. rsm reads cables
//! from the fabric; the file only shows which ports the table of LIDs should contain, and which
//! cables OpenSM's routes used.

use std::collections::BTreeSet;
use std::path::Path;

use rsm_config::{CableEnd, ConfigSeverity, Findings, neighbors_entry};
use rsm_ids::Guid;

use super::source::{Files, SourceError};
use super::{Migration, line};

impl Migration {
    /// Reads the cables, and reports ports with a cable that have no LID in OpenSM's table. The
    /// file names switches by their node GUID.
    pub(super) fn read_neighbors(
        &mut self,
        files: &mut Files,
        cache: &Path,
    ) -> Result<(), SourceError> {
        let path = cache.join("neighbors");
        let Some(text) = files.text(&path, &mut self.findings)? else {
            return Ok(());
        };
        let mut findings = Findings::new(&path, &text);
        let mut cables: BTreeSet<(CableEnd, CableEnd)> = BTreeSet::new();
        let mut offset = 0;
        for content in text.split_inclusive('\n') {
            let start = offset;
            offset += content.len();
            if content.trim().is_empty() {
                continue;
            }
            match neighbors_entry(content) {
                // The file lists each cable from both ends.
                Some((a, b)) => {
                    cables.insert((a.min(b), a.max(b)));
                }
                None => {
                    let shown: String = content.trim().chars().take(60).collect();
                    findings.at(
                        &text,
                        start,
                        ConfigSeverity::Warning,
                        format!("`{}`", shown.escape_debug()),
                        "expected `0xGUID:PORT 0xGUID:PORT`: the line is dropped",
                    );
                }
            }
        }
        self.findings.extend(findings.finish());
        files.set_content(
            &path,
            format!("{} cables, which rsm reads from the fabric", cables.len()),
        );
        if self.config.sm.m_key_table_file.is_some() && !cables.is_empty() {
            let place = path.display().to_string();
            self.config.sm.m_key_neighbors_file = Some(path.clone());
            self.origins.set("sm", "m_key_neighbors_file", place);
        }
        let ends = cables.iter().flat_map(|&(a, b)| [a.0, b.0]);
        let ports: BTreeSet<Guid> = ends.collect();
        self.cables = cables;
        let mut without_lid = ports.iter().filter(|port| !self.claims.contains_key(port));
        if self.claims.is_empty() {
            return Ok(());
        }
        if let Some(first) = without_lid.next() {
            let more = without_lid.count();
            self.findings.push(line::finding(
                &path.display().to_string(),
                ConfigSeverity::Warning,
                format!("port {first} and {more} more have a cable, and no LID in guid2lid"),
                "they keep the LIDs that they hold: see that both files are of this subnet and of one time".to_owned(),
            ));
        }
        Ok(())
    }
}
