use std::collections::VecDeque;

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{
    LogsService, LogsServiceServer,
};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use super::*;

/// A collector that first answers as scripted, and then takes all records except those with
/// `poison`.
#[derive(Clone, Default)]
struct Collector {
    script: Arc<Mutex<VecDeque<Status>>>,
    taken: Arc<Mutex<Vec<ExportLogsServiceRequest>>>,
    /// Values of the header `authorization`.
    tokens: Arc<Mutex<Vec<String>>>,
}

#[tonic::async_trait]
impl LogsService for Collector {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        if let Some(status) = self.script.lock().pop_front() {
            return Err(status);
        }
        let token = request.metadata().get("authorization");
        let token = token.map(|token| token.to_str().unwrap().to_owned());
        self.tokens.lock().extend(token);
        let request = request.into_inner();
        let poison = bodies(&request)
            .iter()
            .filter(|body| body.contains("poison"))
            .count();
        self.taken.lock().push(request);
        let partial = ExportLogsPartialSuccess {
            rejected_log_records: poison as i64,
            error_message: String::new(),
        };
        Ok(Response::new(ExportLogsServiceResponse {
            partial_success: Some(partial),
        }))
    }
}

impl Collector {
    fn start(script: &[Status]) -> (Collector, u16) {
        let collector = Collector::default();
        collector.script.lock().extend(script.iter().cloned());
        let serving = collector.clone();
        let (port_sender, port_receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let port = listener.local_addr().unwrap().port();
                port_sender.send(port).unwrap();
                tonic::transport::Server::builder()
                    .add_service(LogsServiceServer::new(serving))
                    .serve_with_incoming(TcpListenerStream::new(listener))
                    .await
                    .unwrap();
            });
        });
        (collector, port_receiver.recv().unwrap())
    }

    fn bodies(&self) -> Vec<String> {
        self.taken.lock().iter().flat_map(bodies).collect()
    }
}

fn bodies(request: &ExportLogsServiceRequest) -> Vec<String> {
    let logs = request.resource_logs.iter().flat_map(|one| &one.scope_logs);
    let logs = logs.flat_map(|scope| &scope.log_records);
    logs.map(|log| match log.body.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        other => panic!("{other:?}"),
    })
    .collect()
}

fn settings(port: u16) -> Settings {
    let target = HttpTarget {
        path: "/".to_owned(),
        access: Ok(Access {
            headers: vec![("authorization".to_owned(), "Bearer SECRET".to_owned())],
            ca_pem: None,
        }),
        ..http(port)
    };
    Settings {
        otlp: Some(receiver(Target::Otlp(target))),
        ..Settings::default()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the collector is no server of rsm"
)]
#[test]
fn collector_gets_log_records_and_rejected_ones_are_counted() {
    let script = [
        Status::unavailable("later"),
        Status::invalid_argument("not these"),
    ];
    let (collector, port) = Collector::start(&script);
    let (notifier, _) = notifier(None, settings(port));
    put(&notifier, &["one", "poison", "three"], 1);
    wait_until(30, "all events", || counts(&notifier) == (2, 0, 1));
    let expected = [
        "host-missing: one",
        "host-missing: poison",
        "host-missing: three",
    ];
    assert_eq!(collector.bodies(), expected);
    assert!(
        collector
            .tokens
            .lock()
            .iter()
            .all(|token| token == "Bearer SECRET")
    );
    let request = collector.taken.lock()[0].clone();
    let resource = request.resource_logs[0].resource.clone().unwrap();
    let has = |key: &str, wanted: &str| {
        let value = Some(Value::StringValue(wanted.to_owned()));
        let mut all = resource.attributes.iter();
        all.any(|one| one.key == key && one.value.clone().unwrap().value == value)
    };
    assert!(
        has("service.name", "rsm") && has("host.name", "sm-1") && has("rsm.fabric", "sim:test")
    );
    let log = &request.resource_logs[0].scope_logs[0].log_records[0];
    assert_eq!(
        (log.severity_number, log.time_unix_nano),
        (17, 1_764_432_000_123_000_000)
    );
    notifier.stop();
}

#[test]
fn events_reach_a_collector_after_its_return() {
    let dir = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let (first, _) = notifier(Some(dir.path()), settings(free));
    put(&first, &["one", "two"], 1);
    wait_until(10, "a failure", || {
        first.receivers()[0].failing_since_unix_ms.is_some()
    });
    first.stop();
    let (collector, port) = Collector::start(&[]);
    let (next, _) = notifier(Some(dir.path()), settings(port));
    wait_until(20, "all events", || counts(&next) == (2, 0, 0));
    assert_eq!(
        collector.bodies(),
        ["host-missing: one", "host-missing: two"]
    );
    next.stop();
}
