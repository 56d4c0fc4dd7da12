//! Checks a request before any route handles it.

use std::net::IpAddr;

use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{Method, Request, StatusCode};

use crate::reply::{Reply, failure};
use crate::{netq, ufm};

/// Refuses a request that does more than read, that names another host, or that comes from a page
/// of another site.
///
/// A page of another site cannot read answers, but can load the server. If such a site changes the
/// address of its own name (DNS rebinding), its page could read answers as well; such a request
/// names that site's host. Accepted hosts are addresses, names without a dot, `localhost` and this
/// machine's `names`, also with a domain behind a name without one; at a loopback address, only
/// `localhost` and loopback addresses.
pub(crate) fn check<B>(
    request: &Request<B>,
    address: IpAddr,
    names: &[String],
) -> Result<(), Box<Reply>> {
    if ufm::is_path(request.uri().path()) {
        return check_site(request, false);
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_posted = *request.method() == Method::POST && netq::is_posted(request.uri().path());
    if !reads && !is_posted {
        let text = format!(
            "{}: this address serves only GET and HEAD",
            request.method()
        );
        return Err(Box::new(failure(StatusCode::METHOD_NOT_ALLOWED, &text)));
    }
    let host = host(request).ok_or_else(|| {
        let text = "the request names no host";
        Box::new(failure(StatusCode::BAD_REQUEST, text))
    })?;
    if !is_own_name(&host, address, names) {
        let text =
            format!("`{host}` is no name of this server: use its address, or forward a port to it");
        return Err(Box::new(failure(StatusCode::MISDIRECTED_REQUEST, &text)));
    }
    check_site(request, true)
}

/// Refuses requests that a page of another site has made. A browser may have stored a proof of
/// identity, and adds it to such requests. Where a proof is needed, `may_navigate` is false, and
/// even links from other pages are refused. There, the name of the host is not checked: a page that
/// redirected its own name to this server has no proof.
fn check_site<B>(request: &Request<B>, may_navigate: bool) -> Result<(), Box<Reply>> {
    let site = request.headers().get("sec-fetch-site");
    let navigates = may_navigate
        && (request.headers().get("sec-fetch-mode"))
            .is_some_and(|mode| mode.as_bytes() == b"navigate");
    if site.is_some_and(|site| site.as_bytes() == b"cross-site") && !navigates {
        let text = "a page of another site has made this request";
        return Err(Box::new(failure(StatusCode::FORBIDDEN, text)));
    }
    Ok(())
}

/// The host that a request names, in lower case, without port and brackets.
fn host<B>(request: &Request<B>) -> Option<String> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return None;
    };
    let authority: Authority = host.to_str().ok()?.parse().ok()?;
    if authority.as_str().contains('@') {
        return None;
    }
    let host = authority
        .host()
        .trim_start_matches('[')
        .trim_end_matches(']');
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}

fn is_own_name(host: &str, address: IpAddr, names: &[String]) -> bool {
    let literal = host.parse::<IpAddr>().ok();
    if address.is_loopback() {
        return host == "localhost" || literal.is_some_and(|literal| literal.is_loopback());
    }
    let Some((first_label, _domain)) = host.split_once('.') else {
        return true;
    };
    let is_own = |name: &String| name == host || (name == first_label && name != "localhost");
    literal.is_some() || names.iter().any(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: &str, host: &str) -> Option<StatusCode> {
        ask_machine("mgmt.example.org", address, host)
    }

    /// Asks a machine with this name.
    fn ask_machine(name: &str, address: &str, host: &str) -> Option<StatusCode> {
        let request = Request::get("/").header(HOST, host).body(()).unwrap();
        let refused = check(&request, address.parse().unwrap(), &[name.to_owned()]).err();
        refused.map(|reply| reply.status())
    }

    #[test]
    fn loopback_address_serves_only_loopback_hosts() {
        for host in [
            "localhost",
            "LOCALHOST:9316",
            "127.0.0.1:1",
            "[::1]:9316",
            "localhost.",
        ] {
            assert_eq!(ask("127.0.0.1", host), None, "{host}");
        }
        for host in [
            "evil.example",
            "10.0.0.1",
            "mgmt",
            "mgmt.example.org",
            "localhost.evil.org",
        ] {
            let refused = Some(StatusCode::MISDIRECTED_REQUEST);
            assert_eq!(ask("::1", host), refused, "{host}");
        }
    }

    #[test]
    fn foreign_host_names_are_refused_at_other_addresses() {
        for host in ["10.0.0.1:9316", "mgmt", "mgmt.example.org:80", "[fe80::1]"] {
            assert_eq!(ask("0.0.0.0", host), None, "{host}");
        }
        let refused = Some(StatusCode::MISDIRECTED_REQUEST);
        assert_eq!(ask("10.0.0.1", "rebound.example"), refused);
    }

    #[test]
    fn machine_with_a_short_name_answers_to_it_in_any_domain() {
        let refused = Some(StatusCode::MISDIRECTED_REQUEST);
        for (name, host, expected) in [
            ("mgmt01", "mgmt01.example.org:9316", None),
            ("mgmt01", "MGMT01.example.org", None),
            ("mgmt01", "mgmt01", None),
            ("mgmt01", "mgmt010.example.org", refused),
            ("mgmt01", "evil.mgmt01", refused),
            ("mgmt.example.org", "mgmt.evil.org", refused),
            ("localhost", "localhost.evil.org", refused),
        ] {
            assert_eq!(
                ask_machine(name, "0.0.0.0", host),
                expected,
                "{name} {host}"
            );
        }
    }

    #[test]
    fn missing_malformed_and_repeated_hosts_are_refused() {
        for host in ["", "a b", "user@localhost", "http://localhost/", "\u{ff}"] {
            assert_eq!(
                ask("127.0.0.1", host),
                Some(StatusCode::BAD_REQUEST),
                "{host:?}"
            );
        }
        let none = Request::get("/").body(()).unwrap();
        assert!(check(&none, "127.0.0.1".parse().unwrap(), &[]).is_err());
        let two = Request::get("/")
            .header(HOST, "localhost")
            .header(HOST, "evil");
        assert!(check(&two.body(()).unwrap(), "127.0.0.1".parse().unwrap(), &[]).is_err());
    }

    #[test]
    fn writes_and_requests_from_pages_of_other_sites_are_refused() {
        let loopback = "127.0.0.1".parse().unwrap();
        let post = Request::post("/")
            .header(HOST, "localhost")
            .body(())
            .unwrap();
        let refused = check(&post, loopback, &[]).unwrap_err();
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
        let from = |site: &str, mode: &str| {
            let request = Request::get("/").header(HOST, "localhost");
            let request = request.header("sec-fetch-site", site);
            let request = request.header("sec-fetch-mode", mode).body(()).unwrap();
            check(&request, loopback, &[]).is_ok()
        };
        assert!(from("same-origin", "cors"));
        assert!(from("none", "navigate"));
        assert!(
            from("cross-site", "navigate"),
            "a link on another page may lead here"
        );
        assert!(!from("cross-site", "no-cors"));
    }
}
