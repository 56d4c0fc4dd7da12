//! Reads the variables with which a distribution's service starts OpenSM: `PORTS` on Debian;
//! `GUIDS` and `PRIORITY` on Red Hat.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rsm_config::{ConfigFinding, ConfigSeverity, Findings};
use rsm_ids::Guid;

use super::line;
use super::source::{Files, SourceError};

/// Files by distribution: Debian, Red Hat.
const FILES: [&str; 2] = ["/etc/default/opensm", "/etc/sysconfig/opensm"];

/// Variable of Debian's service with the ports to manage.
const PORTS: &str = "PORTS";
/// Variable of Red Hat's service with the GUIDs of the ports to manage.
const GUIDS: &str = "GUIDS";
/// Variable of Red Hat's service with the priority.
const PRIORITY: &str = "PRIORITY";
/// Variable that OpenSM itself reads from its environment: the folder of its tables.
const CACHE: &str = "OSM_CACHE_DIR";
/// Variables that affect only other programs.
const IGNORED: [&str; 1] = ["OSM_HOSTS"];

/// Highest priority (SMInfo.Priority, IBA 14.4.1).
const PRIORITY_MAX: u8 = 15;

/// Subnet prefix that Red Hat's service gives to the manager of the first GUID. The prefixes of the
/// other managers count up from it, in decimal digits.
const FIRST_PREFIX: u64 = 0xfe80_0000_0000_0000;

/// Variables of a file.
#[derive(Debug)]
pub(super) struct Sysconfig {
    file: PathBuf,
    /// Line and value of each variable, by name.
    variables: BTreeMap<String, (usize, String)>,
}

/// Port that OpenSM manages, each value with its place as `FILE:LINE`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChosenPort {
    /// GUID of the port; `None` if the service names none.
    pub(super) guid: Option<(Guid, String)>,
    /// Subnet prefix; `None` if the service passes none.
    pub(super) prefix: Option<(u64, String)>,
}

impl Sysconfig {
    /// Reads the variables of the first file that exists; `None` if there is none.
    pub(super) fn read(
        files: &mut Files,
        findings: &mut Vec<ConfigFinding>,
    ) -> Result<Option<Sysconfig>, SourceError> {
        for path in FILES {
            let path = files.under(Path::new(path));
            let Some(text) = files.text(&path, findings)? else {
                continue;
            };
            let (sysconfig, reported) = Sysconfig::parse(&path, &text);
            files.set_content(&path, format!("{} variables", sysconfig.variables.len()));
            findings.extend(reported);
            return Ok(Some(sysconfig));
        }
        Ok(None)
    }

