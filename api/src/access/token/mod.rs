use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, KeyAlgorithm};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::Value;

/// The maximum number of keys in a JWKS file.
pub(super) const MAX_KEYS: usize = 64;

/// The maximum size of a JWKS file in bytes.
pub const MAX_JWKS_BYTES: usize = 1 << 20;

/// The maximum length of a token in bytes: HTTP/2 servers refuse longer headers anyway.
pub(super) const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The maximum number of values of the claim with roles; further ones are ignored.
pub(super) const MAX_CLAIM_VALUES: usize = 64;

/// The maximum difference between the clocks of rsm and of the issuer, in seconds.
const LEEWAY_S: u64 = 30;

/// The claims that a token must have.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TokenSettings {
    /// The value of the claim `iss`.
    pub issuer: String,
    /// A value that the claim `aud` must contain.
    pub audience: String,
    /// The name of the claim with the names of roles: a text with names separated by blanks, or a
    /// list of texts.
    pub roles_claim: String,
}

/// Verifies bearer tokens (JWT, RFC 7519) with the public keys of a JWKS file (RFC 7517).
#[derive(Debug)]
pub struct TokenVerifier {
    keys: Vec<VerifyingKey>,
    settings: TokenSettings,
}

struct VerifyingKey {
    /// The key ID (`kid`); `None` if the file has none.
    id: Option<String>,
    /// The signature algorithms for which the key may be used.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl std::fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("VerifyingKey");
        debug.field("id", &self.id).finish_non_exhaustive()
    }
}

/// The error of a JWKS file that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct JwksError(String);

/// The reason why a token is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TokenError(String);

/// The identity in a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TokenIdentity {
    /// The value of the claim `sub`.
    pub(super) subject: String,
    /// The values of the claim with roles.
    pub(super) roles: Vec<String>,
}

impl TokenVerifier {
    /// Reads the text of a JWKS file. Symmetric keys are refused: with one, every reader of the
    /// file could sign tokens.
    ///
    /// # Errors
    /// The text is not a JWKS or has no usable key, or a text in `settings` is empty.
    pub fn parse(text: &str, settings: TokenSettings) -> Result<TokenVerifier, JwksError> {
        let failed = |reason: String| JwksError(reason);
        let TokenSettings {
            issuer,
            audience,
            roles_claim,
        } = &settings;
        if issuer.is_empty() || audience.is_empty() || roles_claim.is_empty() {
            return Err(failed(
                "jwt_issuer, jwt_audience and jwt_roles_claim must be set with jwks_file"
                    .to_owned(),
            ));
        }
        let set: Value = serde_json::from_str(text)
            .map_err(|error| failed(format!("it is no JSON: {error}")))?;
        let Some(keys) = set.get("keys").and_then(Value::as_array) else {
            return Err(failed(
                "it has no list `keys`: expected a JSON Web Key Set".to_owned(),
            ));
        };
        if keys.is_empty() || keys.len() > MAX_KEYS {
            return Err(failed(format!(
                "expected 1 to {MAX_KEYS} keys, found {}",
                keys.len()
            )));
        }
        let read = |(number, key): (usize, &Value)| {
            verifying_key(key).map_err(|reason| failed(format!("key {number}: {reason}")))
        };
        let keys = (1..).zip(keys).map(read).collect::<Result<_, _>>()?;
        Ok(TokenVerifier { keys, settings })
    }

