use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::identity::Certificate;
use crate::role::{Grant, Role};

/// The maximum number of lines with roles: ten for each of a thousand teams.
pub(super) const MAX_LINES: usize = 10_000;

/// The maximum size of a file of roles, in bytes.
pub const MAX_ROLES_BYTES: usize = 4 << 20;

/// The file of roles. Each line has a kind of name, a name, and roles.
///
/// ```text
/// # kind  name                          roles
/// uid     1001                          operate
/// gid     2000                          read
/// san     spiffe://fabric/provisioner   admin
/// cn      monitoring                    read
/// jwt     tenant-blue                   tenant:0x10-0x1f,0x30
/// user    alice                         read
/// group   ib-ops                        operate
/// ```
///
/// `san` and `cn` are names in client certificates, `jwt` is a value of a token's claim with roles,
/// `user` and `group` are names from a proxy that signs users on. An identity has the roles of all
/// lines that match it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RoleTable {
    grants: BTreeMap<(Kind, String), Grant>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Uid,
    Gid,
    San,
    Cn,
    Jwt,
    User,
    Group,
}

impl Kind {
    const ALL: [(&'static str, Kind); 7] = [
        ("uid", Kind::Uid),
        ("gid", Kind::Gid),
        ("san", Kind::San),
        ("cn", Kind::Cn),
        ("jwt", Kind::Jwt),
        ("user", Kind::User),
        ("group", Kind::Group),
    ];
}

/// The error of a line in the file of roles that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct RolesError {
    /// The line number, from 1.
    pub line: usize,
    /// The error, and the expected form.
    pub reason: String,
}

impl RoleTable {
    /// Reads the text of a file of roles.
    ///
    /// # Errors
    /// The first malformed line; if there is one, nothing of the file is used.
    pub fn parse(text: &str) -> Result<RoleTable, RolesError> {
        let mut table = RoleTable::default();
        let mut found = 0;
        for (number, line) in (1..).zip(text.lines()) {
            let failed = |reason| RolesError {
                line: number,
                reason,
            };
            let line = without_comment(line);
            if line.trim().is_empty() {
                continue;
            }
            found += 1;
            if found > MAX_LINES {
                return Err(failed(format!("at most {MAX_LINES} lines are read")));
            }
            let (key, grant) = entry(line).map_err(failed)?;
            table.grants.entry(key).or_default().add(&grant);
        }
        Ok(table)
    }

    /// The rights of a process, from its user and groups; `None` if no line names any of them.
    pub fn unix(&self, uid: u32, gids: &[u32]) -> Option<Grant> {
        let gids = gids.iter().map(|gid| (Kind::Gid, gid.to_string()));
        self.sum([(Kind::Uid, uid.to_string())].into_iter().chain(gids))
    }

    /// Whether a line names a group of processes.
    pub fn names_gids(&self) -> bool {
        self.grants.keys().any(|(kind, _)| *kind == Kind::Gid)
    }

    /// The rights of a certificate; `None` if no line has one of its names.
    pub fn certificate(&self, certificate: &Certificate) -> Option<Grant> {
        let common = certificate.common_names.iter();
        let names = certificate.alternative_names.iter();
        let common = common.map(|name| (Kind::Cn, name.clone()));
        self.sum(names.map(|name| (Kind::San, name.clone())).chain(common))
    }

    /// The rights for the values of a token's claim; `None` if no line has one of them.
    pub fn token(&self, values: &[String]) -> Option<Grant> {
        self.sum(values.iter().map(|value| (Kind::Jwt, value.clone())))
    }

    /// The rights of a user whom a proxy has signed on; `None` if no line names the user or one of
    /// the groups.
    pub fn user(&self, user: &str, groups: &[&str]) -> Option<Grant> {
        let groups = groups
            .iter()
            .map(|group| (Kind::Group, (*group).to_owned()));
        self.sum([(Kind::User, user.to_owned())].into_iter().chain(groups))
    }

    /// The sum of the grants of the lines with these keys; `None` if there is no such line.
    fn sum(&self, keys: impl Iterator<Item = (Kind, String)>) -> Option<Grant> {
        let mut found: Option<Grant> = None;
        for grant in keys.filter_map(|key| self.grants.get(&key)) {
            found.get_or_insert_default().add(grant);
        }
        found
    }
}

/// The line up to a `#` at its beginning or after a blank: names such as URIs may contain `#`.
fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    for (at, letter) in line.char_indices() {
        if letter == '#' && before.is_whitespace() {
            return &line[..at];
        }
        before = letter;
    }
    line
}

