//! Completes words on the command line: subcommands, options, engines, and the nodes of the running
//! rsm.
//!
//! The shell calls `rsmctl` with the variable `COMPLETE` in its environment. If no server answers
//! soon, no nodes are offered; a message would be written into the command line.

use std::ffi::OsStr;
use std::sync::OnceLock;
use std::time::Duration;

use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use rsm_api::client::{Endpoint, connect, default_endpoints};
use rsm_api::resolve::switch_name;
use rsm_proto::v1;
use rsm_proto::v1::fabric_service_client::FabricServiceClient;
use rsm_routing::engine::EngineKind;

use crate::session::PAGE_SIZE;

/// The maximum time until the server has answered, while the operator waits for candidates.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether the shell inserts candidates without quoting them.
static INSERTS_RAW: OnceLock<bool> = OnceLock::new();

/// Answers a shell's request for candidates, and ends the process; returns at once on any other
/// call. Must be called before the first thread starts. `command` creates the command line.
pub(crate) fn answer(command: impl Fn() -> clap::Command) {
    if let Some(shell) = std::env::var_os("COMPLETE") {
        INSERTS_RAW.get_or_init(|| shell == "bash" || shell.as_encoded_bytes().ends_with(b"/bash"));
        CompleteEnv::with_factory(command).complete();
    }
}

/// The completer of an argument with the name of a node or a port.
pub(crate) fn of_nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let raw = INSERTS_RAW.get().copied().unwrap_or(false);
        let typed = typed.to_str().unwrap_or_default();
        let typed = if raw {
            unescape(typed)
        } else {
            typed.to_owned()
        };
        let offer = |node: v1::Node| candidate(&node, &typed, raw);
        nodes(&typed).into_iter().filter_map(offer).collect()
    })
}

/// The completer of an engine's name.
pub(crate) fn of_engines() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = EngineKind::ALL.iter().map(|kind| kind.name());
        names.map(CompletionCandidate::new).collect()
    })
}

/// A candidate for a node: the node's name or its GUID, whichever begins with the typed text;
/// `None` if neither does.
fn candidate(node: &v1::Node, typed: &str, raw: bool) -> Option<CompletionCandidate> {
    let name = switch_name(&node.description).unwrap_or(&node.description);
    // Names come from devices; a line break would end the command line.
    let usable = !name.is_empty() && !name.contains(char::is_control);
    let (value, help) = if usable && name.starts_with(typed) {
        (name, &*node.guid)
    } else if node.guid.starts_with(typed) && !typed.is_empty() {
        (&*node.guid, name)
    } else {
        return None;
    };
    let value = if raw { escape(value) } else { value.to_owned() };
    let help = help.replace(char::is_control, " ");
    Some(CompletionCandidate::new(value).help(Some(help.into())))
}

/// The nodes of the first server that answers, at most one page. The server, which may have tens of
/// thousands, filters them by name.
fn nodes(typed: &str) -> Vec<v1::Node> {
    let by_guid = typed.starts_with("0x");
    let request = v1::ListNodesRequest {
        page_size: PAGE_SIZE,
        description_contains: if by_guid { "" } else { typed }.to_owned(),
        ..v1::ListNodesRequest::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_or_else(
        |_| Vec::new(),
        |runtime| {
            let answer = async { tokio::time::timeout(ANSWER_TIMEOUT, ask(request)).await };
            runtime.block_on(answer).unwrap_or_default()
        },
    )
}

async fn ask(request: v1::ListNodesRequest) -> Vec<v1::Node> {
    let given = std::env::var("RSM_SERVER").ok();
    let given = given.and_then(|text| text.parse::<Endpoint>().ok());
    let endpoints = match given {
        Some(endpoint) => vec![endpoint],
        None => default_endpoints(|name| std::env::var_os(name)),
    };
    for endpoint in endpoints {
        if let Ok(channel) = connect(&endpoint).await {
            let answer = FabricServiceClient::new(channel).list_nodes(request).await;
            return answer.map_or_else(|_| Vec::new(), |answer| answer.into_inner().nodes);
        }
    }
    Vec::new()
}

/// Whether a character has no special meaning in a shell.
fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || "-_.:/@%+,=".contains(character)
}

/// The text in a form that bash reads back unchanged.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if !is_plain(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// The text that bash makes from a word typed with backslashes, or with an opening quote.
fn unescape(typed: &str) -> String {
    let mut text = String::new();
    let mut characters = typed.trim_start_matches(['\'', '"']).chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.extend(characters.next()),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(description: &str) -> v1::Node {
        v1::Node {
            guid: "0x0002c90300001234".to_owned(),
            description: description.to_owned(),
            ..v1::Node::default()
        }
    }

    fn offered(description: &str, typed: &str, raw: bool) -> Option<String> {
        let candidate = candidate(&node(description), typed, raw)?;
        Some(candidate.get_value().to_str().unwrap().to_owned())
    }

    #[test]
    fn names_that_begin_as_typed_are_offered_escaped_for_the_shell() {
        let value = |text: &str| Some(text.to_owned());
        assert_eq!(
            offered("host-1 mlx5_0", "host", true),
            value("host-1\\ mlx5_0")
        );
        assert_eq!(
            offered("host-1 mlx5_0", "host", false),
            value("host-1 mlx5_0")
        );
        assert_eq!(
            offered("MF0;leaf-03:MQM9700/U1", "le", true),
            value("leaf-03")
        );
        assert_eq!(
            offered("$(reboot);`x`", "", true),
            value("\\$\\(reboot\\)\\;\\`x\\`")
        );
        assert_eq!(offered("host-1", "ost", true), None);
    }

    #[test]
    fn guid_is_offered_once_its_beginning_is_typed() {
        let guid = Some("0x0002c90300001234".to_owned());
        assert_eq!(offered("host-1", "0x0002", true), guid);
        assert_eq!(offered("bad\nname", "0x", true), guid);
        assert_eq!(offered("bad\nname", "", true), None);
        assert_eq!(offered("host-1", "0x0003", true), None);
    }

    #[test]
    fn unescape_reverses_escape() {
        for text in ["host-1 mlx5_0", "a'b\"c", "MF0;x:y/U1", "ünïcode \\ "] {
            assert_eq!(unescape(&escape(text)), text);
        }
        assert_eq!(unescape("\"host-1 ml"), "host-1 ml");
        assert_eq!(unescape("end\\"), "end");
    }
}
