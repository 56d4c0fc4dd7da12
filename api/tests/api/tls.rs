//! Tests of TLS: certificates of servers and clients, revocation, tokens, and reloading of files.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rsm_api::access::tls::{ClientTlsFiles, ServerTls, TlsFiles, client_config};
use rsm_api::access::{AccessPolicy, Anonymous, Gate, NoAudit, Peer, RoleTable};
use rsm_api::client::{ConnectError, Connection, Credentials, Endpoint, connect_as};
use rsm_proto::v1;
use rsm_proto::v1::convergence_service_client::ConvergenceServiceClient;
use rsm_proto::v1::fabric_service_client::FabricServiceClient;
use rsm_proto::v1::partition_service_client::PartitionServiceClient;
use tempfile::TempDir;
use tonic::Code;

use crate::fake::Fake;
use crate::served::{Served, Wanted};

/// A certificate authority for tests, which writes its files to a temporary folder.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// Paths of the files of a certificate and its private key.
#[derive(Clone)]
struct Issued {
    certificate: PathBuf,
    key: PathBuf,
}

impl Authority {
    /// Creates an authority with a certificate that it has signed itself, and writes `ca.crt`.
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "test CA");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.crt"), issuer.pem()).unwrap();
        Authority { issuer, folder }
    }

    fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// Writes `ca.crl`, the list of revoked certificates, with `serials`. Returns its path.
    fn revoke(&self, serials: &[u64]) -> PathBuf {
        let revoked_certs = serials.iter().map(|&serial| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).unwrap();
        let file = self.folder.path().join("ca.crl");
        fs::write(&file, list.pem().unwrap()).unwrap();
        file
    }

    /// Issues a certificate for the alternative name `name` that expires on the first day of
    /// `until`, a year and month. Writes it and its key to `FILE.crt` and `FILE.key`.
    fn issue(&self, file: &str, name: &str, until: (i32, u8)) -> Issued {
        self.issue_with_serial(file, name, until, None)
    }

    /// Issues a certificate like [`Authority::issue`]; `None` for a serial number chosen by rcgen.
    fn issue_with_serial(
        &self,
        file: &str,
        name: &str,
        until: (i32, u8),
        serial: Option<u64>,
    ) -> Issued {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.serial_number = serial.map(SerialNumber::from);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until.0, until.1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let issued = Issued {
            certificate: self.folder.path().join(format!("{file}.crt")),
            key: self.folder.path().join(format!("{file}.key")),
        };
        fs::write(&issued.certificate, certificate.pem()).unwrap();
        fs::write(&issued.key, key.serialize_pem()).unwrap();
        issued
    }

    /// Credentials of a client that trusts this authority, and shows `identity` if it is given.
    fn credentials(&self, identity: Option<&Issued>) -> Credentials {
        let identity = identity.map(|issued| (issued.certificate.clone(), issued.key.clone()));
        Credentials {
            tls: Some(ClientTlsFiles {
                ca: self.ca_file(),
                identity,
            }),
            token: None,
            operator: None,
        }
    }
}

/// The year and month of expiry of a valid certificate.
const FAR_FUTURE: (i32, u8) = (2100, 1);
/// The year and month of expiry of an expired certificate.
const PAST: (i32, u8) = (2001, 1);

/// A served fake behind TLS, with the authority of its certificate.
struct Secured {
    served: Served,
    tls: Arc<ServerTls>,
    authority: Authority,
}

impl Secured {
    /// Serves with a certificate for `name` that expires at `until`. Certificates for `ops.example`
    /// may operate, certificates for `blue.example` are a tenant's, and others may read.
    fn start(name: &str, until: (i32, u8)) -> Secured {
        let authority = Authority::new();
        let server = authority.issue("server", name, until);
        let tls = Arc::new(ServerTls::new(TlsFiles {
            certificate: server.certificate,
            key: server.key,
            client_ca: Some(authority.ca_file()),
            client_crl: Some(authority.revoke(&[])),
        }));
        tls.reload().unwrap();
        let policy = AccessPolicy {
            roles: RoleTable::parse("san ops.example operate\nsan blue.example tenant:0x10-0x1f\n")
                .unwrap(),
            ..AccessPolicy::without_files(Anonymous::Reading)
        };
        let options = Wanted {
            tls: Some(tls.clone()),
            gate: Some(Arc::new(Gate::new(policy, Arc::new(NoAudit)))),
            ..Wanted::default()
        };
        Secured {
            served: Served::start_as(Fake::tree(1, 1), options),
            tls,
            authority,
        }
    }

