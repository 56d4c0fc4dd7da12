use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::role::Grant;

/// The maximum length of an identity's name in bytes; longer names are cut.
pub(super) const MAX_NAME_BYTES: usize = 256;

/// The maximum number of names that are read from one certificate, for each of the two kinds.
const MAX_CERTIFICATE_NAMES: usize = 64;

/// Metadata of a request with the name that the client gives to its operator.
pub const OPERATOR_METADATA: &str = "rsm-operator";

/// Maximum length of the name that a client states for its operator, in bytes.
const MAX_STATED_BYTES: usize = 64;

/// The name that a client states for its operator. Nothing proves it: records show it in brackets
/// behind the identity of the connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StatedOperator(pub(crate) String);

impl StatedOperator {
    /// The name in the headers of a request; `None` if there is none, or it is longer than
    /// [`MAX_STATED_BYTES`], or has other characters than the printable ones of ASCII.
    pub(crate) fn of(headers: &http::HeaderMap) -> Option<StatedOperator> {
        let name = headers.get(OPERATOR_METADATA)?.to_str().ok()?.trim();
        let is_name = !name.is_empty() && name.len() <= MAX_STATED_BYTES;
        is_name.then(|| StatedOperator(name.to_owned()))
    }
}

/// The other end of a connection, and the identity that the connection proves.
#[derive(Clone, Debug)]
pub enum Peer {
    /// A process on this machine, as the kernel identifies it.
    Unix {
        /// The user of the process.
        uid: u32,
        /// The groups of the process, the primary one first; `None` if the kernel does not give
        /// them.
        gids: Option<Arc<[u32]>>,
        /// The process ID; 0 if the kernel does not give it.
        pid: i32,
    },
    /// A client over TCP without TLS.
    Tcp {
        /// The address of the client.
        address: SocketAddr,
    },
    /// A client over TLS.
    Tls {
        /// The address of the client.
        address: SocketAddr,
        /// The client's certificate, which the handshake has verified; `None` without one.
        certificate: Option<Arc<Certificate>>,
    },
    /// The system no longer knows the other end.
    Unknown,
}

impl Peer {
    /// Whether no other machine can read a secret that is sent over this connection.
    pub fn is_private(&self) -> bool {
        match self {
            Peer::Unix { .. } | Peer::Tls { .. } => true,
            Peer::Tcp { address } => address.ip().is_loopback(),
            Peer::Unknown => false,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Unix { uid, pid, .. } => write!(f, "unix uid {uid} pid {pid}"),
            Peer::Tcp { address } => write!(f, "tcp {address}"),
            Peer::Tls { address, .. } => write!(f, "tls {address}"),
            Peer::Unknown => f.write_str("unknown"),
        }
    }
}

/// The names in a verified certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    /// The common names of the subject.
    pub common_names: Vec<String>,
    /// The subject alternative names: DNS names, e-mail addresses, URIs (including SPIFFE
    /// identities) and IP addresses.
    pub alternative_names: Vec<String>,
    /// The expiry, in seconds since the Unix epoch.
    pub not_after: i64,
}

impl Certificate {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// The bytes are no X.509 certificate; the error says where they deviate.
    pub fn from_der(der: &[u8]) -> Result<Certificate, String> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
        let subject = certificate.subject().iter_common_name();
        let common_names = subject
            .filter_map(|name| name.as_str().ok().map(str::to_owned))
            .take(MAX_CERTIFICATE_NAMES)
            .collect();
        let alternative = certificate
            .subject_alternative_name()
            .map_err(|error| error.to_string())?;
        let alternative = alternative.into_iter();
        let alternative_names = alternative
            .flat_map(|names| &names.value.general_names)
            .filter_map(alternative_name)
            .take(MAX_CERTIFICATE_NAMES)
            .collect();
        Ok(Certificate {
            common_names,
            alternative_names,
            not_after: certificate.validity().not_after.timestamp(),
        })
    }

    /// The name that represents the certificate: the first alternative name, otherwise the first
    /// common name, otherwise `certificate without a name`.
    pub fn name(&self) -> &str {
        let mut names = self.alternative_names.iter().chain(&self.common_names);
        names
            .next()
            .map_or("certificate without a name", |name| name)
    }
}

fn alternative_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
            Some((*name).to_owned())
        }
        GeneralName::IPAddress(bytes) => match **bytes {
            [a, b, c, d] => Some(std::net::Ipv4Addr::new(a, b, c, d).to_string()),
            _ => {
                let bytes: [u8; 16] = (*bytes).try_into().ok()?;
                Some(std::net::Ipv6Addr::from(bytes).to_string())
            }
        },
        _ => None,
    }
}

/// The proof of an identity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Proof {
    /// The kernel's information about a Unix socket.
    UnixPeer,
    /// A client certificate.
    Certificate,
    /// A signed token.
    Token,
    /// A statement of the operator's proxy, which has signed the user on.
    Proxy,
    /// A token in the REST interface's file of tokens.
    ApiToken,
    /// No proof.
    None,
}

impl Proof {
    /// The name of the proof in the audit log.
    pub const fn name(self) -> &'static str {
        match self {
            Proof::UnixPeer => "unix-peer",
            Proof::Certificate => "certificate",
            Proof::Token => "token",
            Proof::Proxy => "proxy",
            Proof::ApiToken => "api-token",
            Proof::None => "none",
        }
    }
}

/// The identity behind a request, with its rights.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The name: `uid:1001`, a name in a certificate, the subject of a signed token, the name of a
    /// token of the REST interface, a user of a proxy, or `anonymous`.
    pub name: String,
    /// The proof of the name.
    pub proof: Proof,
    /// The rights of the identity.
    pub grant: Grant,
}

impl Caller {
    /// Creates an identity; control characters in its name are escaped, and a long name is cut.
    pub fn new(name: &str, proof: Proof, grant: Grant) -> Caller {
        let mut name: String = name.chars().flat_map(char::escape_debug).collect();
        let mut end = name.len().min(MAX_NAME_BYTES);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        Caller { name, proof, grant }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_operator_is_a_short_printable_name() {
        let stated = |value: &[u8]| {
            let value = http::HeaderValue::from_bytes(value).expect("a value of a header");
            let headers = http::HeaderMap::from_iter([(
                http::HeaderName::from_static(OPERATOR_METADATA),
                value,
            )]);
            StatedOperator::of(&headers).map(|operator| operator.0)
        };
        assert_eq!(stated(b" nightshift "), Some("nightshift".to_owned()));
        assert_eq!(stated(b""), None);
        assert_eq!(stated("n\u{e4}chte".as_bytes()), None);
        assert_eq!(stated(&[b'x'; MAX_STATED_BYTES + 1]), None);
        assert_eq!(StatedOperator::of(&http::HeaderMap::new()), None);
    }
}
