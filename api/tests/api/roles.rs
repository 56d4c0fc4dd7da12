//! Every call of the services against every role.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use prost::Message as _;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use rsm_api::access::{
    AccessPolicy, Anonymous, AuditEntry, AuditSink, Caller, Gate, Grant, Need, Peer, Proof, Role,
    calls,
};
use rsm_api::limits::ACCEPTED_BY;
use rsm_proto::v1;
use rsm_proto::v1::fabric_service_client::FabricServiceClient;
use rsm_proto::v1::maintenance_service_client::MaintenanceServiceClient;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::fake::Fake;
use crate::served::{Served, Wanted, own_identity};

pub(crate) fn files() -> Vec<FileDescriptorProto> {
    let ours = FileDescriptorSet::decode(rsm_proto::FILE_DESCRIPTOR_SET).unwrap();
    let health = FileDescriptorSet::decode(tonic_health::pb::FILE_DESCRIPTOR_SET).unwrap();
    ours.file.into_iter().chain(health.file).collect()
}

/// The paths of all calls of the served descriptors.
pub(crate) fn described() -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for file in files() {
        for service in &file.service {
            for method in &service.method {
                let package = file.package();
                paths.insert(format!("/{package}.{}/{}", service.name(), method.name()));
            }
        }
    }
    paths
}

/// Whether a role alone is enough for a need, written down apart from the code.
fn suffices(role: Role, need: Need) -> bool {
    match role {
        Role::Read => matches!(need, Need::Read | Need::SeePartitions),
        Role::Report => matches!(need, Need::CheckInventory | Need::ImportInventory),
        Role::Operate => !matches!(need, Need::Administer | Need::SeeSecrets),
        Role::Tenant => matches!(need, Need::SeePartitions | Need::ChangePartitions),
        Role::Admin => need != Need::SeeSecrets,
        Role::Secrets => need == Need::SeeSecrets,
    }
}

#[test]
fn every_call_has_a_need_and_admits_exactly_its_roles() {
    let gate = Gate::new(
        AccessPolicy::without_files(Anonymous::Nothing),
        Arc::new(rsm_api::access::NoAudit),
    );
    let peer = Peer::Unknown;
    let described = described();
    assert!(described.len() > 45, "{described:?}");
    for path in &described {
        let need = calls::need(path);
        let need = need.unwrap_or_else(|| panic!("no role is set for {path}"));
        for role in Role::ALL {
            let grant = match role {
                Role::Tenant => Grant::tenant([0x10..=0x1f]),
                role => Grant::of(&[role]),
            };
            let caller = Caller::new(&format!("{path} {}", role.name()), Proof::Token, grant);
            let admitted = gate.admit(&caller, &peer, path, need);
            assert_eq!(
                admitted.is_ok(),
                suffices(role, need),
                "{path} for {role:?}"
            );
            if let Err(status) = admitted {
                assert_eq!(status.code(), Code::PermissionDenied);
            }
        }
        let stranger = Caller::new("anonymous", Proof::None, Grant::NONE);
        let refused = gate.admit(&stranger, &peer, path, need).unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
    // The table has no call that is not served, apart from reflection, which describes itself.
    let table: BTreeSet<String> = calls::paths().collect();
    let unserved = table.difference(&described);
    for path in unserved {
        assert!(path.starts_with("/grpc.reflection."), "{path}");
    }
}

/// Calls that change something, by the verb of their names: a new one is not to be taken for one
/// that reads.
#[test]
fn calls_that_read_are_named_so() {
    const READING: [&str; 9] = [
        "Get", "List", "Resolve", "Foresee", "Plan", "Export", "Watch", "Check", "Judge",
    ];
    for path in described() {
        let call = path.rsplit('/').next().unwrap();
        let reads = READING.iter().any(|verb| call.starts_with(verb));
        assert_eq!(!calls::need(&path).unwrap().changes(), reads, "{path}");
    }
}

#[test]
fn no_answer_has_a_key_but_of_partitions_and_queues() {
    let shown = ["p_key", "q_key", "wrong_keys"];
    for file in files() {
        for message in &file.message_type {
            for field in &message.field {
                let name = field.name();
                let is_key = name.ends_with("_key") || name.ends_with("_keys");
                assert!(
                    !is_key || shown.contains(&name),
                    "{}: {name}",
                    message.name()
                );
            }
        }
    }
}

/// Keeps all entries.
#[derive(Default)]
pub(crate) struct Entries(pub(crate) Mutex<Vec<AuditEntry>>);

impl AuditSink for Entries {
    fn put(&self, entry: AuditEntry) {
        self.0.lock().push(entry);
    }
}

#[test]
fn unknown_calls_are_refused_and_recorded() {
    let entries = Arc::new(Entries::default());
    let policy = AccessPolicy::without_files(Anonymous::Everything);
    let gate = Arc::new(Gate::new(policy, entries.clone()));
    let wanted = Wanted {
        gate: Some(gate),
        ..Wanted::default()
    };
    let served = Served::start_as(Fake::tree(1, 1), wanted);
    let status = served.block_on(async {
        let mut client = tonic::client::Grpc::new(served.unix_channel().await);
        client.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/rsm.v1.FabricService/Explode");
        let codec =
            tonic_prost::ProstCodec::<v1::GetStatusRequest, v1::GetStatusResponse>::default();
        let request = tonic::Request::new(v1::GetStatusRequest {});
        client.unary(request, path, codec).await.unwrap_err()
    });
    assert_eq!(status.code(), Code::Unimplemented);
    let entries = entries.0.lock();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].call, "rsm.v1.FabricService/Explode");
    assert_eq!(entries[0].verdict, "refused");
}

