//! Parser of routes to other subnets in OpenSM's format: each line has a subnet prefix and the port
//! GUID of a router in this subnet; `*` stands for any prefix or router; `#` begins a comment.

use std::path::Path;

use rsm_ids::Guid;

use super::finding::{ConfigFinding, ConfigSeverity};
use super::line_file::{Comments, LineFile};

/// The routers of this subnet that lead to other subnets, in the order of the lines. The first line
/// that matches a prefix counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixRoutes {
    routes: Vec<PrefixRoute>,
}

/// A line of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PrefixRoute {
    /// Subnet prefix; `None` for any prefix.
    prefix: Option<u64>,
    /// Port GUID of the router; `None` for any router.
    router: Option<Guid>,
}

/// The router for a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterPort {
    /// The port with this GUID.
    Port(Guid),
    /// Any router of the subnet.
    Any,
}

impl PrefixRoutes {
    /// The router to the subnet with this prefix; `None` if no line matches.
    pub fn router(&self, prefix: u64) -> Option<RouterPort> {
        let mut routes = self.routes.iter();
        let route =
            routes.find(|route| route.prefix.is_none_or(|line_prefix| line_prefix == prefix))?;
        Some(route.router.map_or(RouterPort::Any, RouterPort::Port))
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether no route leads to another subnet.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
}

/// Parses the text of `file`. Returns the routes and the findings. The routes are usable only if no
/// finding is an error: without an erroneous line, its prefix would match a later line.
pub fn parse_prefix_routes(file: &Path, text: &str) -> (PrefixRoutes, Vec<ConfigFinding>) {
    let mut lines = LineFile::new(file, text, Comments::Anywhere);
    let mut routes = PrefixRoutes::default();
    lines.each(|line| {
        let words: Vec<_> = line.text.split_whitespace().collect();
        routes.routes.push(route(&words).ok_or(line.error(
            "expected a subnet prefix of 16 hexadecimal digits and the GUID of a router's port, or * for any",
        ))?);
        Ok(())
    });
    if routes.is_empty() {
        let expected = "the SA answers no path to another subnet";
        lines.about_all(ConfigSeverity::Warning, "no route", expected);
    }
    (routes, lines.finish())
}

/// Parses the words of a line; `None` if they are not a route.
fn route(words: &[&str]) -> Option<PrefixRoute> {
    let [prefix, router] = words else {
        return None;
    };
    let parse_hex = |word: &str| -> Option<u64> {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        // `from_str_radix` alone would also accept a sign.
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        is_number.then(|| u64::from_str_radix(digits, 16).ok())?
    };
    let any_or = |word: &str| match word {
        "*" => Some(None),
        // Zero means any prefix or router, as in OpenSM.
        word => parse_hex(word).map(|number| Some(number).filter(|&number| number != 0)),
    };
    Some(PrefixRoute {
        prefix: any_or(prefix)?,
        router: any_or(router)?.map(Guid),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_matching_line_determines_the_router() {
        let text = "# prefix, router\n0xfec0000000000001 0x2c900000010 # one\n\n\
                    fec0000000000002 *\n* 0x2c900000020\n0xfec0000000000003 0x1\n";
        let (routes, findings) = parse_prefix_routes(Path::new("routes"), text);
        assert_eq!(findings, []);
        assert_eq!(routes.len(), 4);
        let router = |prefix| routes.router(prefix).unwrap();
        assert_eq!(
            router(0xfec0_0000_0000_0001),
            RouterPort::Port(Guid(0x2c9_0000_0010))
        );
        assert_eq!(router(0xfec0_0000_0000_0002), RouterPort::Any);
        assert_eq!(
            router(0xfec0_0000_0000_0003),
            RouterPort::Port(Guid(0x2c9_0000_0020))
        );
        assert_eq!(PrefixRoutes::default().router(1), None);
    }

    #[test]
    fn each_malformed_line_is_an_error_with_its_line_number() {
        let text = "0xfec0000000000001\nfec0:0:0:1 0x10\n0x1 0x2 0x3\n+1 0x2\n0x1 0x12345678901234567\n* *\n";
        let (routes, findings) = parse_prefix_routes(Path::new("routes"), text);
        let lines: Vec<_> = findings.iter().map(|f| (f.line, f.severity)).collect();
        let error = ConfigSeverity::Error;
        assert_eq!(
            lines,
            [(1, error), (2, error), (3, error), (4, error), (5, error)]
        );
        assert_eq!(routes.len(), 1);
    }
}
