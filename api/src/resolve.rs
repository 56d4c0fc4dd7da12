//! Resolves names to one node or port, by the same rules for every request.

use rsm_ids::{Gid, Guid, Lid, PortNum};
use rsm_proto::plain_names;
use rsm_routing::netlist::host_of;

use crate::error::{Candidate, LookupError};
use crate::limits::MAX_CANDIDATES;
use crate::model::{PortId, Selector};

/// The names that a lookup can find.
pub trait NameLookup {
    /// Whether a node has this GUID.
    fn has_node(&self, guid: Guid) -> bool;

    /// The port with this port GUID; the port GUID of a switch leads to its port 0.
    fn port_of_guid(&self, guid: Guid) -> Option<PortId>;

    /// The port with this LID, as its base LID or one of the LIDs of its LMC.
    fn port_of_lid(&self, lid: Lid) -> Option<PortId>;

    /// The port with this GID, whose prefix may be the subnet's or the link-local one.
    fn port_of_gid(&self, gid: Gid) -> Option<PortId>;

    /// The nodes whose description satisfies `is_meant`, by ascending GUID.
    fn nodes_described(&self, is_meant: &dyn Fn(&str) -> bool) -> Vec<Guid>;

    /// The nodes that `name` names in this form, by ascending GUID. A directory with an index of
    /// names need not read all descriptions.
    fn nodes_named(&self, name: &str, form: NameForm) -> Vec<Guid> {
        self.nodes_described(&|description| form.is_name(name, description))
    }

    /// Whether the node has a port with this number; every switch has a port 0.
    fn has_port(&self, port: PortId) -> bool;

    /// The ports of the node that hold a LID, ascending; for a switch, port 0.
    fn end_ports(&self, node: Guid) -> Vec<PortNum>;

    /// The ports of the node that can have a cable, ascending, each with whether it has one; port 0
    /// is none of them.
    fn cable_ports(&self, node: Guid) -> Vec<(PortNum, bool)>;

    /// The description of a node, and the facts that tell the node or its port from others: kind,
    /// LID, and the port at the other end of the cable. Both are empty if they are not known.
    fn described(&self, _node: Guid, _port: Option<PortNum>) -> (String, String) {
        Default::default()
    }

    /// The error for a port that holds no LID.
    fn without_lid(&self, port: PortId) -> LookupError {
        LookupError::NoLid { port }
    }

    /// The error for a name that in this sense matches nodes which have left the subnet: the last
    /// place of the only node or host, or the candidates if there are several. `None` if no such
    /// node matches. The lookup calls the method only if no present node matches.
    fn gone(&self, _selector: &Selector, _sense: Sense) -> Option<LookupError> {
        None
    }
}

/// The extent to which a text must match a node's description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    /// The text is the whole description, or the name of a switch in it, or that name with the part
    /// of a chassis (`core/L01`). Matches in the given case come before matches in any case.
    Whole,
    /// The text is any part of the description, in any case.
    Part,
}

/// The form in which a text names a node by its description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameForm {
    /// The whole description, or the name of a switch in it.
    Exact,
    /// The whole description, or the name of a switch in it, in any case of letters.
    AnyCase,
    /// The name that tables show, such as `core/L01`, in any case of letters.
    Shown,
    /// The name of the host that an adapter belongs to.
    Host,
    /// Any part of the description, in any case of letters.
    Part,
}

impl NameForm {
    /// Whether `name` names, in this form, a node with this description.
    pub fn is_name(self, name: &str, description: &str) -> bool {
        let is_own = |is_name: &dyn Fn(&str) -> bool| {
            is_name(description) || switch_name(description).is_some_and(is_name)
        };
        match self {
            NameForm::Exact => is_own(&|own| own == name),
            NameForm::AnyCase => is_own(&|own| own.eq_ignore_ascii_case(name)),
            NameForm::Shown => plain_names(description).eq_ignore_ascii_case(name),
            NameForm::Host => host_of(description) == Some(name),
            NameForm::Part => contains(
                &description.to_ascii_lowercase(),
                &name.to_ascii_lowercase(),
            ),
        }
    }
}

/// The names of a node with this description in all forms but [`NameForm::Part`], in lower case,
/// for an index of names. A name may occur twice.
pub fn names_in(description: &str) -> impl Iterator<Item = String> {
    let own = [
        Some(description),
        switch_name(description),
        host_of(description),
    ];
    let shown = plain_names(description).to_ascii_lowercase();
    let own = own.into_iter().flatten().map(str::to_ascii_lowercase);
    own.chain([shown])
}

