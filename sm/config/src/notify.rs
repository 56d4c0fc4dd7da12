//! Types of section `notify`: addresses of receivers, filters, and files of headers. No finding
//! shows the value of a header.

use std::fmt;
use std::path::{Path, PathBuf};

use super::ConfigError;
use super::finding::{ConfigFinding, ConfigSeverity};
use super::line_file::{Comments, LineFile};
use super::text_file::{access_of_others, read_text, usable};
use super::value::{Given, HeldValue, InvalidValue, Kind, Takes, Value, list, text};

/// Kinds of events that a receiver gets, by the names of `rsmctl events --kind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventKinds(Vec<&'static str>);

impl EventKinds {
    /// Names of all kinds of events that leave this machine.
    pub const ALL: [&str; 8] = [
        "manager",
        "node",
        "port",
        "link",
        "routes",
        "finding",
        "convergence",
        "operator",
    ];

    /// Whether the list contains the kind with this name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

impl Default for EventKinds {
    /// The kinds whose single events matter. Ports, routes and convergences, by contrast, change
    /// with every repair.
    fn default() -> EventKinds {
        EventKinds(vec!["manager", "node", "link", "finding", "operator"])
    }
}

impl Takes for EventKinds {
    const KIND: Kind = Kind::Form(
        "a string of kinds of events, separated by commas: manager, node, port, link, routes, \
         finding, convergence, operator",
    );
}

impl Value for EventKinds {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        let known = |word: &str| EventKinds::ALL.into_iter().find(|&kind| kind == word);
        let kinds = list(given, |word| known(word).ok_or(InvalidValue))?;
        // An empty list would send nothing; the operator omits the address for that.
        if kinds.is_empty() {
            return Err(InvalidValue);
        }
        *self = EventKinds(kinds);
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        Some(HeldValue::Text(self.0.join(",")))
    }
}

/// Address of an HTTP server. Shown without its path, which may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl {
    /// Whether the connection is TLS.
    pub tls: bool,
    /// Name or address, the latter without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path and query, which begins with a slash.
    pub path: String,
}

impl HttpUrl {
    /// Parses `http://HOST[:PORT][/PATH]` or `https://HOST[:PORT][/PATH]`. `None` for any other
    /// form, and for a URL with a user or password, because credentials belong in a file.
    pub fn parse(text: &str) -> Option<HttpUrl> {
        let (scheme, rest) = text.split_once("://")?;
        let (tls, default_port) = match scheme {
            "http" => (false, 80),
            "https" => (true, 443),
            _ => return None,
        };
        let is_plain = rest.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain || rest.contains(['#', '"', '<', '>', '\\', '^', '`', '{', '|', '}']) {
            return None;
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = host_and_port(authority, Some(default_port))?;
        let path = match path {
            "" => "/".to_owned(),
            path if path.starts_with('?') => format!("/{path}"),
            path => path.to_owned(),
        };
        Some(HttpUrl {
            tls,
            host,
            port,
            path,
        })
    }

    /// Host and port in the form of a request.
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }
}

/// Formats without the path.
impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Splits `HOST:PORT`, or `HOST` if there is a default port. The host may be an IPv6 address in
/// brackets. `None` for any other form, and for port 0.
fn host_and_port(text: &str, default_port: Option<u16>) -> Option<(String, u16)> {
    let is_split = !text.ends_with(']');
    let split = text.rsplit_once(':').filter(|_| is_split);
    let (host, port) = match split {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, port.parse().ok()?)
        }
        Some(_) => return None,
        None => (text, default_port?),
    };
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_host = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            !host.is_empty() && host.chars().all(known)
        }
    };
    (is_host && port != 0).then(|| (bare.unwrap_or(host).to_owned(), port))
}

