//! Handles SIGHUP: reads the configuration again, and reports to the operator the effect of each
//! changed key.

use std::sync::Arc;

use rsm_api::{ActionLog as _, Outcome, v1};
use rsm_config::{Applies, ChangedKey, Config, ConfigError, Partitions};
use rsm_core::{CoreConfig, Event};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::partitions::all_losses;

use super::Shell;
use super::findings::DaemonPart;
use super::settings::{self, log_findings};

impl Shell {
    /// Reads the configuration and its files again. A configuration with errors changes nothing.
    pub(super) fn reload(&mut self) {
        self.service_manager.reloading();
        let event = match self.reloaded() {
            Ok((config, core_config)) => {
                let changed = self.report_changes(config);
                let cut_off = self.report_cut_off(&core_config.policy.partitions);
                self.view
                    .acted(reload_act(changed + &cut_off, Outcome::Done));
                self.partitions = core_config.policy.partitions.clone();
                self.checksums.clone_from(&core_config.mastership.checksums);
                Event::Reload(Box::new(core_config))
            }
            Err(error) => {
                let findings = settings::refusal(&error);
                let reason = findings.first().map(|finding| finding.text.clone());
                let reason = reason.unwrap_or_else(|| error.to_string());
                self.view
                    .acted(reload_act(String::new(), Outcome::Refused(reason)));
                for finding in &findings {
                    tracing::error!("{}", finding.text);
                }
                Event::Refused(findings)
            }
        };
        // The files of access control are read again even if the configuration is refused: a
        // renewed certificate must not wait for a corrected configuration.
        let mut api = self.config_read.api.clone();
        api.insecure_admin = self.options.config.api.insecure_admin;
        // Only the start decides whether tokens are used at all.
        let mut http = self.config_read.http.clone();
        http.ufm = self.options.config.http.ufm;
        self.access.reload(&api, &http);
        self.core.handle(event, self.clock.now());
        if let Some(snapshot) = &self.last {
            self.store_handle
                .announce(snapshot.own_guid, &self.checksums);
        }
        self.service_manager.reloaded();
    }

    /// Reads the configuration again, and converts it to the core's settings.
    fn reloaded(&self) -> Result<(Config, CoreConfig), ConfigError> {
        let mut config = match &self.options.config_file {
            Some(file) => {
                let loaded = Config::load(file)?;
                log_findings(&loaded.findings);
                loaded.config
            }
            None => Config::default(),
        };
        (self.options.overrides)(&mut config);
        let mut effective = config.clone();
        // The SA uses the key of the start, and the election must use the same key.
        effective.sm.sm_key = self.options.config.sm.sm_key;
        // At a start without a map, nodes keep their descriptions; at a reload, the names in force
        // stay.
        if let Some(file) = &effective.names.file {
            std::fs::metadata(file).map_err(|source| ConfigError::Read {
                path: file.clone(),
                source,
            })?;
        }
        let accept_credit_loops = self.options.accept_credit_loops;
        let partitions = Some(&*self.partitions);
        let mut core_config = settings::core_config(&effective, accept_credit_loops, partitions)?;
        core_config.mastership.shares_store = self.pauses.has_peers();
        if !core_config.mastership.shares_store && effective.sm.master_priority.is_none() {
            core_config.mastership.master_priority = 0;
        }
        Ok((config, core_config))
    }

    /// Warns of ports that the partitions `file` would cut off from others, compared with the
    /// partitions in force. Returns the warning in a few words, or an empty text if no port is cut
    /// off.
    fn report_cut_off(&self, file: &Arc<Partitions>) -> String {
        let Some(snapshot) = self.last.as_ref().filter(|_| self.partitions != *file) else {
            return String::new();
        };
        let [before, after] =
            [&self.partitions, file].map(|file| snapshot.overlay.over(file).partitions);
        let mut words = String::new();
        for (p_key, loss) in all_losses(&snapshot.fabric, &before, &after) {
            tracing::warn!("the partitions that were read again: partition {p_key}: {loss}");
            words.push_str(&format!("; ports cut off in {p_key}: {}", loss.ports));
        }
        words
    }

    /// Logs the keys that this reading changed, and reports the keys that require a restart.
    /// Returns the keys that are in effect.
    fn report_changes(&mut self, config: Config) -> String {
        let changed = self.config_read.changed_keys(&config);
        let in_effect = names(&changed, Applies::OnReload);
        if in_effect.is_empty() {
            tracing::info!("configuration read again; no key in effect has changed");
        } else {
            tracing::info!("configuration read again; in effect: {in_effect}");
        }
        // The comparison is with the start: a key that was changed and changed back requires no
        // restart.
        let since_start = self.options.config.changed_keys(&config);
        let findings = restart_needed(&since_start).into_iter().collect();
        self.findings.report(DaemonPart::Configuration, findings);
        self.counters
            .configure(super::counters::Settings::of(&config));
        self.records.notify.configure(&config);
        self.config_read = config;
        in_effect
    }
}

/// Event about a reading of the configuration: the changed keys that are in effect, or the reason
/// of a refusal. A signal does not reveal its sender.
fn reload_act(detail: String, outcome: Outcome) -> v1::OperatorActed {
    v1::OperatorActed {
        action: "reload".to_owned(),
        detail,
        operator: "SIGHUP".to_owned(),
        refusal: outcome.refusal(),
    }
}

/// Finding about changed keys that wait for the next start; `None` if no key waits.
fn restart_needed(changed: &[ChangedKey]) -> Option<Finding> {
    let keys = names(changed, Applies::AtStart);
    (!keys.is_empty()).then(|| {
        Finding::new(
            FindingKind::RestartNeeded,
            Subject::Subnet,
            Severity::Info,
            format!(
                "changes of {keys} in the configuration take effect at the next start: until then \
                 the values of the last start hold; restart rsm, which disturbs no traffic"
            ),
        )
    })
}

/// Names of the changed keys that take effect at the time `applies`, separated by commas.
fn names(changed: &[ChangedKey], applies: Applies) -> String {
    let selected = changed.iter().filter(|key| key.applies == applies);
    let names: Vec<String> = selected.map(ChangedKey::to_string).collect();
    names.join(", ")
}