    /// Parses the assignments of `text`. The last assignment of a variable applies.
    fn parse(file: &Path, text: &str) -> (Sysconfig, Vec<ConfigFinding>) {
        let mut findings = Findings::new(file, text);
        let mut variables = BTreeMap::new();
        let mut offset = 0;
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let start = offset + line.len() - line.trim_start().len();
            offset += line.len();
            let content = line.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let mut warn = |found: String, expected: &str| {
                findings.at(text, start, ConfigSeverity::Warning, found, expected);
            };
            let Some((name, value)) = assignment(content) else {
                warn(
                    format!("`{content}`"),
                    "expected NAME=VALUE or NAME=\"VALUE\" without variables: the line is not read",
                );
                continue;
            };
            if IGNORED.contains(&name) {
                continue;
            }
            if ![PORTS, GUIDS, PRIORITY, CACHE].contains(&name) {
                warn(
                    format!("{name} is not read"),
                    "expected PORTS, GUIDS, PRIORITY or OSM_CACHE_DIR: set its effect in rsm's configuration",
                );
                continue;
            }
            if variables
                .insert(name.to_owned(), (number, value.to_owned()))
                .is_some()
            {
                warn(
                    format!("{name} again"),
                    "the last one counts: delete the other",
                );
            }
        }
        let file = file.to_owned();
        (Sysconfig { file, variables }, findings.finish())
    }

    /// Value of a variable, with its place as `FILE:LINE`; `None` if it is absent or empty.
    fn get(&self, name: &str) -> Option<(&str, String)> {
        let (number, value) = self.variables.get(name)?;
        let value = value.trim();
        let place = format!("{}:{number}", self.file.display());
        (!value.is_empty()).then_some((value, place))
    }

    /// Folder of OpenSM's tables; `None` for the default.
    pub(super) fn cache(&self) -> Option<&Path> {
        let (_, value) = self.variables.get(CACHE)?;
        Some(Path::new(value.trim())).filter(|path| !path.as_os_str().is_empty())
    }

    /// Port that OpenSM manages: the only port in `PORTS` or `GUIDS`, or `requested` if there are
    /// several.
    ///
    /// # Errors
    /// There are several ports, and `requested` is none of them.
    pub(super) fn port(
        &self,
        requested: Option<Guid>,
        findings: &mut Vec<ConfigFinding>,
    ) -> Result<ChosenPort, SourceError> {
        let Some((name, value, place)) = [GUIDS, PORTS].into_iter().find_map(|name| {
            let (value, place) = self.get(name)?;
            Some((name, value, place))
        }) else {
            return Ok(ChosenPort::default());
        };
        if name == PORTS && value == "ALL" {
            findings.push(line::finding(
                &place,
                ConfigSeverity::Warning,
                "PORTS is ALL: OpenSM manages the subnet of each cabled port of this host".to_owned(),
                "this is the configuration of one port: run rsm migrate once for each, with its own --guid, --output \
                 and --state-dir, or the subnets of the others have no manager"
                    .to_owned(),
            ));
            return Ok(ChosenPort::default());
        }
        if name == PORTS && value == "NONE" {
            findings.push(line::finding(
                &place,
                ConfigSeverity::Warning,
                "PORTS is NONE".to_owned(),
                "OpenSM does not start on this host: see that rsm is to run here".to_owned(),
            ));
            return Ok(ChosenPort::default());
        }
        let mut ports = Vec::new();
        for word in value
            .split([' ', '\t', ','])
            .filter(|word| !word.is_empty())
        {
            match word.parse::<Guid>() {
                Ok(guid) if !guid.is_zero() => ports.push(guid),
                _ => findings.push(line::finding(
                    &place,
                    ConfigSeverity::Error,
                    format!("{name} has `{word}`"),
                    "expected GUIDs of ports, 1 to 16 hexadecimal digits after 0x".to_owned(),
                )),
            }
        }
        let chosen = match (requested, &ports[..]) {
            (_, []) => return Ok(ChosenPort::default()),
            (None, [_]) => 0,
            (Some(requested), _) if ports.contains(&requested) => ports
                .iter()
                .position(|&port| port == requested)
                .unwrap_or(0),
            _ => return Err(SourceError::Ports { place, ports }),
        };
        let prefix = (name == GUIDS)
            .then(|| prefix(chosen))
            .flatten()
            .map(|prefix| (prefix, place.clone()));
        let guid = ports.get(chosen).map(|&guid| (guid, place));
        Ok(ChosenPort { guid, prefix })
    }

    /// Priority that the service gives to OpenSM, with the place that names it; `None` if the
    /// service gives none.
    pub(super) fn priority(&self, findings: &mut Vec<ConfigFinding>) -> Option<(u8, String)> {
        let (value, place) = self.get(PRIORITY)?;
        // The comments of Red Hat's file describe both `15` and `-p 15`.
        let digits = value.strip_prefix("-p").unwrap_or(value).trim();
        match digits.parse::<u8>() {
            Ok(priority) if priority <= PRIORITY_MAX => Some((priority, place)),
            _ => {
                findings.push(line::finding(
                    &place,
                    ConfigSeverity::Error,
                    format!("PRIORITY is `{value}`"),
                    format!("expected an integer from 0 to {PRIORITY_MAX}"),
                ));
                None
            }
        }
    }
}