    /// Connects to the server.
    fn connect(&self, credentials: &Credentials) -> Result<Connection, ConnectError> {
        let endpoint = Endpoint::Https(format!("https://{}", self.served.tcp));
        self.served.block_on(connect_as(&endpoint, credentials))
    }

    /// The text of the error with which a connection fails.
    fn refusal(&self, credentials: &Credentials) -> String {
        match self.connect(credentials) {
            Ok(_) => panic!("the connection was accepted"),
            Err(error) => error.to_string(),
        }
    }

    /// Requests the status, for which reading suffices.
    fn read(&self, connection: &Connection) -> Result<(), tonic::Status> {
        let mut client = FabricServiceClient::new(connection.clone());
        let answer = self
            .served
            .block_on(client.get_status(v1::GetStatusRequest {}));
        answer.map(drop)
    }

    /// Requests a sweep, for which the role of an operator is needed.
    fn sweep(&self, connection: &Connection) -> Result<(), tonic::Status> {
        let mut client = ConvergenceServiceClient::new(connection.clone());
        let request = v1::ResweepRequest::default();
        self.served.block_on(client.resweep(request)).map(drop)
    }
}

#[test]
fn only_a_certificate_with_a_role_may_sweep_and_every_client_may_read() {
    let secured = Secured::start("127.0.0.1", FAR_FUTURE);
    let authority = &secured.authority;
    let ops = authority.issue("ops", "ops.example", FAR_FUTURE);
    let other = authority.issue("other", "other.example", FAR_FUTURE);
    let connection = secured.connect(&authority.credentials(Some(&ops))).unwrap();
    secured.sweep(&connection).unwrap();
    let connection = secured
        .connect(&authority.credentials(Some(&other)))
        .unwrap();
    secured.read(&connection).unwrap();
    let refusal = secured.sweep(&connection).unwrap_err();
    assert_eq!(refusal.code(), Code::PermissionDenied);
    assert!(refusal.message().contains("other.example"), "{refusal}");
    let connection = secured.connect(&authority.credentials(None)).unwrap();
    secured.read(&connection).unwrap();
    assert!(secured.sweep(&connection).is_err());
}

#[test]
fn tenant_changes_partitions_of_its_own_p_keys_only() {
    let secured = Secured::start("127.0.0.1", FAR_FUTURE);
    let authority = &secured.authority;
    let blue = authority.issue("blue", "blue.example", FAR_FUTURE);
    let connection = secured
        .connect(&authority.credentials(Some(&blue)))
        .unwrap();
    let mut client = PartitionServiceClient::new(connection);
    let member = v1::WantedMember {
        port: "0x50000".to_owned(),
        ..v1::WantedMember::default()
    };
    let mut add = |p_key| {
        let request = v1::AddPartitionMembersRequest {
            p_key,
            members: vec![member.clone()],
            ..v1::AddPartitionMembersRequest::default()
        };
        secured
            .served
            .block_on(client.add_partition_members(request))
    };
    assert!(add(0x10).is_ok() && add(0x801f).is_ok());
    for p_key in [0x20, 0x7fff, 0xffff] {
        let refusal = add(p_key).unwrap_err();
        assert_eq!(refusal.code(), Code::PermissionDenied);
        assert!(refusal.message().contains("blue.example"), "{refusal}");
    }
    let changes = secured.served.fake.partition_changes.lock().clone();
    let keys: Vec<u16> = changes.iter().map(|change| change.p_key).collect();
    assert_eq!(keys, [0x10, 0x1f]);
    assert_eq!(changes[0].by, "blue.example");
    assert_eq!(changes[0].grant.changeable(), [0x10..=0x1f]);
    let limited = v1::SetDefaultMembershipRequest {
        limited: true,
        accept_cut_off: false,
    };
    let refusal = secured
        .served
        .block_on(client.set_default_membership(limited));
    assert_eq!(refusal.unwrap_err().code(), Code::PermissionDenied);
    let ops = authority.issue("ops", "ops.example", FAR_FUTURE);
    let connection = secured.connect(&authority.credentials(Some(&ops))).unwrap();
    let mut client = PartitionServiceClient::new(connection);
    let delete = v1::DeletePartitionRequest {
        p_key: 0x20,
        accept_cut_off: false,
    };
    assert!(
        secured
            .served
            .block_on(client.delete_partition(delete))
            .is_ok()
    );
}