/// The object that a name identifies, before a default port is chosen.
struct Target {
    node: Guid,
    port: Option<PortNum>,
}

/// The error for a GUID, LID or GID that nothing present has.
fn not_found(directory: &(impl NameLookup + ?Sized), selector: &Selector) -> LookupError {
    let not_found = || LookupError::NotFound {
        selector: selector.to_string(),
    };
    directory
        .gone(selector, Sense::Whole)
        .unwrap_or_else(not_found)
}

/// The error for a name that all nodes or ports in `meant` have. `meant` ascends; the error lists
/// the first [`MAX_CANDIDATES`].
pub fn ambiguous(
    directory: &(impl NameLookup + ?Sized),
    selector: &Selector,
    meant: &[(Guid, Option<PortNum>)],
) -> LookupError {
    let shown = meant.iter().take(MAX_CANDIDATES);
    LookupError::Ambiguous {
        selector: selector.to_string(),
        candidates: shown
            .map(|&(node, port)| candidate(directory, node, port))
            .collect(),
        total: meant.len(),
    }
}

/// A node or port as a candidate, under a name that no other one has: the description if it is
/// unique, otherwise the GUID.
fn candidate(
    directory: &(impl NameLookup + ?Sized),
    node: Guid,
    port: Option<PortNum>,
) -> Candidate {
    let (description, facts) = directory.described(node, port);
    let with_port = |name: String| match port {
        Some(port) => format!("{name}:{port}"),
        None => name,
    };
    let names = [plain_names(&description), description.clone()];
    let own = names.into_iter().map(with_port).find(|name| {
        let Ok(Selector::Description(text)) = name.parse() else {
            return false;
        };
        let find: &FindNamed<'_, Guid> = &|name, form| directory.nodes_named(name, form);
        called(&text, Sense::Whole, find) == (vec![node], port)
    });
    match own {
        Some(name) => Candidate {
            name: shell_word(&name),
            facts,
        },
        None => {
            let known = [description, facts].into_iter();
            let known: Vec<String> = known.filter(|part| !part.is_empty()).collect();
            Candidate {
                name: Selector::Guid { guid: node, port }.to_string(),
                facts: known.join(", "),
            }
        }
    }
}

/// Quotes a word for a shell, unless it is plain.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The present node that a selector identifies, and its port if the selector has one. The port may
/// not exist.
fn locate(
    directory: &(impl NameLookup + ?Sized),
    selector: &Selector,
) -> Result<Target, LookupError> {
    match selector {
        Selector::Guid { guid, port } => {
            if directory.has_node(*guid) {
                return Ok(Target {
                    node: *guid,
                    port: *port,
                });
            }
            match (directory.port_of_guid(*guid), port) {
                (Some(found), None) => Ok(Target {
                    node: found.node,
                    port: Some(found.number),
                }),
                _ => Err(not_found(directory, selector)),
            }
        }
        // Only a unicast LID belongs to a port; ports without a LID hold zero.
        Selector::Lid(lid) => Some(*lid)
            .filter(|lid| lid.is_unicast())
            .and_then(|lid| directory.port_of_lid(lid))
            .map(|found| Target {
                node: found.node,
                port: Some(found.number),
            })
            .ok_or_else(|| not_found(directory, selector)),
        Selector::Gid(gid) => directory
            .port_of_gid(*gid)
            .map(|found| Target {
                node: found.node,
                port: Some(found.number),
            })
            .ok_or_else(|| not_found(directory, selector)),
        Selector::Description(text) => described(directory, selector, text),
    }
}

