//! Answers: bodies with their headers, errors, and conditional requests.

use std::hash::{DefaultHasher, Hasher as _};

use axum::body::{Body, Bytes};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use axum::http::{Response, StatusCode};
use serde::Serialize;
use tonic::{Code, Status};

/// An HTTP response.
pub(crate) type Reply = Response<Body>;

/// The media type of JSON (RFC 8259).
pub(crate) const JSON: &str = "application/json";

/// The content security policy: the page may load only its own files and contact only its own
/// server. Inline scripts, frames, forms and foreign origins are forbidden. Styles also come from a
/// file; the script sets single properties.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The headers of every answer.
const HEADERS: [(&str, &str); 6] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// Adds the headers of every answer.
pub(crate) fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}

/// An answer with a body.
pub(crate) fn body(status: StatusCode, media: &'static str, body: impl Into<Body>) -> Reply {
    let mut reply = Response::new(body.into());
    *reply.status_mut() = status;
    (reply.headers_mut()).insert(CONTENT_TYPE, HeaderValue::from_static(media));
    reply
}

/// An answer with a message as JSON.
pub(crate) fn json(message: &impl Serialize) -> Reply {
    match serde_json::to_vec(message) {
        Ok(text) => body(StatusCode::OK, JSON, text),
        Err(error) => failure(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("the answer cannot be written as JSON: {error}"),
        ),
    }
}

/// The JSON form of an error.
#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
}

/// An answer with an error, as JSON with its text.
pub(crate) fn failure(status: StatusCode, error: &str) -> Reply {
    // A struct with a string always has a JSON form.
    let text = serde_json::to_vec(&Failure { error }).unwrap_or_default();
    body(status, JSON, text)
}

/// The answer for the refusal of a gRPC service.
pub(crate) fn refusal(status: &Status) -> Reply {
    let code = match status.code() {
        Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::FailedPrecondition => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    failure(code, status.message())
}

/// The answer to a request whose identity, or whose role, does not suffice.
pub(crate) fn unauthorized(status: &Status) -> Reply {
    match status.code() {
        Code::Unauthenticated => failure(StatusCode::UNAUTHORIZED, status.message()),
        _ => refusal(status),
    }
}

/// The entity tag of bytes, in quotes.
pub(crate) fn etag(bytes: &[u8]) -> String {
    // SipHash with fixed keys gives equal bytes one tag in every process of one program.
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("\"{:016x}-{:x}\"", hasher.finish(), bytes.len())
}

/// An answer with bytes that the client may cache and revalidate, or 304 if the client has them.
pub(crate) fn tagged(request: &HeaderMap, media: &'static str, tag: &str, bytes: Bytes) -> Reply {
    let known = request
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|tags| tags.split(','))
        .any(|known| matches!(known.trim(), "*") || known.trim().trim_start_matches("W/") == tag);
    let mut reply = if known {
        let mut reply = Response::new(Body::empty());
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
        reply
    } else {
        body(StatusCode::OK, media, bytes)
    };
    if let Ok(tag) = HeaderValue::from_str(tag) {
        reply.headers_mut().insert(ETAG, tag);
    }
    (reply.headers_mut()).insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply
}

#[cfg(test)]
mod tests {
    use rsm_api::Reason;

    use super::*;

    #[test]
    fn request_with_the_current_tag_is_answered_without_bytes() {
        let tag = etag(b"page");
        assert_ne!(tag, etag(b"pagf"));
        let ask = |known: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::from_str(known).unwrap());
            tagged(&headers, JSON, &tag, Bytes::from_static(b"page")).status()
        };
        assert_eq!(ask(&tag), StatusCode::NOT_MODIFIED);
        assert_eq!(ask(&format!("\"x\", W/{tag}")), StatusCode::NOT_MODIFIED);
        assert_eq!(ask("*"), StatusCode::NOT_MODIFIED);
        assert_eq!(ask("\"other\""), StatusCode::OK);
    }

    #[test]
    fn refusals_of_grpc_have_the_matching_http_status() {
        for (reason, code) in [
            (Reason::InvalidField, StatusCode::BAD_REQUEST),
            (Reason::NoSuchName, StatusCode::NOT_FOUND),
            (Reason::Busy, StatusCode::TOO_MANY_REQUESTS),
            (Reason::Internal, StatusCode::INTERNAL_SERVER_ERROR),
        ] {
            let status = rsm_api::refusal(reason, "a");
            assert_eq!(refusal(&status).status(), code);
        }
    }
}
