//! Exports events as logs by gRPC (OTLP).

use std::io;

use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use rsm_proto::with_causes;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status};
use tower::service_fn;

use super::Outcome;
use super::connect::connect;
use crate::otlp;
use crate::settings::HttpTarget;
use crate::source::{Record, Source};

/// A collector, and the connection to it.
pub(crate) struct Otlp {
    target: HttpTarget,
    source: Source,
    channel: Option<Channel>,
}

impl Otlp {
    /// Creates a sender without a connection.
    pub(super) fn new(target: HttpTarget, source: Source) -> Otlp {
        Otlp {
            target,
            source,
            channel: None,
        }
    }

    /// Exports records, and connects first if there is no connection.
    pub(super) async fn send(&mut self, records: &[Record]) -> Outcome {
        let mut request = Request::new(otlp::request(&self.source, records));
        if let Err(why) = self.add_headers(&mut request) {
            return Outcome::failed(why);
        }
        let channel = match self.channel.take() {
            Some(channel) => channel,
            None => match self.connect().await {
                Ok(channel) => channel,
                Err(error) => return Outcome::failed(with_causes(&error)),
            },
        };
        let answer = LogsServiceClient::new(channel.clone())
            .export(request)
            .await;
        match answer {
            Ok(response) => {
                self.channel = Some(channel);
                let partial = response.into_inner().partial_success.unwrap_or_default();
                let rejected = u64::try_from(partial.rejected_log_records).unwrap_or(0);
                Outcome::Taken { rejected }
            }
            Err(status) => failure(&status),
        }
    }

    /// Adds the headers of the settings to a request.
    fn add_headers<T>(&self, request: &mut Request<T>) -> Result<(), String> {
        let access = self.target.access.as_ref().map_err(Clone::clone)?;
        for (name, value) in &access.headers {
            let unsendable = || format!("header {name} cannot be sent");
            let key = AsciiMetadataKey::from_bytes(name.as_bytes()).map_err(|_| unsendable())?;
            let value = AsciiMetadataValue::try_from(value.as_str()).map_err(|_| unsendable())?;
            request.metadata_mut().insert(key, value);
        }
        Ok(())
    }

    /// Connects to the collector.
    async fn connect(&self) -> Result<Channel, tonic::transport::Error> {
        // The connector's stream performs TLS, so the channel uses plain HTTP.
        let endpoint = Endpoint::from_shared(format!("http://{}", self.target.authority()))?;
        let target = self.target.clone();
        let connector = service_fn(move |_: Uri| {
            let target = target.clone();
            async move { Ok::<_, io::Error>(TokioIo::new(connect(&target, b"h2").await?)) }
        });
        endpoint.connect_with_connector(connector).await
    }
}

/// Outcome of a request that the collector answered with an error.
fn failure(status: &Status) -> Outcome {
    let why = format!("gRPC {:?}: {}", status.code(), with_causes(status));
    match status.code() {
        Code::InvalidArgument => Outcome::Refused(why),
        _ => Outcome::failed(why),
    }
}