/// The present node with this description. Whole descriptions are tried before parts of them; in
/// each of the two steps, present nodes are tried before nodes that have left the subnet.
fn described(
    directory: &(impl NameLookup + ?Sized),
    selector: &Selector,
    text: &str,
) -> Result<Target, LookupError> {
    for sense in [Sense::Whole, Sense::Part] {
        let (nodes, port) = called(text, sense, &|name, form| directory.nodes_named(name, form));
        match *nodes.as_slice() {
            [] => {}
            [node] => return Ok(Target { node, port }),
            _ => {
                let has = |node: Guid, number| directory.has_port(PortId { node, number });
                let having = nodes.iter().copied();
                let having = having.filter(|&node| port.is_none_or(|port| has(node, port)));
                let having: Vec<Guid> = having.collect();
                // Where no two nodes have such a port, the nodes are the candidates.
                let meant: Vec<_> = match having.len() {
                    0 | 1 => nodes.into_iter().map(|node| (node, None)).collect(),
                    _ => having.into_iter().map(|node| (node, port)).collect(),
                };
                return Err(ambiguous(directory, selector, &meant));
            }
        }
        if let Some(gone) = directory.gone(selector, sense) {
            return Err(gone);
        }
    }
    let selector = selector.to_string();
    Err(match similar(directory, text) {
        none if none.is_empty() => LookupError::NotFound { selector },
        similar => LookupError::Similar { selector, similar },
    })
}

/// The maximum number of similar names that an error proposes.
const MAX_SIMILAR: usize = 4;

/// The names of present nodes that are similar to the node in `text`: equal but for zeros before
/// numbers (`leaf-028` for `leaf-28`), then those that contain it although that cuts a number of
/// theirs in two (`leaf-280`). `…` stands for those beyond [`MAX_SIMILAR`].
fn similar(directory: &(impl NameLookup + ?Sized), text: &str) -> Vec<String> {
    let name = Selector::split_port(text).map_or(text, |(name, _)| name);
    let (lower, bare) = (name.to_ascii_lowercase(), without_zeros(name));
    let is_equal = |found: &str| without_zeros(&plain_names(found)) == bare;
    let is_part = |found: &str| {
        !lower.is_empty() && !is_equal(found) && found.to_ascii_lowercase().contains(&lower)
    };
    let mut nodes = directory.nodes_described(&is_equal);
    nodes.extend(directory.nodes_described(&is_part));
    let shown = nodes.iter().take(MAX_SIMILAR);
    let mut names: Vec<String> = shown
        .map(|&node| candidate(directory, node, None).name)
        .collect();
    if nodes.len() > MAX_SIMILAR {
        names.push("…".to_owned());
    }
    names
}

/// A name in lower case, without zeros at the beginning of its numbers.
fn without_zeros(name: &str) -> String {
    let mut bare = String::new();
    let mut signs = name.chars().peekable();
    while let Some(sign) = signs.next() {
        let follows = bare.ends_with(|before: char| before.is_ascii_digit());
        let is_leading = sign == '0' && !follows && signs.peek().is_some_and(char::is_ascii_digit);
        if !is_leading {
            bare.push(sign.to_ascii_lowercase());
        }
    }
    bare
}

/// A function that finds the nodes that a text names in a form.
pub type FindNamed<'a, T> = dyn Fn(&str, NameForm) -> Vec<T> + 'a;

/// The nodes that `text` names, and the port number that it ends with. The whole text is tried as a
/// name first; only if no node has that name, the text before `:PORT` is tried.
pub fn called<T>(text: &str, sense: Sense, find: &FindNamed<'_, T>) -> (Vec<T>, Option<PortNum>) {
    let named = |name: &str| match sense {
        Sense::Whole => called_whole(name, find),
        Sense::Part => find(name, NameForm::Part),
    };
    let whole = named(text);
    match (whole.is_empty(), Selector::split_port(text)) {
        (true, Some((name, port))) => (named(name), Some(port)),
        _ => (whole, None),
    }
}

/// The nodes with this description, and the switches with this name in their description: first in
/// the given case, then in any case, and finally by the name that tables show (`core/L01`). A host
/// whose description is the name of a switch makes the name ambiguous, and does not replace the
/// switch.
fn called_whole<T>(name: &str, find: &FindNamed<'_, T>) -> Vec<T> {
    let forms = [NameForm::Exact, NameForm::AnyCase, NameForm::Shown];
    let mut found = forms.into_iter().map(|form| find(name, form));
    found.find(|nodes| !nodes.is_empty()).unwrap_or_default()
}

/// Whether `text` contains `part` without cutting a number of `text` in two: `node-17` does not
/// contain `node-1`.
fn contains(text: &str, part: &str) -> bool {
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let (bytes, ends) = (text.as_bytes(), part.as_bytes());
    text.match_indices(part).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let after = bytes.get(at + part.len());
        let cuts = digit(ends.first()) && digit(before) || digit(ends.last()) && digit(after);
        !part.is_empty() && !cuts
    })
}