/// Parses a line without its comment: kind of name, name, and roles.
fn entry(line: &str) -> Result<((Kind, String), Grant), String> {
    let mut words = line.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let known = Kind::ALL.into_iter().find(|(name, _)| *name == kind);
    let Some((_, kind)) = known else {
        return Err(format!(
            "`{}` is no kind of name: expected uid, gid, san, cn, jwt, user or group",
            kind.escape_debug()
        ));
    };
    let Some(name) = words.next() else {
        return Err("there is no name: expected KIND NAME ROLE…".to_owned());
    };
    let name = match kind {
        Kind::Uid | Kind::Gid => number(kind, name)?.to_string(),
        _ => name.to_owned(),
    };
    let mut grant = Grant::NONE;
    for word in words {
        grant.add(&role(word)?);
    }
    if grant == Grant::NONE {
        return Err(
            "there is no role: expected read, report, operate, tenant:P_KEYS, admin or secrets"
                .to_owned(),
        );
    }
    Ok(((kind, name), grant))
}

fn number(kind: Kind, text: &str) -> Result<u32, String> {
    let number = text.parse().map_err(|_| {
        format!(
            "`{}` is no number: `id -u NAME` and `getent group NAME` tell it",
            text.escape_debug()
        )
    })?;
    if kind == Kind::Uid && number == 0 {
        return Err("user 0 has all roles, and needs no line".to_owned());
    }
    Ok(number)
}

/// Parses a role, such as `read` or `tenant:0x10-0x1f,0x30`.
pub(super) fn role(word: &str) -> Result<Grant, String> {
    if let Some(ranges) = word.strip_prefix("tenant:") {
        let ranges: Vec<_> = ranges.split(',').map(range).collect::<Result<_, _>>()?;
        return Ok(Grant::tenant(ranges));
    }
    let known = Role::ALL.into_iter().find(|role| role.name() == word);
    match known {
        Some(Role::Tenant) => {
            Err("a tenant needs P_Keys: expected for instance tenant:0x10-0x1f,0x30".to_owned())
        }
        Some(role) => Ok(Grant::of(&[role])),
        None => Err(format!(
            "`{}` is no role: expected read, report, operate, tenant:P_KEYS, admin or secrets",
            word.escape_debug()
        )),
    }
}

/// Parses a P_Key or a range of P_Keys, such as `0x10-0x1f`.
fn range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (p_key(first)?, p_key(last)?);
    if first > last {
        return Err(format!("`{}` ends before it begins", text.escape_debug()));
    }
    Ok(first..=last)
}

/// Parses a P_Key that a tenant may have, 0x1 to 0x7ffe: the default partition, 0x7fff, belongs to
/// all.
fn p_key(text: &str) -> Result<u16, String> {
    let digits = text.strip_prefix("0x");
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let number = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    number
        .filter(|number| (1..0x7fff).contains(number))
        .ok_or_else(|| {
            format!(
                "`{}` is no P_Key of a tenant: expected 0x1 to 0x7ffe",
                text.escape_debug()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_has_the_roles_of_all_matching_lines() {
        let table = RoleTable::parse(
            "# roles\nuid 1001 operate # a comment\ngid 7\ttenant:0x10-0x1f,0x30\n\n\
             san spiffe://f/a#b admin\ncn mon read\njwt blue tenant:0x5 read\njwt blue secrets\n",
        )
        .unwrap();
        let grant = table.unix(1001, &[1, 7]).unwrap();
        assert_eq!(grant.to_string(), "operate tenant:0x10-0x1f,0x30-0x30");
        assert_eq!(table.unix(1002, &[8]), None);
        let certificate = |common: &str, alternative: &str| Certificate {
            common_names: vec![common.to_owned()],
            alternative_names: vec![alternative.to_owned()],
            not_after: 0,
        };
        let admin = table.certificate(&certificate("x", "spiffe://f/a#b"));
        assert_eq!(admin, Some(Grant::of(&[Role::Admin])));
        // A common name is no alternative name.
        assert_eq!(
            table.certificate(&certificate("spiffe://f/a#b", "mon")),
            None
        );
        let blue = table.token(&["red".to_owned(), "blue".to_owned()]).unwrap();
        assert_eq!(blue.to_string(), "read tenant:0x5-0x5 secrets");
    }

    #[test]
    fn malformed_lines_are_refused_with_their_line_number() {
        for (text, line, part) in [
            ("uid 1 read\nwho 2 read", 2, "no kind"),
            ("uid", 1, "no name"),
            ("uid 1", 1, "no role"),
            ("uid root admin", 1, "no number"),
            ("uid 0 read", 1, "user 0"),
            ("uid 5000000000 read", 1, "no number"),
            ("cn a root", 1, "no role"),
            ("cn a tenant", 1, "needs P_Keys"),
            ("cn a tenant:", 1, "no P_Key"),
            ("cn a tenant:0x7fff", 1, "no P_Key"),
            ("cn a tenant:0x8010", 1, "no P_Key"),
            ("cn a tenant:0x+1", 1, "no P_Key"),
            ("cn a tenant:0x20-0x10", 1, "ends before"),
        ] {
            let error = RoleTable::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}");
            assert!(error.reason.contains(part), "{text}: {error}");
        }
    }
}