    /// The identity in a token.
    ///
    /// # Errors
    /// The signature, the issuer, the audience or a time is not valid.
    pub(super) fn verify(&self, token: &str) -> Result<TokenIdentity, TokenError> {
        let failed = |reason: String| TokenError(reason);
        if token.len() > MAX_TOKEN_BYTES {
            return Err(failed(format!(
                "the token has {} bytes, at most {MAX_TOKEN_BYTES} are read",
                token.len()
            )));
        }
        let header = decode_header(token)
            .map_err(|error| failed(format!("the token is no JSON Web Token ({error})")))?;
        let key = self.key(header.kid.as_deref(), header.alg)?;
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&[&self.settings.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY_S;
        let decoded = decode::<Value>(token, &key.key, &validation)
            .map_err(|error| failed(self.refusal(&error)))?;
        let claims = decoded.claims;
        let subject = claims.get("sub").and_then(Value::as_str);
        // The audit log needs the name of an identity.
        let Some(subject) = subject.filter(|subject| !subject.trim().is_empty()) else {
            return Err(failed("the token has no subject (`sub`)".to_owned()));
        };
        Ok(TokenIdentity {
            subject: subject.to_owned(),
            roles: values(claims.get(&self.settings.roles_claim)),
        })
    }

    /// The key that a token's header names, by key ID and algorithm. A header without a key ID
    /// names the only key for its algorithm; several such keys are an error.
    fn key(&self, id: Option<&str>, algorithm: Algorithm) -> Result<&VerifyingKey, TokenError> {
        let fits = |key: &&VerifyingKey| key.algorithms.contains(&algorithm);
        let mut keys = self.keys.iter().filter(fits);
        let key = match id {
            Some(id) => keys.find(|key| key.id.as_deref() == Some(id)),
            None => keys.next().filter(|_| keys.next().is_none()),
        };
        key.ok_or_else(|| {
            let name = id.map_or("no key id".to_owned(), |id| {
                format!("key id `{}`", id.escape_debug())
            });
            TokenError(format!(
                "the token names {name} and {algorithm:?}: the JWKS file has no such key"
            ))
        })
    }

    fn refusal(&self, error: &jsonwebtoken::errors::Error) -> String {
        use jsonwebtoken::errors::ErrorKind;
        let TokenSettings {
            issuer, audience, ..
        } = &self.settings;
        match error.kind() {
            ErrorKind::ExpiredSignature => "the token has expired: get a new one".to_owned(),
            ErrorKind::ImmatureSignature => {
                "the token is not valid yet: compare the clocks of its issuer and of rsm".to_owned()
            }
            ErrorKind::InvalidIssuer => format!("the token is not from the issuer `{issuer}`"),
            ErrorKind::InvalidAudience => format!("the token is not for the audience `{audience}`"),
            ErrorKind::InvalidSignature => "the signature of the token is wrong".to_owned(),
            _ => format!("the token is refused ({error})"),
        }
    }
}

/// Reads one key of a JWKS file.
fn verifying_key(value: &Value) -> Result<VerifyingKey, String> {
    let jwk: Jwk = serde_json::from_value(value.clone())
        .map_err(|error| format!("it is no JSON Web Key this server can use ({error})"))?;
    let of_kind: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            jsonwebtoken::jwk::EllipticCurve::P256 => &[Algorithm::ES256],
            jsonwebtoken::jwk::EllipticCurve::P384 => &[Algorithm::ES384],
            _ => return Err("its curve is not P-256 or P-384".to_owned()),
        },
        AlgorithmParameters::OctetKeyPair(_) => &[Algorithm::EdDSA],
        _ => return Err("it is symmetric: expected a public key (RSA, EC or OKP)".to_owned()),
    };
    let algorithms = match jwk.common.key_algorithm {
        None => of_kind.to_vec(),
        Some(named) => {
            let named = algorithm(named).filter(|named| of_kind.contains(named));
            vec![named.ok_or("its `alg` does not fit the kind of key")?]
        }
    };
    let key = DecodingKey::from_jwk(&jwk).map_err(|error| error.to_string())?;
    Ok(VerifyingKey {
        id: jwk.common.key_id,
        algorithms,
        key,
    })
}

fn algorithm(named: KeyAlgorithm) -> Option<Algorithm> {
    named.to_string().parse().ok()
}

/// The role names in a claim, at most [`MAX_CLAIM_VALUES`]; empty if the claim is missing or is
/// neither a text nor a list.
fn values(claim: Option<&Value>) -> Vec<String> {
    let words =
        |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    let mut values: Vec<String> = match claim {
        Some(Value::String(text)) => words(text),
        Some(Value::Array(list)) => {
            let texts = list.iter().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    values.truncate(MAX_CLAIM_VALUES);
    values
}

#[cfg(test)]
mod tests;