/// The operator's name of a switch, which managed NVIDIA switches put into their description:
/// `leaf-03` in `MF0;leaf-03:MQM8700/U1`.
pub fn switch_name(description: &str) -> Option<&str> {
    let (chassis, rest) = description.split_once(';')?;
    let (name, model) = rest.rsplit_once(':')?;
    let is_chassis = chassis.strip_prefix("MF").is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    });
    (is_chassis && model.contains('/')).then_some(name)
}

/// The node that `selector` identifies; a selector of a port leads to the port's node.
///
/// # Errors
/// Nothing has this name, several nodes have it, or the node has no port of this number.
pub fn resolve_node(
    directory: &(impl NameLookup + ?Sized),
    selector: &Selector,
) -> Result<Guid, LookupError> {
    let target = locate(directory, selector)?;
    if let Some(number) = target.port {
        existing(
            directory,
            PortId {
                node: target.node,
                number,
            },
        )?;
    }
    Ok(target.node)
}

/// The node that `selector` identifies, and the port if the selector has one.
///
/// # Errors
/// The errors of [`resolve_node`].
pub fn resolve_node_or_port(
    directory: &(impl NameLookup + ?Sized),
    selector: &Selector,
) -> Result<(Guid, Option<PortNum>), LookupError> {
    let Target { node, port } = locate(directory, selector)?;
    if let Some(number) = port {
        existing(directory, PortId { node, number })?;
    }
    Ok((node, port))
}

/// The nodes that `selector` identifies, if it may also name a host: all adapters of the host, or
/// one node, with the port if the selector has one. Ascending; at least one.
///
/// # Errors
/// The errors of [`resolve_node`], unless a host with several adapters has the name.
pub fn resolve_host_or_part(
    directory: &(impl NameLookup + ?Sized),
    selector: &Selector,
) -> Result<Vec<(Guid, Option<PortNum>)>, LookupError> {
    if let Selector::Description(text) = selector {
        let find: &FindNamed<'_, Guid> = &|name, form| directory.nodes_named(name, form);
        let adapters = find(text, NameForm::Host);
        if adapters.len() > 1 && called_whole(text, find).is_empty() {
            return Ok(adapters.into_iter().map(|node| (node, None)).collect());
        }
    }
    Ok(vec![resolve_node_or_port(directory, selector)?])
}

/// The port that `selector` identifies. A node without a port number stands for its only port with
/// a LID, and a switch for its port 0.
///
/// # Errors
/// The errors of [`resolve_node`], or the node has several ports with a LID or none.
pub fn resolve_port(
    directory: &(impl NameLookup + ?Sized),
    selector: &Selector,
) -> Result<PortId, LookupError> {
    let Target { node, port } = locate(directory, selector)?;
    if let Some(number) = port {
        return existing(directory, PortId { node, number });
    }
    let ends = directory.end_ports(node);
    match *ends.as_slice() {
        [] => Err(directory.without_lid(PortId {
            node,
            number: PortNum::ZERO,
        })),
        [number] => Ok(PortId { node, number }),
        _ => {
            let meant: Vec<_> = ends.iter().map(|&number| (node, Some(number))).collect();
            Err(ambiguous(directory, selector, &meant))
        }
    }
}

/// The port with a cable that `selector` identifies. A node without a port number, and a switch's
/// port 0, stands for the only port that the node has, otherwise for its only port with a cable.
///
/// # Errors
/// The errors of [`resolve_node`], or the node has several ports with a cable, or several ports and
/// none with a cable.
pub fn resolve_cable_port(
    directory: &(impl NameLookup + ?Sized),
    selector: &Selector,
) -> Result<PortId, LookupError> {
    let Target { node, port } = locate(directory, selector)?;
    if let Some(number) = port.filter(|&number| number != PortNum::ZERO) {
        return existing(directory, PortId { node, number });
    }
    let all = directory.cable_ports(node);
    let cabled = all.iter().filter(|&&(_, has_cable)| has_cable);
    let cabled: Vec<PortNum> = cabled.map(|&(number, _)| number).collect();
    match (&all[..], &cabled[..]) {
        (&[(number, _)], _) | (_, &[number]) => Ok(PortId { node, number }),
        _ => {
            let meant: Vec<_> = match cabled.is_empty() {
                true => all
                    .iter()
                    .map(|&(number, _)| (node, Some(number)))
                    .collect(),
                false => cabled.iter().map(|&number| (node, Some(number))).collect(),
            };
            Err(ambiguous(directory, selector, &meant))
        }
    }
}

