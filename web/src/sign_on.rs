//! Sign-on by a proxy: the identity and the roles behind a request for the page.
//!
//! The proxy has asked the user, and states the name and the groups in headers. The headers count
//! only on connections from the addresses that the operator has configured, because any client can
//! send such headers.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::{Extensions, HeaderMap, Request};
use rsm_api::access::{Caller, Gate, Need, Peer, Proof};
use rsm_api::{Reason, refusal};
use serde::Serialize;
use tonic::Status;

use crate::reply::{self, Reply};

/// Header with the name of the user.
const USER: &str = "x-forwarded-user";

/// Header with the groups of the user, separated by commas.
const GROUPS: &str = "x-forwarded-groups";

/// The rules of sign-on.
#[derive(Clone, Debug)]
pub struct SignOn {
    /// The roles of users and groups, rates, and the audit log of refusals.
    pub gate: Arc<Gate>,
    /// The addresses of the proxies.
    pub proxies: Vec<IpAddr>,
}

impl SignOn {
    /// The identity behind a request, checked to have the role `read`.
    ///
    /// # Errors
    /// The answer to a request without an identity, or without the role `read`.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<Arc<Caller>, Box<Reply>> {
        let unknown = Peer::Unknown;
        let peer = request.extensions().get::<Peer>().unwrap_or(&unknown);
        let call = request.uri().path();
        let refuse = |caller: Option<&Caller>, status: Status| {
            self.gate.refused(caller, peer, call, &status);
            Box::new(reply::unauthorized(&status))
        };
        let caller = self
            .identify(peer, request.headers())
            .map_err(|status| refuse(None, status))?;
        match self.gate.admit(&caller, peer, call, Need::Read) {
            Ok(()) => Ok(Arc::new(caller)),
            Err(status) => Err(refuse(Some(&caller), status)),
        }
    }

    fn identify(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Status> {
        let address = match peer {
            Peer::Tcp { address } | Peer::Tls { address, .. } => Some(address.ip().to_canonical()),
            Peer::Unix { .. } | Peer::Unknown => None,
        };
        if address.is_some_and(|address| self.proxies.contains(&address)) {
            return self.by_headers(headers);
        }
        let authorization = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let caller = self.gate.identify(peer, authorization)?;
        match caller.proof {
            Proof::None => Err(refusal(
                Reason::NoIdentity,
                "this server shows nothing without an identity: come by the proxy that asks for users, or with a \
                 client certificate or a signed token",
            )),
            _ => Ok(caller),
        }
    }

    /// The identity in the headers of a proxy.
    fn by_headers(&self, headers: &HeaderMap) -> Result<Caller, Status> {
        let mut users = headers.get_all(USER).iter();
        let (Some(user), None) = (users.next(), users.next()) else {
            return Err(refusal(
                Reason::NoIdentity,
                "the proxy names no user, or several: it has to set X-Forwarded-User",
            ));
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let user = text(user.as_bytes()).map(|user| user.trim().to_owned());
        let user = user.filter(|user| !user.is_empty());
        let user = user.ok_or_else(|| {
            refusal(
                Reason::NoIdentity,
                "X-Forwarded-User is empty: the proxy has to set the name of a user",
            )
        })?;
        let groups = headers.get_all(GROUPS).iter();
        let groups: Vec<String> = groups.filter_map(|value| text(value.as_bytes())).collect();
        let groups = groups.iter().flat_map(|value| value.split(','));
        let groups: Vec<&str> = groups
            .map(str::trim)
            .filter(|group| !group.is_empty())
            .collect();
        Ok(self.gate.identify_user(&user, &groups))
    }
}

/// The user of a request, as the page shows it.
#[derive(Serialize)]
struct Me {
    /// The name of the user; empty if this server asks for no identity.
    name: String,
    /// The roles, separated by blanks.
    roles: String,
}

/// Answers with the user of the request.
pub(crate) async fn me(extensions: Extensions) -> Reply {
    let caller = extensions.get::<Arc<Caller>>();
    reply::json(&Me {
        name: caller.map_or_else(String::new, |caller| caller.name.clone()),
        roles: caller.map_or_else(String::new, |caller| caller.grant.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use rsm_api::access::{AccessPolicy, Anonymous, NoAudit, RoleTable};

    use super::*;

    fn sign_on() -> SignOn {
        let roles = "user alice read\nuser bob report\ngroup ib-ops operate\n";
        let policy = AccessPolicy {
            roles: RoleTable::parse(roles).unwrap(),
            ..AccessPolicy::without_files(Anonymous::Reading)
        };
        SignOn {
            gate: Arc::new(Gate::new(policy, Arc::new(NoAudit))),
            proxies: vec!["10.0.0.5".parse().unwrap(), "::1".parse().unwrap()],
        }
    }

    /// The name and roles of the identity, or the status of the refusal.
    fn ask(from: &str, headers: &[(&str, &str)]) -> Result<(String, String), StatusCode> {
        let mut request = Request::get("/api/v1/status");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(()).unwrap();
        let address = from.parse().unwrap();
        request.extensions_mut().insert(Peer::Tcp { address });
        match sign_on().admit(&request) {
            Ok(caller) => Ok((caller.name.clone(), caller.grant.to_string())),
            Err(reply) => Err(reply.status()),
        }
    }

    #[test]
    fn users_of_the_proxy_have_the_roles_of_their_name_and_groups() {
        let alice = ("alice".to_owned(), "read".to_owned());
        for proxy in ["10.0.0.5:1", "[::1]:1", "[::ffff:10.0.0.5]:1"] {
            assert_eq!(
                ask(proxy, &[("X-Forwarded-User", "alice")]),
                Ok(alice.clone())
            );
        }
        let proxy = "10.0.0.5:1";
        let both = ask(
            proxy,
            &[
                ("X-Forwarded-User", "alice"),
                ("X-Forwarded-Groups", "staff, ib-ops"),
            ],
        );
        assert_eq!(both, Ok(("alice".to_owned(), "read operate".to_owned())));
        let of_group = ask(
            proxy,
            &[
                ("X-Forwarded-User", "carol"),
                ("X-Forwarded-Groups", "ib-ops"),
            ],
        );
        assert_eq!(of_group, Ok(("carol".to_owned(), "operate".to_owned())));
    }

    #[test]
    fn user_without_the_role_read_is_refused() {
        let forbidden = Err(StatusCode::FORBIDDEN);
        let proxy = "10.0.0.5:1";
        assert_eq!(ask(proxy, &[("X-Forwarded-User", "dave")]), forbidden);
        assert_eq!(ask(proxy, &[("X-Forwarded-User", "bob")]), forbidden);
        // A group with the name of a user does not have that user's roles.
        let named = [
            ("X-Forwarded-User", "dave"),
            ("X-Forwarded-Groups", "alice"),
        ];
        assert_eq!(ask(proxy, &named), forbidden);
    }

    #[test]
    fn headers_from_other_addresses_and_missing_or_repeated_users_prove_nothing() {
        let unauthorized = Err(StatusCode::UNAUTHORIZED);
        for (from, headers) in [
            ("10.0.0.6:1", &[("X-Forwarded-User", "alice")][..]),
            ("127.0.0.1:1", &[("X-Forwarded-User", "alice")]),
            ("10.0.0.6:1", &[]),
            ("10.0.0.5:1", &[]),
            ("10.0.0.5:1", &[("X-Forwarded-User", " ")]),
            ("10.0.0.5:1", &[("X-Forwarded-Groups", "ib-ops")]),
            (
                "10.0.0.5:1",
                &[("X-Forwarded-User", "alice"), ("X-Forwarded-User", "bob")],
            ),
            ("127.0.0.1:1", &[("Authorization", "Bearer x")]),
        ] {
            assert_eq!(ask(from, headers), unauthorized, "{from} {headers:?}");
        }
    }
}
