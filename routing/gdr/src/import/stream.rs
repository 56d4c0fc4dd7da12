//! Splits the output of many hosts in one text, as `pdsh` and `clush` print it: each line begins
//! with the name of its host.

use std::collections::BTreeMap;

use super::error::{ImportError, ImportReason};
use super::text;
use crate::hosts::is_host_name;

/// The maximum size of a stream in bytes: 4096 hosts with a matrix of 16 KiB each.
pub const MAX_STREAM_BYTES: usize = 64 << 20;

/// The output of a parallel shell.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostStream {
    /// The text of each host, by name.
    pub hosts: BTreeMap<String, String>,
    /// The shell's message about each host that printed nothing, by name.
    pub silent: BTreeMap<String, String>,
}

/// The text of each host of a stream (`node01: …`); `None` if the text is the output of one host
/// without its name. Messages of the parallel shell (`pdsh@admin: node02: …`) belong to no host's
/// text.
///
/// # Errors
/// The bytes are not text, a line of a stream has no name of a host, or there are more than
/// [`MAX_STREAM_BYTES`].
pub fn hosts_of_stream(bytes: &[u8]) -> Result<Option<HostStream>, ImportError> {
    if bytes.len() > MAX_STREAM_BYTES {
        return Err(ImportError::new(1, ImportReason::TooLong(bytes.len())));
    }
    let text = text::decode(bytes)?;
    let lines = (1u32..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    let messages: Vec<(&str, &str)> = lines
        .clone()
        .filter_map(|(_, line)| of_shell(line))
        .filter_map(of_host)
        .collect();
    let mut lines = lines.filter(|(_, line)| of_shell(line).is_none());
    // The legend of one host's matrix has lines of the same form (`NIC0: mlx5_0`), but they are
    // never first.
    let tagged = |(_, line): &(u32, &str)| of_host(line).is_some();
    let starts = lines.clone().next().as_ref().is_some_and(tagged);
    let (named, all) = (lines.clone().filter(tagged).count(), lines.clone().count());
    if !starts || 2 * named <= all {
        return Ok(None);
    }
    let mut hosts: BTreeMap<String, String> = BTreeMap::new();
    lines.try_for_each(|(number, line)| {
        let (host, content) =
            of_host(line).ok_or_else(|| ImportError::new(number, ImportReason::NoHostName))?;
        let of_host = hosts.entry(host.to_owned()).or_default();
        of_host.extend([content, "\n"]);
        Ok(())
    })?;
    let silent = messages
        .into_iter()
        .filter(|(host, _)| !hosts.contains_key(*host))
        .map(|(host, text)| (host.to_owned(), text.to_owned()));
    Ok(Some(HostStream {
        silent: silent.collect(),
        hosts,
    }))
}

/// Splits a line into the name of the host and the rest; `None` if the line has no name.
fn of_host(line: &str) -> Option<(&str, &str)> {
    let (host, content) = line.split_once(':')?;
    is_host_name(host).then(|| (host, content.strip_prefix(' ').unwrap_or(content)))
}

/// The message of the parallel shell itself in a line; `None` for a line of a host.
fn of_shell(line: &str) -> Option<&str> {
    let begins = ["pdsh@", "clush:", "dsh@"];
    let is_its = begins.into_iter().any(|begin| line.starts_with(begin));
    let (_, message) = line.split_once(':').filter(|_| is_its)?;
    Some(message.trim_start())
}