/// `HOST:PORT`, with brackets around an IPv6 address.
fn authority(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

impl Takes for Option<HttpUrl> {
    const KIND: Kind = Kind::Form(
        "a string of http://HOST:PORT/PATH or https://HOST:PORT/PATH without a user or password",
    );
}

impl Value for Option<HttpUrl> {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        *self = match text(given)? {
            "" => None,
            url => Some(HttpUrl::parse(url).ok_or(InvalidValue)?),
        };
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        self.as_ref()
            .map(|url| HeldValue::Text(format!("{url}{}", url.path)))
    }
}

/// Address of a syslog daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogAddress {
    /// Host and port of datagrams (RFC 5426).
    Udp(String, u16),
    /// Host and port of a stream with octet counting (RFC 6587, 3.4.1).
    Tcp(String, u16),
    /// Socket of datagrams on this machine.
    Local(PathBuf),
}

impl SyslogAddress {
    /// Parses `udp://HOST:PORT`, `tcp://HOST:PORT` or `unix:/PATH`. The default port is 514. `None`
    /// for any other form.
    pub fn parse(text: &str) -> Option<SyslogAddress> {
        const PORT: u16 = 514;
        if let Some(path) = text.strip_prefix("unix:") {
            return path
                .starts_with('/')
                .then(|| SyslogAddress::Local(path.into()));
        }
        let (scheme, rest) = text.split_once("://")?;
        let (host, port) = host_and_port(rest, Some(PORT))?;
        match scheme {
            "udp" => Some(SyslogAddress::Udp(host, port)),
            "tcp" => Some(SyslogAddress::Tcp(host, port)),
            _ => None,
        }
    }
}