#[test]
fn http1_connection_identifies_the_client_by_its_certificate() {
    let secured = Secured::start("127.0.0.1", FAR_FUTURE);
    let authority = &secured.authority;
    let blue = authority.issue("blue", "blue.example", FAR_FUTURE);
    let files = ClientTlsFiles {
        ca: authority.ca_file(),
        identity: Some((blue.certificate, blue.key)),
    };
    let mut client = rustls::ClientConfig::clone(&client_config(&files).unwrap());
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    let tls = secured.tls.clone();
    secured.served.block_on(async move {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (stream, address) = listener.accept().await.unwrap();
            tls.accept_http1(stream, address)
                .await
                .map(|(_, peer)| peer)
        });
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let name = rustls::pki_types::ServerName::try_from("127.0.0.1").unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
        let stream = connector.connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        match server.await.unwrap().unwrap() {
            Peer::Tls {
                certificate: Some(certificate),
                ..
            } => assert_eq!(certificate.name(), "blue.example"),
            peer => panic!("{peer}"),
        }
    });
}

#[test]
fn expired_and_foreign_client_certificates_are_refused_with_the_reason() {
    let secured = Secured::start("127.0.0.1", FAR_FUTURE);
    let authority = &secured.authority;
    let expired = authority.issue("expired", "ops.example", PAST);
    let refusal = secured.refusal(&authority.credentials(Some(&expired)));
    assert!(refusal.contains("has expired"), "{refusal}");
    let foreign = Authority::new();
    let from_foreign_ca = foreign.issue("ops", "ops.example", FAR_FUTURE);
    let refusal = secured.refusal(&authority.credentials(Some(&from_foreign_ca)));
    assert!(
        refusal.contains("no CA that the server trusts"),
        "{refusal}"
    );
}

#[test]
fn server_with_a_wrong_certificate_is_refused_with_the_reason() {
    let secured = Secured::start("127.0.0.1", FAR_FUTURE);
    let foreign = Authority::new();
    let refusal = secured.refusal(&foreign.credentials(None));
    assert!(refusal.contains("no CA that is trusted"), "{refusal}");
    let misnamed = Secured::start("rsm.example", FAR_FUTURE);
    let refusal = misnamed.refusal(&misnamed.authority.credentials(None));
    assert!(refusal.contains("does not have the name"), "{refusal}");
    let expired = Secured::start("127.0.0.1", PAST);
    let refusal = expired.refusal(&expired.authority.credentials(None));
    assert!(refusal.contains("has expired"), "{refusal}");
    let refusal = secured.refusal(&Credentials::default());
    assert!(refusal.contains("--tls-ca"), "{refusal}");
}

#[test]
fn client_without_tls_gets_no_http_and_a_silent_client_blocks_no_other() {
    use std::io::{Read as _, Write as _};
    let secured = Secured::start("127.0.0.1", FAR_FUTURE);
    let mut plain = std::net::TcpStream::connect(secured.served.tcp).unwrap();
    plain
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    // The server may send a TLS alert or close the connection, but must not answer with HTTP.
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.len() < 32, "{answer:?}");
    let _silent = std::net::TcpStream::connect(secured.served.tcp).unwrap();
    let connection = secured
        .connect(&secured.authority.credentials(None))
        .unwrap();
    secured.read(&connection).unwrap();
}

