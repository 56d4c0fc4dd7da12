//! Flags of a definition, or of a line about a group.

use rsm_mad::wire::attr::Mtu;

use super::super::enums::TrustMode;
use super::super::suggest::one_of;
use super::model::Membership;
use super::report::{Report, quoted};
use super::syntax::{Item, Word};
use super::value;

/// Maximum length, in bytes, of a word for which a suggestion is made.
const SUGGEST_MAX: usize = 32;

/// Flags of a definition, which concern its partition and its groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags {
    pub(super) ipoib: bool,
    pub(super) index0: bool,
    /// Membership of members whose entry states none.
    pub(super) membership: Membership,
    /// Treatment of requests against the members; `None` if the definition does not state it.
    pub(super) trust: Option<TrustMode>,
    pub(super) group: GroupFlags,
}

/// Flags of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupFlags {
    pub(super) mtu: Mtu,
    /// Code of the rate, 2 to 24.
    pub(super) rate: u8,
    pub(super) sl: u8,
    /// Bit n stands for scope n.
    pub(super) scopes: u16,
    pub(super) q_key: u32,
    pub(super) t_class: u8,
    pub(super) flow_label: u32,
}

impl Default for Flags {
    fn default() -> Flags {
        Flags {
            ipoib: false,
            index0: false,
            membership: Membership::Limited,
            trust: None,
            group: GroupFlags {
                mtu: Mtu::Bytes2048,
                // Code of 10 Gb/s.
                rate: 3,
                sl: 0,
                scopes: 0,
                q_key: 0,
                t_class: 0,
                flow_label: 0,
            },
        }
    }
}

/// Parses the flags of a definition. Faulty flags are reported and skipped.
pub(super) fn definition_flags(
    items: &[Item<'_>],
    allow_both: bool,
    report: &mut Report<'_>,
) -> Flags {
    let mut flags = Flags::default();
    for item in items {
        if item.is_empty() {
            report.warning(item.name.offset, "nothing between two commas", "left out");
            continue;
        }
        let names = ["indx0", "ipoib", "defmember", "trust"];
        let Some(name) = flag_name(item.name, &names, report) else {
            continue;
        };
        match (name, item.value) {
            ("indx0" | "ipoib", Some(value)) => {
                let found = format!("{name} is {}", quoted(value.text));
                report.error(
                    value.offset,
                    found,
                    format!("expected {name} without a value"),
                );
            }
            ("indx0", None) => flags.index0 = true,
            ("ipoib", None) => flags.ipoib = true,
            ("defmember", value) => {
                let value = value.unwrap_or(Word {
                    text: "",
                    ..item.name
                });
                if let Some(given) = membership(value, allow_both, report) {
                    flags.membership = given;
                }
            }
            ("trust", value) => {
                let value = value.unwrap_or(Word {
                    text: "",
                    ..item.name
                });
                flags.trust = trust(value, report).or(flags.trust);
            }
            _ => group_flag(name, item, &mut flags.group, report),
        }
    }
    flags
}

/// The flags of a group.
const GROUP_FLAGS: [&str; 7] = ["mtu", "rate", "scope", "Q_Key", "TClass", "sl", "FlowLabel"];

/// The flag named `word`: one of `more`, or a flag of a group. If there is no such flag, reports an
/// error and returns `None`.
pub(super) fn flag_name(
    word: Word<'_>,
    more: &[&'static str],
    report: &mut Report<'_>,
) -> Option<&'static str> {
    let names: Vec<&'static str> = more.iter().copied().chain(GROUP_FLAGS).collect();
    find_name(word, "flag", &names, report)
}

/// The name in `names` that `word` equals or abbreviates. If there is none, reports an error about
/// `what` and returns `None`.
pub(super) fn find_name(
    word: Word<'_>,
    what: &str,
    names: &[&'static str],
    report: &mut Report<'_>,
) -> Option<&'static str> {
    match value::keyword(word.text, names) {
        Some(name) => {
            if name != word.text {
                report.warning(word.offset, quoted(word.text), format!("read as `{name}`"));
            }
            Some(name)
        }
        None => {
            let expected = if word.text.len() <= SUGGEST_MAX {
                one_of(word.text, names)
            } else {
                format!("expected one of {}", names.join(", "))
            };
            report.error(
                word.offset,
                format!("{what} {}", quoted(word.text)),
                expected,
            );
            None
        }
    }
}

/// Parses the value of a group's flag `name` into `flags`. Reports an error if the value is
/// invalid.
pub(super) fn group_flag(
    name: &str,
    item: &Item<'_>,
    flags: &mut GroupFlags,
    report: &mut Report<'_>,
) {
    let value = item.value.unwrap_or(Word {
        text: "",
        ..item.name
    });
    let text = value.text;
    let expected = match name {
        "mtu" => match value::mtu(text) {
            Some(mtu) => {
                flags.mtu = mtu;
                return;
            }
            None => "expected 256, 512, 1024, 2048 or 4096, or its code, 1 to 5",
        },
        "rate" => match value::rate(text) {
            Some(rate) => {
                flags.rate = rate;
                return;
            }
            None => "expected a rate such as 100G or 400G, or its code, 2 to 24",
        },
        "scope" => match value::within(text, 1, 15) {
            Some(scope) => {
                flags.scopes |= 1 << scope;
                return;
            }
            None => "expected a scope, 1 to 15",
        },
        "Q_Key" => match value::within(text, 0, u64::from(u32::MAX)) {
            Some(key) => {
                flags.q_key = key as u32;
                return;
            }
            None => "expected a Q_Key, 0 to 0xffffffff",
        },
        "TClass" => match value::within(text, 0, 0xff) {
            Some(class) => {
                flags.t_class = class as u8;
                return;
            }
            None => "expected a traffic class, 0 to 255",
        },
        "sl" => match value::within(text, 0, 15) {
            Some(sl) => {
                flags.sl = sl as u8;
                return;
            }
            None => "expected a service level, 0 to 15",
        },
        _ => match value::within(text, 0, 0xf_ffff) {
            Some(label) => {
                flags.flow_label = label as u32;
                return;
            }
            None => "expected a flow label, 0 to 0xfffff",
        },
    };
    report.error(
        value.offset,
        format!("{name} is {}", quoted(text)),
        expected,
    );
}

/// The treatment of requests that `word` names. If there is none, reports an error and returns
/// `None`.
fn trust(word: Word<'_>, report: &mut Report<'_>) -> Option<TrustMode> {
    let name = find_name(word, "trust", &TrustMode::ALL.map(TrustMode::name), report)?;
    TrustMode::ALL.into_iter().find(|mode| mode.name() == name)
}

/// The membership that `word` names. If there is none, reports an error and returns `None`.
pub(super) fn membership(
    word: Word<'_>,
    allow_both: bool,
    report: &mut Report<'_>,
) -> Option<Membership> {
    Some(
        match find_name(word, "membership", &["full", "limited", "both"], report)? {
            "full" => Membership::Full,
            "limited" => Membership::Limited,
            _ => {
                if !allow_both {
                    let expected = "it counts as full unless partitions.allow_both is set";
                    report.warning(word.offset, "`both`", expected);
                }
                Membership::Both
            }
        },
    )
}