/// Returns `port`, or an error if the node has no port of this number.
fn existing(directory: &(impl NameLookup + ?Sized), port: PortId) -> Result<PortId, LookupError> {
    if directory.has_port(port) {
        Ok(port)
    } else {
        Err(LookupError::NoSuchPort { port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of few nodes. The GUID of port N is the node's GUID plus N, and a port other than 0
    /// has a cable if it holds a LID.
    struct Few(&'static [FewNode]);

    /// A node's GUID and description, and the number and LID of each port (LID 0 for none).
    type FewNode = (u64, &'static str, &'static [(u8, u16)]);

    impl Few {
        fn ports(&self) -> impl Iterator<Item = (PortId, Lid)> {
            self.0.iter().flat_map(|&(guid, _, ports)| {
                ports.iter().map(move |&(number, lid)| {
                    let (node, number) = (Guid(guid), PortNum(number));
                    (PortId { node, number }, Lid(lid))
                })
            })
        }
    }

    impl NameLookup for Few {
        fn has_node(&self, guid: Guid) -> bool {
            self.0.iter().any(|node| node.0 == guid.0)
        }

        fn port_of_guid(&self, guid: Guid) -> Option<PortId> {
            self.ports()
                .map(|(key, _)| key)
                .find(|key| key.node.0 + u64::from(key.number.0) == guid.0)
        }

        fn port_of_lid(&self, lid: Lid) -> Option<PortId> {
            self.ports()
                .find(|&(_, own)| own == lid)
                .map(|(key, _)| key)
        }

        fn port_of_gid(&self, gid: Gid) -> Option<PortId> {
            let here = gid.prefix() == 0xFE80 << 48;
            here.then(|| self.port_of_guid(gid.guid())).flatten()
        }

        fn nodes_described(&self, is_meant: &dyn Fn(&str) -> bool) -> Vec<Guid> {
            let named = self.0.iter().filter(|node| is_meant(node.1));
            named.map(|node| Guid(node.0)).collect()
        }

        fn described(&self, node: Guid, port: Option<PortNum>) -> (String, String) {
            let named = self.0.iter().find(|one| one.0 == node.0);
            let mut ports = self.ports().filter(|(key, _)| key.node == node);
            let lid = ports.find(|(key, _)| port.is_none_or(|port| key.number == port));
            let facts = lid.map_or_else(String::new, |(_, lid)| format!("LID {lid}"));
            (
                named.map_or_else(String::new, |one| one.1.to_owned()),
                facts,
            )
        }

        fn has_port(&self, port: PortId) -> bool {
            self.ports().any(|(key, _)| key == port)
        }

        fn cable_ports(&self, node: Guid) -> Vec<(PortNum, bool)> {
            self.ports()
                .filter(|&(key, _)| key.node == node && key.number != PortNum::ZERO)
                .map(|(key, lid)| (key.number, lid != Lid::NONE))
                .collect()
        }

        fn end_ports(&self, node: Guid) -> Vec<PortNum> {
            self.ports()
                .filter(|&(key, lid)| key.node == node && lid != Lid::NONE)
                .map(|(key, _)| key.number)
                .collect()
        }
    }

    const FEW: Few = Few(&[
        (0x10_0000, "sw", &[(0, 1), (1, 0), (2, 0)]),
        (0x20_0000, "two-ports", &[(1, 2), (2, 3)]),
        (0x30_0000, "rack:1", &[(1, 4)]),
        (0x40_0000, "rack", &[(1, 5)]),
        (0x50_0000, "dark", &[(1, 0)]),
        (0x60_0000, "MF0;leaf-03:MQM8700/U1", &[(0, 6), (1, 0)]),
        (0x70_0000, "MF0;director:CS7500/L01/U1", &[(0, 7)]),
        (0x80_0000, "MF0;director:CS7500/L02/U1", &[(0, 8)]),
        (0x90_0000, "MF0;leaf-04:MQM8700/U1", &[(0, 9)]),
        (0xb0_0000, "leaf-04", &[(1, 11)]),
        (0xa0_0000, "note;no-switch:at all", &[(1, 10)]),
        (0xc0_0000, "adapter mlx5_0", &[(1, 12)]),
        (0xd0_0000, "adapter mlx5_1", &[(1, 13)]),
        (0xe0_0000, "adapter mlx5_1", &[(1, 14)]),
    ]);

    fn port(text: &str) -> Result<(u64, u8), LookupError> {
        resolve_port(&FEW, &text.parse().unwrap()).map(|key| (key.node.0, key.number.0))
    }

    #[test]
    fn a_node_resolves_to_its_one_end_port() {
        assert_eq!(port("sw"), Ok((0x10_0000, 0)));
        assert_eq!(port("sw:2"), Ok((0x10_0000, 2)));
        assert!(matches!(port("dark"), Err(LookupError::NoLid { .. })));
    }

    #[test]
    fn several_end_ports_are_listed_as_candidates() {
        let Err(LookupError::Ambiguous {
            candidates, total, ..
        }) = port("two-ports")
        else {
            panic!("two ports hold a LID");
        };
        assert_eq!(total, 2);
        let found = candidates.iter().map(|one| one.name.as_str());
        assert_eq!(found.collect::<Vec<_>>(), ["two-ports:1", "two-ports:2"]);
        for (number, one) in (1..).zip(&candidates) {
            assert_eq!(port(&one.name), Ok((0x20_0000, number)));
        }
    }

    #[test]
    fn candidates_have_unique_names_for_a_shell_and_distinguishing_facts() {
        let text = port("adapter").unwrap_err().to_string();
        assert_eq!(
            text,
            "`adapter` names 3 things; use one of: 'adapter mlx5_0' (LID 12), 0x0000000000d00000 \
             (adapter mlx5_1, LID 13), 0x0000000000e00000 (adapter mlx5_1, LID 14)"
        );
        assert_eq!(port("adapter mlx5_0"), Ok((0xc0_0000, 1)));
        assert_eq!(shell_word("it's"), "'it'\\''s'");
    }

    #[test]
    fn a_description_is_looked_up_whole_before_it_is_split() {
        assert_eq!(port("rack:1"), Ok((0x30_0000, 1)));
        assert_eq!(port("rack:1:1"), Ok((0x30_0000, 1)));
        assert_eq!(port("rack"), Ok((0x40_0000, 1)));
        assert!(matches!(
            port("rack:2"),
            Err(LookupError::NoSuchPort { .. })
        ));
    }

    #[test]
    fn a_switch_resolves_by_the_name_in_its_description() {
        assert_eq!(port("leaf-03"), Ok((0x60_0000, 0)));
        assert_eq!(port("leaf-03:1"), Ok((0x60_0000, 1)));
        assert_eq!(port("MF0;leaf-03:MQM8700/U1:1"), Ok((0x60_0000, 1)));
        assert!(matches!(
            port("director"),
            Err(LookupError::Ambiguous { total: 2, .. })
        ));
    }

    #[test]
    fn a_host_that_calls_itself_by_the_name_of_a_switch_makes_the_name_ambiguous() {
        for name in ["leaf-04", "leaf-04:1", "LEAF-04"] {
            let found = port(name);
            assert!(
                matches!(found, Err(LookupError::Ambiguous { total: 2, .. })),
                "{name}: {found:?}"
            );
        }
        assert_eq!(port("MF0;leaf-04:MQM8700/U1"), Ok((0x90_0000, 0)));
    }

    #[test]
    fn a_part_of_a_chassis_resolves_by_the_name_that_tables_show() {
        assert_eq!(port("director/L01"), Ok((0x70_0000, 0)));
        assert_eq!(port("Director/l02"), Ok((0x80_0000, 0)));
    }

    #[test]
    fn a_unique_part_of_a_description_resolves_in_any_case_of_letters() {
        assert_eq!(port("no-switch"), Ok((0xa0_0000, 1)));
        assert_eq!(port("LEAF-03:1"), Ok((0x60_0000, 1)));
        assert_eq!(port("Two-Ports:2"), Ok((0x20_0000, 2)));
        assert_eq!(port("CS7500/L02"), Ok((0x80_0000, 0)));
        assert!(matches!(
            port("director"),
            Err(LookupError::Ambiguous { total: 2, .. })
        ));
        // `leaf-0` would cut the numbers 03 and 04 in two.
        assert!(matches!(port("leaf-0"), Err(LookupError::Similar { .. })));
        assert!(matches!(
            port("name:af-3"),
            Err(LookupError::NotFound { .. })
        ));
    }

    #[test]
    fn similar_names_are_proposed_where_nothing_has_the_name() {
        const LEAVES: Few = Few(&[
            (0x10_0000, "MF0;leaf-280:MQM9700/U1", &[(0, 1)]),
            (0x20_0000, "MF0;leaf-028:MQM9700/U1", &[(0, 2)]),
            (0x30_0000, "spine-28", &[(0, 3)]),
        ]);
        for asked in ["leaf-28", "Leaf-28:7"] {
            let found = resolve_node(&LEAVES, &asked.parse().unwrap());
            let Err(LookupError::Similar { similar, .. }) = found else {
                panic!("{found:?}");
            };
            assert_eq!(similar, ["leaf-028", "leaf-280"], "{asked}");
        }
        let error = resolve_node(&LEAVES, &"leaf-28".parse().unwrap()).unwrap_err();
        let text = "nothing in the fabric is named `leaf-28`; did you mean leaf-028, leaf-280?";
        assert_eq!(error.to_string(), text);
        let none = resolve_node(&LEAVES, &"leaf-29".parse().unwrap());
        assert!(
            matches!(none, Err(LookupError::NotFound { .. })),
            "{none:?}"
        );
    }

    #[test]
    fn candidates_have_the_port_that_was_asked_for() {
        const HOST: Few = Few(&[
            (0x10_0000, "host-3 mlx5_0", &[(1, 1)]),
            (0x20_0000, "host-3 mlx5_1", &[(1, 2)]),
        ]);
        let names = |asked: &str| {
            let found = resolve_node_or_port(&HOST, &asked.parse().unwrap());
            let Err(LookupError::Ambiguous { candidates, .. }) = found else {
                panic!("{found:?}");
            };
            let names = candidates.into_iter().map(|one| one.name);
            names.collect::<Vec<String>>()
        };
        assert_eq!(names("host-3:8"), ["'host-3 mlx5_0'", "'host-3 mlx5_1'"]);
        assert_eq!(
            names("host-3:1"),
            ["'host-3 mlx5_0:1'", "'host-3 mlx5_1:1'"]
        );
    }

    #[test]
    fn a_node_stands_for_its_only_port_or_its_only_port_with_a_cable() {
        const HOSTS: Few = Few(&[
            (0x10_0000, "host-1 mlx5_0", &[(1, 0)]),
            (0x20_0000, "host-2 mlx5_0", &[(1, 0), (2, 7)]),
            (0x30_0000, "leaf-1", &[(0, 9), (1, 0), (2, 0)]),
            (0x40_0000, "leaf-2", &[(0, 10), (1, 11), (2, 12), (3, 0)]),
        ]);
        let port = |name: &str| {
            let found = resolve_cable_port(&HOSTS, &name.parse().unwrap());
            found.map(|port| (port.node.0, port.number.0))
        };
        assert_eq!(port("host-1 mlx5_0"), Ok((0x10_0000, 1)), "its only port");
        assert_eq!(port("host-2 mlx5_0"), Ok((0x20_0000, 2)), "its only cable");
        assert_eq!(port("host-2 mlx5_0:1"), Ok((0x20_0000, 1)));
        for (name, named) in [
            ("leaf-1", ["leaf-1:1", "leaf-1:2"]),
            ("leaf-2", ["leaf-2:1", "leaf-2:2"]),
            ("10", ["leaf-2:1", "leaf-2:2"]),
        ] {
            let Err(LookupError::Ambiguous { candidates, .. }) = port(name) else {
                panic!("{name}: {:?}", port(name));
            };
            let names = candidates.into_iter().map(|one| one.name);
            assert_eq!(names.collect::<Vec<_>>(), named, "{name}");
        }
    }

    #[test]
    fn ports_resolve_by_their_own_guids_and_lids() {
        assert_eq!(port("0x200002"), Ok((0x20_0000, 2)));
        assert_eq!(port("3"), Ok((0x20_0000, 2)));
        assert!(matches!(port("0"), Err(LookupError::NotFound { .. })));
        assert!(matches!(
            port("0x200002:1"),
            Err(LookupError::NotFound { .. })
        ));
        assert_eq!(port("fe80::20:2"), Ok((0x20_0000, 2)));
        for elsewhere in ["fe80::20:3", "fec0::20:2", "ff12::20:2"] {
            assert!(matches!(port(elsewhere), Err(LookupError::NotFound { .. })));
        }
        let node = resolve_node(&FEW, &"3".parse().unwrap());
        assert_eq!(node, Ok(Guid(0x20_0000)));
    }
}
