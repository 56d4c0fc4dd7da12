//! Posts events as JSON to a webhook.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rsm_proto::with_causes;

use super::Outcome;
use super::connect::connect;
use crate::json;
use crate::settings::HttpTarget;
use crate::source::{Record, Source};

/// A webhook. Each request has a connection of its own.
pub(crate) struct Webhook {
    target: HttpTarget,
    source: Source,
}

impl Webhook {
    /// Creates a sender.
    pub(super) fn new(target: HttpTarget, source: Source) -> Webhook {
        Webhook { target, source }
    }

    /// Posts records in one request.
    pub(super) async fn send(&self, records: &[Record]) -> Outcome {
        let request = match self.request(json::body(&self.source, records)) {
            Ok(request) => request,
            Err(why) => return Outcome::failed(why),
        };
        match self.post(request).await {
            Ok(response) => outcome(&response),
            Err(why) => Outcome::failed(why),
        }
    }

    /// Creates the request with this body.
    fn request(&self, body: Vec<u8>) -> Result<Request<Full<Bytes>>, String> {
        let target = &self.target;
        let access = target.access.as_ref().map_err(Clone::clone)?;
        let is_default = target.port == if target.tls { 443 } else { 80 };
        let authority = target.authority();
        let host = match authority.rsplit_once(':').filter(|_| is_default) {
            Some((host, _)) => host,
            None => &authority,
        };
        let mut request = Request::post(&target.path)
            .header(header::HOST, host)
            .header(header::CONTENT_TYPE, "application/json")
            .header(
                header::USER_AGENT,
                concat!("rsm/", env!("CARGO_PKG_VERSION")),
            )
            .header(header::CONNECTION, "close");
        for (name, value) in &access.headers {
            let mut value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body)));
        // The text of this error may quote the path, which may be a secret.
        request.map_err(|_| "the path of webhook_url or a header cannot be sent".to_owned())
    }

    /// Sends a request, and waits for the response.
    async fn post(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        let stream = connect(&self.target, b"http/1.1").await;
        let stream = stream.map_err(|error| with_causes(&error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| with_causes(&error))?;
        let answer = sender.send_request(request);
        tokio::pin!(connection, answer);
        let mut is_open = true;
        loop {
            tokio::select! {
                answered = &mut answer => return answered.map_err(|error| with_causes(&error)),
                _ended = &mut connection, if is_open => is_open = false,
            }
        }
    }
}

/// Outcome that a response states.
fn outcome(response: &Response<Incoming>) -> Outcome {
    let status = response.status();
    let why = format!("HTTP {status}");
    match status {
        _ if status.is_success() => Outcome::TAKEN,
        StatusCode::BAD_REQUEST
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNPROCESSABLE_ENTITY => Outcome::Refused(why),
        _ => Outcome::Failed {
            why,
            pause: pause(response),
        },
    }
}

/// The pause that a response asks for; `None` if it asks for none, or states a date.
fn pause(response: &Response<Incoming>) -> Option<Duration> {
    let value = response.headers().get(header::RETRY_AFTER)?;
    let seconds = value.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
