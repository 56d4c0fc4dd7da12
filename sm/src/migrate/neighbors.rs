//! The cables of `neighbors`, by which OpenSM finds the M_Keys of ports. rsm reads cables from the
//! fabric: the file only tells which ports the table of LIDs should have.

use std::collections::BTreeSet;
use std::path::Path;

use rsm_ids::Guid;

use super::source::{Files, SourceError};
use super::{Migration, line};
use crate::config::{ConfigSeverity, Findings, number};

/// A port of a cable: GUID, and number at its node.
type End = (Guid, u8);

impl Migration {
    /// Compares the ports of cables with those that have LIDs. Switches are there by their GUID.
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
        let mut cables: BTreeSet<(End, End)> = BTreeSet::new();
        let mut offset = 0;
        for content in text.split_inclusive('\n') {
            let start = offset;
            offset += content.len();
            if content.trim().is_empty() {
                continue;
            }
            match entry(content) {
                // Each cable is there from both ends.
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
        files.note(
            &path,
            format!("{} cables, which rsm reads from the fabric", cables.len()),
        );
        let ends = cables.iter().flat_map(|&(a, b)| [a.0, b.0]);
        let ports: BTreeSet<Guid> = ends.collect();
        let mut without = ports.iter().filter(|port| !self.claims.contains_key(port));
        if self.claims.is_empty() {
            return Ok(());
        }
        if let Some(first) = without.next() {
            let more = without.count();
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

fn entry(line: &str) -> Option<(End, End)> {
    let mut words = line.split_whitespace();
    let mut end = || {
        let (guid, port) = words.next()?.split_once(':')?;
        let guid = number(guid).filter(|&guid| guid != 0)?;
        Some((Guid(guid), port.parse().ok().filter(|&port| port != 0)?))
    };
    let cable = (end()?, end()?);
    words.next().is_none().then_some(cable)
}