/// Subnet prefix of the manager of GUID number `index`. Red Hat's service writes the decimal digits
/// of the number in place of hexadecimal digits of the prefix. `None` if the digits do not fit.
fn prefix(index: usize) -> Option<u64> {
    let number = u64::from_str_radix(&index.to_string(), 16).ok()?;
    Some(FIRST_PREFIX | number)
}

/// Splits a shell's assignment into name and value; `None` for an assignment that requires a
/// shell's expansion.
fn assignment(content: &str) -> Option<(&str, &str)> {
    let content = content.strip_prefix("export ").unwrap_or(content);
    let (name, value) = content.split_once('=')?;
    let name = name.trim_start();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_word) {
        return None;
    }
    let (value, rest) = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value[1..].split_once(quote)?,
        _ => value.split_at(value.find([' ', '\t']).unwrap_or(value.len())),
    };
    let rest = rest.trim();
    let is_whole = rest.is_empty() || rest.starts_with('#');
    (is_whole && !value.contains(['$', '`', '\\'])).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Sysconfig, Vec<ConfigFinding>) {
        Sysconfig::parse(Path::new("opensm"), text)
    }

    fn port(text: &str, requested: Option<Guid>) -> Result<ChosenPort, SourceError> {
        let (sysconfig, findings) = parse(text);
        assert_eq!(findings, []);
        sysconfig.port(requested, &mut Vec::new())
    }

    #[test]
    fn single_port_of_debian_is_chosen_and_all_leaves_the_choice_to_rsm() {
        let chosen = port("# ports\r\nPORTS=\"0x12\" # ib0\r\n", None).unwrap();
        assert_eq!(chosen.guid, Some((Guid(0x12), "opensm:2".to_owned())));
        assert_eq!(chosen.prefix, None);
        for text in [
            "PORTS=ALL\n",
            "PORTS=NONE\n",
            "#PORTS=0x1\n",
            "PORTS=\n",
            "",
        ] {
            assert_eq!(port(text, None).unwrap(), ChosenPort::default(), "{text}");
        }
    }

    #[test]
    fn each_port_of_red_hat_has_a_subnet_prefix_of_its_own() {
        let text = "GUIDS=\"0x1 0x2 0x3\"\n";
        assert!(
            matches!(port(text, None), Err(SourceError::Ports { ports, .. }) if ports.len() == 3)
        );
        assert!(port(text, Some(Guid(9))).is_err());
        let chosen = port(text, Some(Guid(3))).unwrap();
        assert_eq!(chosen.guid.unwrap().0, Guid(3));
        assert_eq!(chosen.prefix.unwrap().0, 0xfe80_0000_0000_0002);
        assert_eq!(prefix(10), Some(0xfe80_0000_0000_0010));
    }

    #[test]
    fn lines_that_need_a_shell_and_wrong_values_are_findings() {
        let text =
            "PORTS=$(ibstat -p)\nPORTS=\"0x1\nPRIORITY=16\nOPTIONS=-B\nGUIDS=0xzz\nPRIORITY=3\n";
        let (sysconfig, findings) = parse(text);
        let lines: Vec<_> = findings.iter().map(|f| f.line).collect();
        assert_eq!(lines, [1, 2, 4, 6]);
        let mut findings = Vec::new();
        assert_eq!(sysconfig.priority(&mut findings).unwrap().0, 3);
        assert_eq!(findings, []);
        sysconfig.port(None, &mut findings).unwrap();
        assert_eq!(findings[0].severity, ConfigSeverity::Error);
        let (sysconfig, _) = parse("PRIORITY=16\n");
        assert_eq!(sysconfig.priority(&mut findings), None);
        assert_eq!(findings.len(), 2);
    }
}
