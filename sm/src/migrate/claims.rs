//! Reads the LIDs of `guid2lid`.

use std::collections::BTreeMap;
use std::path::Path;

use rsm_config::{ConfigFinding, ConfigSeverity, Guid2Lid, parse_guid2lid};
use rsm_ids::{Guid, Lmc};
use rsm_model::LidClaim;

use super::source::{Files, SourceError};
use super::{Migration, line};

/// Port GUID → LIDs that OpenSM gave to the port.
pub type Claims = BTreeMap<Guid, LidClaim>;

impl Migration {
    /// Reads the LIDs, and their LMC, from OpenSM's table in the folder `cache`.
    pub(super) fn read_claims(
        &mut self,
        files: &mut Files,
        cache: &Path,
    ) -> Result<(), SourceError> {
        let path = cache.join("guid2lid");
        let Some(text) = files.text(&path, &mut self.findings)? else {
            self.findings.push(line::finding(
                &path.display().to_string(),
                ConfigSeverity::Warning,
                "there is no such file".to_owned(),
                "ports keep the LIDs that they hold; a port that is off now gets another one later"
                    .to_owned(),
            ));
            return Ok(());
        };
        if !text.is_empty() && !text.ends_with('\n') {
            let lines = text.lines().count();
            self.findings.push(line::finding(
                &format!("{}:{lines}", path.display()),
                ConfigSeverity::Warning,
                "the file ends within a line".to_owned(),
                "expected a line feed: ports that are not in the part that was written keep only the LIDs that they hold"
                    .to_owned(),
            ));
        }
        let table = parse_guid2lid(&path, &text);
        self.findings.extend(table.findings.iter().cloned());
        self.adopt_lmc(&path, &table);
        if let Some(guid) = self.config.sm.guid
            && !table.claims.is_empty()
            && !table.claims.contains_key(&guid)
        {
            let place = self.origins.of("sm", "guid").unwrap_or_default().to_owned();
            self.findings.push(absent_port(&place, guid, &path));
        }
        files.set_content(&path, format!("LIDs of {} ports", table.claims.len()));
        self.claims = table.claims;
        Ok(())
    }

    /// Adopts the LMC of the table if the configuration has a different one: OpenSM's option `-l`
    /// overrides its configuration, and ports must keep all their LIDs.
    fn adopt_lmc(&mut self, path: &Path, table: &Guid2Lid) {
        let widest = table.claims.iter().max_by_key(|(guid, claim)| {
            // The finding names the first of several lines.
            let line = table.lines.get(guid).copied().unwrap_or(usize::MAX);
            (claim.lmc, std::cmp::Reverse(line))
        });
        let Some((guid, claim)) = widest else {
            return;
        };
        let configured = self.config.lids.lmc;
        // A port of a switch has one LID, and a table may contain only such ports.
        if claim.lmc == configured || claim.lmc == Lmc::ZERO {
            return;
        }
        let line = table.lines.get(guid).copied().unwrap_or(1);
        let place = format!("{}:{line}", path.display());
        self.findings.push(line::finding(
            &place,
            ConfigSeverity::Warning,
            format!(
                "port {guid} has {} LIDs, as LMC {} gives, and the configuration has LMC {configured}",
                claim.lmc.lids(),
                claim.lmc,
            ),
            format!("lids.lmc = {}, so that ports keep their LIDs", claim.lmc),
        ));
        self.config.lids.lmc = claim.lmc;
        self.origins.set("lids", "lmc", place);
    }
}

/// Finding about the managed port `guid`, which the table at `path` lacks.
fn absent_port(place: &str, guid: Guid, path: &Path) -> ConfigFinding {
    line::finding(
        place,
        ConfigSeverity::Warning,
        format!("port {guid} is not in {}", path.display()),
        "expected the table of the subnet that this port is in: see that it is the right one; LIDs that ports hold win over it"
            .to_owned(),
    )
}