#[test]
fn anonymous_reading_off_refuses_every_call_over_tcp() {
    let policy = AccessPolicy::without_files(Anonymous::Nothing);
    let gate = Gate::new(policy, Arc::new(rsm_api::access::NoAudit));
    let wanted = Wanted {
        gate: Some(Arc::new(gate)),
        ..Wanted::default()
    };
    let served = Served::start_as(Fake::tree(1, 1), wanted);
    let status = |channel| {
        let mut client = FabricServiceClient::new(channel);
        served.block_on(client.get_status(v1::GetStatusRequest {}))
    };
    let refusal = status(served.tcp()).unwrap_err();
    assert_eq!(refusal.code(), Code::Unauthenticated);
    assert!(refusal.message().contains("identity"), "{refusal}");
    assert!(status(served.unix()).is_ok());
    let mut client = MaintenanceServiceClient::new(served.tcp());
    let drained = served.block_on(client.drain(v1::DrainRequest::default()));
    assert_eq!(drained.unwrap_err().code(), Code::Unauthenticated);
}

#[test]
fn orders_are_recorded_by_the_identity_of_the_connection() {
    let served = Served::start_as(Fake::tree(1, 1), Wanted::default());
    let mut client = MaintenanceServiceClient::new(served.unix());
    let drain = v1::DrainRequest {
        parts: vec!["leaf-1".to_owned()],
        force: true,
        by: "health.hostile_hosts".to_owned(),
        note: String::new(),
    };
    let drained = served.block_on(client.drain(drain)).unwrap().into_inner();
    let own = own_identity();
    let by = format!("{own} (health.hostile_hosts)");
    assert_eq!(drained.drained[0].by, by);
    // To cut ports off and to end another operator's order are two consequences.
    let mut enable = v1::OperatePortRequest {
        port: "leaf-1:1".to_owned(),
        action: v1::PortAction::Enable.into(),
        accept_cut_off: true,
        by: "bob".to_owned(),
        ..v1::OperatePortRequest::default()
    };
    let refused = served.block_on(client.operate_port(enable.clone()));
    let refused = refused.unwrap_err();
    assert!(
        refused.message().contains(&format!("{own} (bob)")),
        "{refused}"
    );
    let info = refused.get_details_error_info().unwrap();
    assert_eq!(info.reason, "OF_ANOTHER_OPERATOR");
    assert_eq!(info.metadata[ACCEPTED_BY], "accept_other_operator");
    enable.accept_other_operator = true;
    assert!(served.block_on(client.operate_port(enable)).is_ok());
}

/// docs/guards.md says of every call that may do more than read what guards it.
#[test]
fn every_call_that_does_more_than_read_is_in_the_page_of_guards() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guards.md");
    let page = std::fs::read_to_string(page).unwrap();
    for path in calls::paths() {
        let call = path.rsplit('/').next().unwrap();
        let is_named = page.contains(&format!("`{call}`"));
        let reads = calls::need(&path) == Some(Need::Read);
        assert!(reads || is_named, "{path}");
    }
}
