use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::json;

use super::*;

/// A key pair for tokens, and the public key as a JWKS.
pub(crate) struct Issuer {
    key: EncodingKey,
    pub(crate) jwks: Value,
}

impl Issuer {
    pub(crate) fn new(id: &str) -> Issuer {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let key = EncodingKey::from_ec_der(&pair.serialize_der());
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(id.to_owned());
        Issuer {
            key,
            jwks: json!({ "keys": [jwk] }),
        }
    }

    pub(crate) fn sign(&self, id: &str, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(id.to_owned());
        encode(&header, claims, &self.key).unwrap()
    }
}

fn settings() -> TokenSettings {
    TokenSettings {
        issuer: "https://issuer".to_owned(),
        audience: "rsm".to_owned(),
        roles_claim: "roles".to_owned(),
    }
}

fn now() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    since.as_secs()
}

fn claims() -> Value {
    json!({ "iss": "https://issuer", "aud": ["other", "rsm"], "sub": "alice",
            "exp": now() + 600, "roles": ["blue", "ops"] })
}

fn with(key: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[key] = value;
    claims
}

#[test]
fn a_valid_token_gives_its_subject_and_roles() {
    let issuer = Issuer::new("a");
    let verifier = TokenVerifier::parse(&issuer.jwks.to_string(), settings()).unwrap();
    let identity = verifier.verify(&issuer.sign("a", &claims())).unwrap();
    assert_eq!(identity.subject, "alice");
    assert_eq!(identity.roles, ["blue", "ops"]);
    let text = with("roles", json!("one two"));
    let identity = verifier.verify(&issuer.sign("a", &text)).unwrap();
    assert_eq!(identity.roles, ["one", "two"]);
}

#[test]
fn token_with_a_wrong_claim_key_or_signature_is_refused_with_the_reason() {
    let issuer = Issuer::new("a");
    let verifier = TokenVerifier::parse(&issuer.jwks.to_string(), settings()).unwrap();
    let refusal = |token: &str| verifier.verify(token).unwrap_err().to_string();
    for (claims, part) in [
        (with("exp", json!(now() - 3600)), "expired"),
        (with("exp", json!("soon")), "refused"),
        (with("exp", Value::Null), "refused"),
        (with("nbf", json!(now() + 3600)), "not valid yet"),
        (with("iss", json!("https://other")), "issuer"),
        (with("aud", json!("other")), "audience"),
        (with("aud", Value::Null), "refused"),
        (with("sub", Value::Null), "refused"),
        (with("sub", json!("")), "no subject"),
        (with("sub", json!(" ")), "no subject"),
    ] {
        let refusal = refusal(&issuer.sign("a", &claims));
        assert!(refusal.contains(part), "{claims}: {refusal}");
    }
    assert!(refusal(&issuer.sign("b", &claims())).contains("key id `b`"));
    let foreign = Issuer::new("a").sign("a", &claims());
    assert!(refusal(&foreign).contains("signature"));
    let mut unsigned = issuer.sign("a", &claims());
    unsigned.truncate(unsigned.rfind('.').unwrap() + 1);
    assert!(!refusal(&unsigned).is_empty());
    assert!(refusal("x.y").contains("no JSON Web Token"));
    assert!(refusal(&"x".repeat(MAX_TOKEN_BYTES + 1)).contains("bytes"));
}

#[test]
fn a_token_signed_with_the_public_key_as_a_secret_is_refused() {
    let issuer = Issuer::new("a");
    let verifier = TokenVerifier::parse(&issuer.jwks.to_string(), settings()).unwrap();
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("a".to_owned());
    let secret = EncodingKey::from_secret(issuer.jwks.to_string().as_bytes());
    let token = encode(&header, &claims(), &secret).unwrap();
    assert!(verifier.verify(&token).is_err());
}

#[test]
fn broken_key_sets_are_refused() {
    let symmetric = json!({ "keys": [{ "kty": "oct", "k": "c2VjcmV0" }] }).to_string();
    let cut = Issuer::new("a").jwks.to_string();
    for (text, part) in [
        ("", "no JSON"),
        (&cut[..cut.len() / 2], "no JSON"),
        ("{}", "no list"),
        (r#"{"keys":[]}"#, "found 0"),
        (r#"{"keys":[{"kty":"new"}]}"#, "key 1"),
        (symmetric.as_str(), "symmetric"),
    ] {
        let error = TokenVerifier::parse(text, settings()).unwrap_err();
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
    let unset = TokenVerifier::parse(&cut, TokenSettings::default()).unwrap_err();
    assert!(unset.to_string().contains("jwt_issuer"));
}
