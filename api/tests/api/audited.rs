//! The audit log and rates of a server.

use std::sync::Arc;

use http::uri::PathAndQuery;
use prost::Message as _;
use rsm_api::access::{AccessPolicy, Anonymous, Gate, Need, RateSettings, calls};
use rsm_proto::v1;
use rsm_proto::v1::convergence_service_client::ConvergenceServiceClient;
use rsm_proto::v1::fabric_service_client::FabricServiceClient;
use sha2::{Digest as _, Sha256};
use tonic::Code;
use tonic::transport::Channel;

use crate::fake::Fake;
use crate::roles::{Entries, described};
use crate::served::{Served, Wanted};

fn served(policy: AccessPolicy) -> (Served, Arc<Entries>) {
    let entries = Arc::new(Entries::default());
    let gate = Arc::new(Gate::new(policy, entries.clone()));
    let wanted = Wanted {
        gate: Some(gate),
        ..Wanted::default()
    };
    (Served::start_as(Fake::tree(1, 1), wanted), entries)
}

#[test]
fn change_has_an_entry_at_its_begin_and_at_its_end_and_reading_has_none() {
    let (served, entries) = served(AccessPolicy::without_files(Anonymous::Reading));
    let request = v1::ResweepRequest {
        full: true,
        ..Default::default()
    };
    let digest = hex::encode(Sha256::digest(request.encode_to_vec()));
    let mut client = ConvergenceServiceClient::new(served.unix());
    served.block_on(client.resweep(request)).unwrap();
    let mut reader = FabricServiceClient::new(served.unix());
    let status = served.block_on(reader.get_status(v1::GetStatusRequest {}));
    let generation = status.unwrap().into_inner().status.unwrap().generation;
    let entries = entries.0.lock();
    let verdicts: Vec<&str> = entries.iter().map(|entry| entry.verdict).collect();
    assert_eq!(verdicts, ["begun", "done"]);
    for entry in entries.iter() {
        assert_eq!(entry.call, "rsm.v1.ConvergenceService/Resweep");
        assert_eq!(entry.digest, digest);
        assert_eq!(entry.proof, "unix-peer");
        assert!(entry.peer.starts_with("unix uid "), "{}", entry.peer);
        assert_eq!(entry.request, entries[0].request);
    }
    assert_eq!(entries[1].generation_after, Some(generation));
}

#[test]
fn failed_change_has_its_reason() {
    let (served, entries) = served(AccessPolicy::without_files(Anonymous::Reading));
    let request = v1::AcceptMissingRequest {
        name: "no such node".to_owned(),
        ..Default::default()
    };
    let mut client = ConvergenceServiceClient::new(served.unix());
    let status = served.block_on(client.accept_missing(request)).unwrap_err();
    let entries = entries.0.lock();
    let last = entries.last().unwrap();
    assert_eq!(
        (last.verdict, last.reason.as_str()),
        ("failed", status.message())
    );
}

#[test]
fn flood_of_refused_calls_is_counted_and_not_written_out() {
    let (served, entries) = served(AccessPolicy::without_files(Anonymous::Reading));
    let mut client = ConvergenceServiceClient::new(served.tcp());
    for _ in 0..200 {
        let refusal = served.block_on(client.resweep(v1::ResweepRequest::default()));
        let code = refusal.unwrap_err().code();
        assert!(matches!(
            code,
            Code::PermissionDenied | Code::ResourceExhausted
        ));
    }
    let entries = entries.0.lock();
    assert!(
        entries.len() >= 20 && entries.len() < 60,
        "{}",
        entries.len()
    );
    assert!(entries.iter().all(|entry| entry.verdict == "refused"));
}

#[test]
fn requests_beyond_the_rate_are_refused_until_later() {
    let policy = AccessPolicy {
        rates: RateSettings {
            reads_per_s: 1,
            changes_per_s: 1,
            reports_per_s: 1,
        },
        ..AccessPolicy::without_files(Anonymous::Reading)
    };
    let (served, _) = served(policy);
    let mut client = FabricServiceClient::new(served.tcp());
    let mut ask = || served.block_on(client.get_status(v1::GetStatusRequest {}));
    let answers: Vec<_> = (0..8).map(|_| ask()).collect();
    assert!(answers[0].is_ok());
    let refused = answers.into_iter().find_map(Result::err).unwrap();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("api.reads_per_s"), "{refused}");
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    assert!(ask().is_ok());
}

/// Calls `path` with an empty request; its answer does not matter.
async fn call(channel: Channel, path: &str) -> Result<(), tonic::Status> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.expect("it is served");
    let path = PathAndQuery::try_from(path).expect("it is a path");
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let answer = client.unary(tonic::Request::new(()), path, codec);
    answer.await.map(drop)
}

/// A table of all calls that change something: refused from afar, admitted on the socket.
#[test]
fn every_call_that_changes_something_is_recorded_whether_refused_or_admitted() {
    let changes = |path: &String| calls::need(path).is_some_and(Need::changes);
    let changing: Vec<String> = described().into_iter().filter(changes).collect();
    assert!(changing.len() > 20, "{changing:?}");
    // A server each for a few: refused calls of one identity beyond a number are counted only.
    for few in changing.chunks(8) {
        let (served, entries) = served(AccessPolicy::without_files(Anonymous::Reading));
        for path in few {
            let name = path.trim_start_matches('/');
            let refusal = served.block_on(call(served.tcp(), path)).unwrap_err();
            let code = refusal.code();
            assert!(
                matches!(code, Code::PermissionDenied | Code::Unauthenticated),
                "{path}: {refusal}"
            );
            let admitted = served.block_on(call(served.unix(), path));
            let recorded = std::mem::take(&mut *entries.0.lock());
            let outcome = match admitted {
                Ok(()) => "done",
                Err(_) => "failed",
            };
            let found: Vec<(&str, &str)> = recorded
                .iter()
                .map(|entry| (entry.call.as_str(), entry.verdict))
                .collect();
            assert_eq!(found, [(name, "refused"), (name, "begun"), (name, outcome)]);
            assert_eq!(recorded[0].reason, refusal.message(), "{path}");
        }
    }
}
