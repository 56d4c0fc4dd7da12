//! Parser of rate limits in the format of `enhanced_qos_policy_file` of NVIDIA's manager: section
//! `BW_NAMES` names rates, and section `BW_RULES` assigns rates to the service levels of ports.
//!
//! ```text
//! BW_NAMES
//! slow = 1000
//! BW_RULES
//! default = 0:slow
//! 0x0002c90000000025 = 5:slow, 7:slow
//! ```
//!
//! Rates are in Mb/s. The rate 0 means no limit, and a service level that a rule omits has no
//! limit. Rule `default` applies to GUIDs without a rule. Rules about groups of ports are errors:
//! they refer to a file of another format, which rsm does not read.

use std::collections::BTreeMap;
use std::path::Path;

use rsm_ids::Guid;
use rsm_mad::wire::attr::QosConfigSl;

use super::finding::{ConfigFinding, ConfigSeverity};
use super::line_file::{Comments, LineFile};
use super::value::digits;

/// Limit of each service level in Mb/s; 0 for no limit.
pub type LevelLimits = [u32; QosConfigSl::LEVELS];

/// Rate limits of ports and virtual ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    rules: BTreeMap<Guid, LevelLimits>,
    /// Limits of GUIDs without a rule.
    default: LevelLimits,
}

impl RateLimits {
    /// The limits of the port or virtual port with this GUID.
    pub fn of(&self, guid: Guid) -> &LevelLimits {
        self.rules.get(&guid).unwrap_or(&self.default)
    }

    /// Number of GUIDs with a rule.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether no GUID has a rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// The section that a line is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BandwidthSection {
    Names,
    Rules,
}

/// State of the parser.
#[derive(Default)]
struct RateLimitParser<'a> {
    /// Section of the current line; `None` before the first section.
    section: Option<BandwidthSection>,
    /// Rates in Mb/s by name.
    names: BTreeMap<&'a str, u32>,
    limits: RateLimits,
    has_default: bool,
}

/// Expected forms, for errors about lines that cannot be parsed.
const EXPECTED_SECTION: &str = "expected BW_NAMES or BW_RULES before anything else";
const EXPECTED_NAME: &str = "expected a name, = and a rate in Mb/s, 0 to 1048575";
const EXPECTED_RULE: &str =
    "expected a GUID or default, =, and service levels with names of rates: 5:slow, 7:fast";

/// Parses the file. Returns the limits and the findings. The limits are usable only if no finding
/// is an error: otherwise a port would send without its limit.
pub fn parse_rate_limits(file: &Path, text: &str) -> (RateLimits, Vec<ConfigFinding>) {
    let mut lines = LineFile::new(file, text, Comments::Anywhere);
    let mut parser = RateLimitParser::default();
    let mut is_blank = true;
    lines.each(|line| {
        is_blank = false;
        parser.parse_line(line.text).map_err(|why| line.error(why))
    });
    if is_blank {
        let expected = "adapters keep the limits that they hold";
        lines.about_all(ConfigSeverity::Warning, "no limit", expected);
    }
    (parser.limits, lines.finish())
}

