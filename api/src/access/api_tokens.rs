use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::roles_file::role;
use crate::role::Grant;

/// The maximum number of tokens in a file.
const MAX_TOKENS: usize = 10_000;

/// The maximum size of a file of tokens, in bytes.
pub const MAX_API_TOKENS_BYTES: usize = 4 << 20;

/// The maximum length of a token's name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The length of a new token in bytes, before its encoding as text. Tokens are random, so that a
/// digest without salt and rounds is enough.
pub const TOKEN_BYTES: usize = 32;

/// The tokens of the REST interface. Each line of the file has a name, an expiry in seconds since
/// the Unix epoch, the SHA-256 of the token in hexadecimal, and roles as in the file of roles.
///
/// ```text
/// ib-kubernetes 1798761600 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 operate
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ApiTokens {
    by_digest: BTreeMap<[u8; 32], ApiToken>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct ApiToken {
    name: String,
    /// The expiry, in seconds since the Unix epoch.
    ends: u64,
    grant: Grant,
}

/// The error of a line in the file of tokens that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ApiTokensError {
    /// The line number, from 1.
    pub line: usize,
    /// The error, and the expected form.
    pub reason: String,
}

impl ApiTokens {
    /// Reads the text of a file of tokens.
    ///
    /// # Errors
    /// The first malformed line; if there is one, nothing of the file is used.
    pub fn parse(text: &str) -> Result<ApiTokens, ApiTokensError> {
        let mut tokens = ApiTokens::default();
        for (line, words) in (1..).zip(text.lines()) {
            let failed = |reason: String| ApiTokensError { line, reason };
            let words = words.trim();
            if words.is_empty() || words.starts_with('#') {
                continue;
            }
            let (digest, token) = entry(words).map_err(failed)?;
            if tokens.by_digest.len() >= MAX_TOKENS {
                return Err(failed(format!("at most {MAX_TOKENS} tokens are read")));
            }
            let named = tokens.by_digest.values().any(|one| one.name == token.name);
            if named || tokens.by_digest.insert(digest, token).is_some() {
                let reason = "its name or its digest is on a line before: remove one of the two";
                return Err(failed(reason.to_owned()));
            }
        }
        Ok(tokens)
    }

    /// The line of a token in the file.
    ///
    /// # Errors
    /// The name or a role is not valid.
    pub fn line(name: &str, ends: u64, token: &str, roles: &[String]) -> Result<String, String> {
        let digest = hex::encode(digest(token.as_bytes()));
        let line = format!("{name} {ends} {digest} {}", roles.join(" "));
        entry(&line).map(|_| line)
    }

    /// The name of the token on a line of the file; `None` for comments and empty lines.
    pub fn name_on(line: &str) -> Option<&str> {
        let name = line.split_whitespace().next()?;
        (!name.starts_with('#')).then_some(name)
    }