impl fmt::Display for SyslogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyslogAddress::Udp(host, port) => write!(f, "udp://{}", authority(host, *port)),
            SyslogAddress::Tcp(host, port) => write!(f, "tcp://{}", authority(host, *port)),
            SyslogAddress::Local(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Takes for Option<SyslogAddress> {
    const KIND: Kind =
        Kind::Form("a string of udp://HOST:PORT, tcp://HOST:PORT or unix:/PATH/OF/SOCKET");
}

impl Value for Option<SyslogAddress> {
    fn set(&mut self, given: Given<'_>) -> Result<(), InvalidValue> {
        *self = match text(given)? {
            "" => None,
            address => Some(SyslogAddress::parse(address).ok_or(InvalidValue)?),
        };
        Ok(())
    }

    fn held(&self) -> Option<HeldValue> {
        self.as_ref()
            .map(|address| HeldValue::Text(address.to_string()))
    }
}

/// Maximum number of headers in a file.
const HEADERS_MAX: usize = 32;

/// Headers that belong to the transport, in lower case.
const RESERVED_HEADERS: [&str; 8] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Reads a file of headers: each line has a name, a colon and a value; a line that begins with `#`
/// is a comment. Returns names in lower case.
///
/// # Errors
///
/// Fails if the file cannot be read, has any error or no header, or is readable by users other than
/// its owner.
pub fn load_headers(file: &Path) -> Result<Vec<(String, String)>, ConfigError> {
    let text = read_text(file)?;
    let (headers, mut findings) = parse_headers(file, &text);
    let why = format!("it holds secrets; `chmod 600 {}`", file.display());
    findings.extend(access_of_others(file, &text, &why)?);
    Ok(usable((headers, findings))?.0)
}

fn parse_headers(file: &Path, text: &str) -> (Vec<(String, String)>, Vec<ConfigFinding>) {
    let mut lines = LineFile::new(file, text, Comments::WholeLines);
    let mut headers = Vec::new();
    lines.each(|line| {
        let fault = match header(line.text) {
            Err(fault) => fault,
            Ok(_) if headers.len() == HEADERS_MAX => "more than 32 headers",
            Ok(header) => {
                headers.push(header);
                return Ok(());
            }
        };
        let expected = "expected a name, a colon and a value, such as Authorization: Bearer SECRET";
        Err(line.error(expected).found(fault))
    });
    if headers.is_empty() {
        let expected = "expected a line such as Authorization: Bearer SECRET";
        lines.about_all(ConfigSeverity::Error, "no header", expected);
    }
    (headers, lines.finish())
}

/// Parses a header `NAME: VALUE`. The error does not contain the value.
fn header(line: &str) -> Result<(String, String), &'static str> {
    let (name, value) = line.split_once(':').ok_or("the line has no colon")?;
    let (name, value) = (name.trim_end().to_ascii_lowercase(), value.trim());
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err("the name has other characters than letters, digits, - and _");
    }
    if RESERVED_HEADERS.contains(&name.as_str()) || name.starts_with("grpc-") {
        return Err("rsm sets this header itself");
    }
    if value.is_empty() || !value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Err("the value is empty or has characters other than those of ASCII");
    }
    Ok((name, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn valid_addresses_are_parsed_and_invalid_addresses_refused() {
        for (text, shown) in [
            ("http://127.0.0.1:4317", "http://127.0.0.1:4317"),
            (
                "https://hooks.example.com/a/SECRET?b=c",
                "https://hooks.example.com:443",
            ),
            ("http://[::1]:80/x", "http://[::1]:80"),
            ("https://h?token=SECRET", "https://h:443"),
        ] {
            let url = HttpUrl::parse(text).unwrap();
            assert_eq!(
                (url.to_string(), format!("{url:?}")),
                (shown.into(), shown.into())
            );
            let held = Some(url).held().unwrap();
            let HeldValue::Text(held) = held else {
                panic!("{held:?}")
            };
            assert_eq!(HttpUrl::parse(&held), HttpUrl::parse(text), "{text}");
        }
        for text in [
            "",
            "ftp://h/",
            "http://",
            "http://user:pw@h/",
            "http://h:0/",
            "http://h:99999/",
            "http://h:x/",
            "http://h/a b",
            "http://h/\r\nX: y",
            "http://[::1/",
            "http://h/#f",
            "h:80",
            "http://::1:80/",
        ] {
            assert_eq!(HttpUrl::parse(text), None, "{text:?}");
        }
        for text in ["udp://loghost:514", "tcp://[::1]:6514", "unix:/dev/log"] {
            assert_eq!(SyslogAddress::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            SyslogAddress::parse("udp://h"),
            SyslogAddress::parse("udp://h:514")
        );
        for text in [
            "loghost",
            "udp:loghost",
            "tls://h:1",
            "unix:log",
            "udp://:514",
            "udp://h:1:2",
        ] {
            assert_eq!(SyslogAddress::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn known_kinds_are_accepted_and_empty_or_unknown_kinds_refused() {
        let mut kinds = EventKinds::default();
        kinds.set(Given::Text("finding, link,")).unwrap();
        assert!(kinds.contains("finding") && kinds.contains("link") && !kinds.contains("node"));
        for wrong in ["", ",", "findings", "gap"] {
            assert_eq!(
                kinds.set(Given::Text(wrong)),
                Err(InvalidValue),
                "{wrong:?}"
            );
        }
        assert!(kinds.contains("finding"), "a refused value changes nothing");
    }

    #[test]
    fn header_files_must_be_private_and_no_finding_shows_a_value() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("headers");
        let load = |text: &str, mode: u32| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            load_headers(&file)
        };
        let good = "# of the site\nAuthorization: Bearer SECRET\n\nX-Scope: a: b\n";
        let expected = [("authorization", "Bearer SECRET"), ("x-scope", "a: b")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(load(good, 0o600).unwrap(), expected);
        assert!(load(good, 0o640).is_err());
        for wrong in [
            "",
            "SECRET",
            "Host: SECRET",
            "grpc-timeout: 1S",
            "a b: SECRET",
            "x: SECR\u{e9}T",
        ] {
            let Err(ConfigError::Invalid { findings }) = load(wrong, 0o600) else {
                panic!("{wrong:?}");
            };
            let said = findings[0].to_string();
            assert!(
                wrong.is_empty() || !said.contains(":1: error: SECR"),
                "{said}"
            );
            assert!(!findings[0].found.contains("SECR"), "{said}");
        }
    }
}