#[test]
fn renewed_certificate_applies_to_new_connections_and_a_truncated_file_to_none() {
    let secured = Secured::start("127.0.0.1", FAR_FUTURE);
    let authority = &secured.authority;
    let credentials = authority.credentials(None);
    let before = secured.connect(&credentials).unwrap();
    secured.read(&before).unwrap();

    let certificate = authority.folder.path().join("server.crt");
    let whole = fs::read_to_string(&certificate).unwrap();
    fs::write(&certificate, &whole[..whole.len() / 2]).unwrap();
    let error = secured.tls.reload().unwrap_err().to_string();
    assert!(
        error.contains("server.crt") && error.contains("not whole"),
        "{error}"
    );
    secured
        .read(&secured.connect(&credentials).unwrap())
        .unwrap();

    // The certificate is renewed before its key, so the two do not belong together.
    let key = authority.folder.path().join("server.key");
    let old_key = fs::read_to_string(&key).unwrap();
    authority.issue("server", "rsm.example", FAR_FUTURE);
    let new_key = fs::read_to_string(&key).unwrap();
    fs::write(&key, old_key).unwrap();
    let error = secured.tls.reload().unwrap_err().to_string();
    assert!(error.contains("does not fit"), "{error}");
    secured
        .read(&secured.connect(&credentials).unwrap())
        .unwrap();

    fs::write(&key, new_key).unwrap();
    assert_eq!(
        secured.tls.reload().unwrap().alternative_names,
        ["rsm.example"]
    );
    let refusal = secured.refusal(&credentials);
    assert!(refusal.contains("does not have the name"), "{refusal}");
    // The earlier connection continues.
    secured.read(&before).unwrap();
}

#[test]
fn token_over_plain_tcp_from_another_machine_is_refused() {
    use rsm_api::access::Peer;
    let gate = Gate::new(
        AccessPolicy::without_files(Anonymous::Everything),
        Arc::new(NoAudit),
    );
    let remote = Peer::Tcp {
        address: "192.0.2.1:7".parse().unwrap(),
    };
    let refusal = gate.identify(&remote, Some(b"Bearer x.y.z")).unwrap_err();
    assert!(refusal.message().contains("without TLS"), "{refusal}");
    let local = Peer::Tcp {
        address: "127.0.0.1:7".parse().unwrap(),
    };
    let refusal = gate.identify(&local, Some(b"Bearer x.y.z")).unwrap_err();
    assert!(refusal.message().contains("jwks_file"), "{refusal}");
    let refusal = gate.identify(&local, Some(b"Basic abc")).unwrap_err();
    assert!(refusal.message().contains("Bearer"), "{refusal}");
}

#[test]
fn revoked_client_certificate_is_refused_once_the_list_is_reloaded() {
    let secured = Secured::start("127.0.0.1", FAR_FUTURE);
    let authority = &secured.authority;
    let revoked = authority.issue_with_serial("lost", "ops.example", FAR_FUTURE, Some(77));
    let valid = authority.issue_with_serial("kept", "ops.example", FAR_FUTURE, Some(78));
    let [revoked, valid] = [revoked, valid].map(|issued| authority.credentials(Some(&issued)));
    let may_sweep = |credentials| {
        let connection = secured.connect(credentials);
        connection.is_ok_and(|connection| secured.sweep(&connection).is_ok())
    };
    assert!(may_sweep(&revoked) && may_sweep(&valid));
    authority.revoke(&[76, 77]);
    secured.tls.reload().unwrap();
    assert!(!may_sweep(&revoked) && may_sweep(&valid));
    let anonymous = secured.connect(&authority.credentials(None)).unwrap();
    assert!(secured.read(&anonymous).is_ok());
    // If the new list cannot be read, the list in force stays.
    let file = authority.folder.path().join("ca.crl");
    fs::write(&file, "no list").unwrap();
    let error = secured.tls.reload().unwrap_err();
    assert_eq!(error.path, file);
    assert!(error.reason.contains("X509 CRL"), "{error}");
    assert!(!may_sweep(&revoked) && may_sweep(&valid));
    // A list of another CA admits no certificate of this CA.
    let foreign = Authority::new();
    fs::copy(foreign.revoke(&[]), &file).unwrap();
    secured.tls.reload().unwrap();
    assert!(!may_sweep(&revoked) && !may_sweep(&valid));
}