    /// The name and rights for the value of a header `authorization`: `Bearer TOKEN`, `Basic TOKEN`
    /// or `Basic` with the name and the token in Base64. `None` if the value has no token of the
    /// file.
    ///
    /// # Errors
    /// The token has expired at `now`, in seconds since the Unix epoch.
    pub(super) fn find(&self, value: &[u8], now: u64) -> Result<Option<(&str, &Grant)>, String> {
        let text = std::str::from_utf8(value).ok();
        let Some((scheme, rest)) = text.and_then(|text| text.split_once(' ')) else {
            return Ok(None);
        };
        let rest = rest.trim();
        let is_basic = scheme.eq_ignore_ascii_case("basic");
        if !is_basic && !scheme.eq_ignore_ascii_case("bearer") {
            return Ok(None);
        }
        let mut found = self.by_digest.get(&digest(rest.as_bytes()));
        if found.is_none() && is_basic {
            let pair = STANDARD.decode(rest).ok();
            let pair = pair.and_then(|bytes| String::from_utf8(bytes).ok());
            found = pair.as_deref().and_then(|pair| {
                let (name, token) = pair.split_once(':')?;
                let token = self.by_digest.get(&digest(token.as_bytes()))?;
                (token.name == name).then_some(token)
            });
        }
        match found {
            Some(token) if token.ends <= now => Err(format!(
                "the token {} has ended: make a new one",
                token.name
            )),
            found => Ok(found.map(|token| (token.name.as_str(), &token.grant))),
        }
    }
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Parses a line of the file into the digest of a token, and the token.
fn entry(line: &str) -> Result<([u8; 32], ApiToken), String> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(plain) {
        return Err(format!(
            "`{}` is no name of a token: expected up to {MAX_NAME_BYTES} letters, digits, dots, dashes, `_` or `@`",
            name.escape_debug()
        ));
    }
    let ends = words.next().and_then(|word| word.parse().ok());
    let ends = ends.ok_or("expected the end of the token, in seconds since 1970")?;
    let digest = words.next().and_then(|word| hex::decode(word).ok());
    let digest = digest.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let digest = digest.ok_or("expected the SHA-256 of the token, 64 hexadecimal digits")?;
    let mut grant = Grant::NONE;
    for word in words {
        grant.add(&role(word)?);
    }
    if grant == Grant::NONE {
        return Err(
            "there is no role: expected read, operate, tenant:P_KEYS, admin or secrets".to_owned(),
        );
    }
    let name = name.to_owned();
    Ok((digest, ApiToken { name, ends, grant }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> ApiTokens {
        let line = |name: &str, ends, token: &str, role: &str| {
            ApiTokens::line(name, ends, token, &[role.to_owned()]).expect("it is right")
        };
        let text = format!(
            "# tokens\n\n{}\n{}\n",
            line("kube", 100, "secret-1", "operate"),
            line("blue", 50, "secret-2", "tenant:0x10-0x1f")
        );
        assert!(!text.contains("secret"), "only digests are in the file");
        ApiTokens::parse(&text).expect("it is right")
    }

    #[test]
    fn token_is_found_in_each_form_of_the_header_and_under_its_own_name_only() {
        let tokens = tokens();
        let pair = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        let find = |value: &str| {
            let found = tokens.find(value.as_bytes(), 49).expect("none has ended");
            found.map(|(name, grant)| format!("{name} {grant}"))
        };
        let kube = Some("kube operate".to_owned());
        for value in [
            "Bearer secret-1",
            "Basic secret-1",
            "basic  secret-1",
            &pair("kube:secret-1"),
        ] {
            assert_eq!(find(value), kube, "{value}");
        }
        assert_eq!(
            find("Bearer secret-2").as_deref(),
            Some("blue tenant:0x10-0x1f")
        );
        for value in [
            "secret-1",
            "Digest secret-1",
            "Bearer secret-3",
            "Bearer kube:secret-1",
            "Basic !!!",
            &pair("blue:secret-1"),
            &pair("kube:"),
            "Basic ",
        ] {
            assert_eq!(find(value), None, "{value}");
        }
        assert_eq!(tokens.find(b"Bearer \xff", 0), Ok(None));
    }

    #[test]
    fn expired_token_is_refused_with_its_name() {
        let refused = tokens()
            .find(b"Bearer secret-2", 50)
            .expect_err("it has ended");
        assert!(refused.contains("blue has ended"), "{refused}");
        assert!(
            tokens()
                .find(b"Bearer secret-1", 99)
                .expect("it has not")
                .is_some()
        );
    }

    #[test]
    fn malformed_and_duplicate_lines_are_refused_with_their_line_number() {
        let digest = "00".repeat(32);
        for (text, line, part) in [
            (
                format!("a 1 {digest} read\na 1 {} read", "11".repeat(32)),
                2,
                "a line before",
            ),
            (
                format!("a 1 {digest} read\nb 1 {digest} read"),
                2,
                "a line before",
            ),
            (format!("a 1 {digest}"), 1, "no role"),
            (format!("a 1 {digest} tenant:0x7fff"), 1, "no P_Key"),
            (format!("a x {digest} read"), 1, "the end"),
            ("a 1 00 read".to_owned(), 1, "SHA-256"),
            (format!("a:b 1 {digest} read"), 1, "no name"),
        ] {
            let error = ApiTokens::parse(&text).expect_err("it is wrong");
            assert_eq!(error.line, line, "{text}");
            assert!(error.reason.contains(part), "{text}: {error}");
        }
    }
}