impl<'a> RateLimitParser<'a> {
    /// Parses a line. The error is the expected form, or the reason why the line is invalid.
    fn parse_line(&mut self, line: &'a str) -> Result<(), &'static str> {
        match line {
            "BW_NAMES" => self.section = Some(BandwidthSection::Names),
            "BW_RULES" => self.section = Some(BandwidthSection::Rules),
            _ => match self.section.ok_or(EXPECTED_SECTION)? {
                BandwidthSection::Names => self.parse_name(line)?,
                BandwidthSection::Rules => self.parse_rule(line)?,
            },
        }
        Ok(())
    }

    /// Parses a line of BW_NAMES: a name and a rate.
    fn parse_name(&mut self, line: &'a str) -> Result<(), &'static str> {
        let (name, rate) = line.split_once('=').ok_or(EXPECTED_NAME)?;
        let (name, rate) = (name.trim(), rate.trim());
        let rate = decimal(rate).filter(|&rate| rate <= QosConfigSl::LIMIT_MAX);
        let rate = rate.ok_or(EXPECTED_NAME)?;
        if name.is_empty() || name.contains([':', ',']) {
            return Err(EXPECTED_NAME);
        }
        match self.names.insert(name, rate) {
            None => Ok(()),
            Some(_) => Err("the name has a rate already"),
        }
    }

    /// Parses a line of BW_RULES: a GUID or `default`, and the limits.
    fn parse_rule(&mut self, line: &'a str) -> Result<(), &'static str> {
        let (of, levels) = line.split_once('=').ok_or(EXPECTED_RULE)?;
        let limits = self.levels(levels)?;
        let of = of.trim();
        if of == "default" {
            self.limits.default = limits;
            return match std::mem::replace(&mut self.has_default, true) {
                false => Ok(()),
                true => Err("there is a default already"),
            };
        }
        if !of.starts_with("0x") {
            return Err("groups of ports are not known here: give the GUIDs of ports rules");
        }
        let guid = digits(of).map(Guid).filter(|guid| !guid.is_zero());
        match self.limits.rules.insert(guid.ok_or(EXPECTED_RULE)?, limits) {
            None => Ok(()),
            Some(_) => Err("the GUID has a rule already"),
        }
    }

    /// Parses service levels with names of rates. Service levels that are not named have no limit.
    fn levels(&self, text: &str) -> Result<LevelLimits, &'static str> {
        let mut limits: [Option<u32>; QosConfigSl::LEVELS] = [None; QosConfigSl::LEVELS];
        for part in text.split(',') {
            let (level, name) = part.split_once(':').ok_or(EXPECTED_RULE)?;
            let level = decimal(level.trim()).ok_or(EXPECTED_RULE)?;
            let slot = limits.get_mut(level as usize);
            let slot = slot.ok_or("service levels are 0 to 15")?;
            let rate = self.names.get(name.trim());
            let rate =
                rate.ok_or("no line of BW_NAMES before this one has the name of the rate")?;
            if slot.replace(*rate).is_some() {
                return Err("the rule has a service level twice");
            }
        }
        Ok(limits.map(Option::unwrap_or_default))
    }
}

/// Parses decimal digits; `parse` alone would also accept a sign.
fn decimal(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> (RateLimits, usize) {
        let (limits, findings) = parse_rate_limits(Path::new("limits"), text);
        (limits, findings.len())
    }

    /// The examples are taken from UFM's manual.
    #[test]
    fn rules_set_rates_of_service_levels_by_guid() {
        let text = "# of the manual\nBW_NAMES\nMy_bandwidth = 50\nfast=1048575\n\nBW_RULES\n\
                    0x2c90000000025 = 5:My_bandwidth, 7:My_bandwidth\ndefault = 0 : fast # others\n";
        let (limits, errors) = parsed(text);
        assert_eq!(errors, 0);
        let mut expected = [0; 16];
        (expected[5], expected[7]) = (50, 50);
        assert_eq!(limits.of(Guid(0x2_C900_0000_0025)), &expected);
        let mut default = [0; 16];
        default[0] = 0xF_FFFF;
        assert_eq!(limits.of(Guid(7)), &default);
        assert_eq!(limits.len(), 1);
    }

    #[test]
    fn guids_without_a_rule_have_no_limit_without_a_default() {
        let (limits, errors) = parsed("BW_NAMES\nBW_RULES\n");
        assert_eq!((limits.of(Guid(1)), errors), (&[0; 16], 0));
        assert!(limits.is_empty());
        // A blank file limits nothing, and a finding says so.
        assert_eq!(parsed(""), (RateLimits::default(), 1));
    }

    #[test]
    fn ambiguous_and_malformed_lines_are_errors() {
        for line in [
            "Port_grp1 = 3:a",
            "0x1 = 16:a",
            "0x1 = 3:b",
            "0x1 = 3:a, 3:a",
            "0x1 = 3",
            "0x1 = ",
            "0x1",
            "0x0 = 3:a",
            "0xG = 3:a",
            "0x1 = +3:a",
            "0x2 = 1:a\n0x2 = 1:a",
            "default = 1:a\ndefault = 1:a",
            "BW_NAMES\na = 7",
            "BW_NAMES\nb = 1048576",
            "BW_NAMES\nb = -1",
            "BW_NAMES\nb = 1 Mbps",
            "BW_NAMES\n= 1",
            "BW_NAMES\nb",
        ] {
            let text = format!("BW_NAMES\na = 1\nBW_RULES\n{line}\n");
            assert_eq!(parsed(&text).1, 1, "{line}");
        }
        assert_eq!(parsed("a = 1\n").1, 1, "before any section");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(BW_NAMES|BW_RULES|0x[0-9a-f]{0,17}|[a-z]{0,3}|[=:,# \n]|[0-9]{1,8}|.){0,40}") {
            let (_, findings) = parse_rate_limits(Path::new("limits"), &text);
            prop_assert!(findings.len() <= text.split('\n').count());
        }
    }
}
