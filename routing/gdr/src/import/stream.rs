//! Splits the output of many hosts in one text, as `pdsh` and `clush` print it: the name of its
//! host precedes each line.

use std::collections::BTreeMap;

use super::error::{ImportError, ImportReason};
use super::text;
use crate::hosts::is_host_name;

/// The maximum size of a stream in bytes: 4096 hosts with a matrix of 16 KiB each.
pub const MAX_STREAM_BYTES: usize = 64 << 20;

/// The text of each host of a stream (`node01: …`), by name; `None` if the text is that of a single
/// host, without names. Messages of the parallel shell (`pdsh@admin: …`) are left out.
///
/// # Errors
/// The bytes are no text, a line lacks the name of its host, or there are more than
/// [`MAX_STREAM_BYTES`].
pub fn hosts_of_stream(bytes: &[u8]) -> Result<Option<BTreeMap<String, String>>, ImportError> {
    if bytes.len() > MAX_STREAM_BYTES {
        return Err(ImportError::new(1, ImportReason::TooLong(bytes.len())));
    }
    let text = text::decode(bytes)?;
    let lines = (1u32..).zip(text.lines());
    let mut lines = lines.filter(|(_, line)| !line.trim().is_empty() && !is_of_shell(line));
    // The legend of a matrix has similar lines (`NIC0: mlx5_0`), but never as the first line.
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
    Ok(Some(hosts))
}

/// Splits a line into the name of the host and the rest; `None` if it has no name.
fn of_host(line: &str) -> Option<(&str, &str)> {
    let (host, content) = line.split_once(':')?;
    is_host_name(host).then(|| (host, content.strip_prefix(' ').unwrap_or(content)))
}

/// Whether a line is a message of the parallel shell.
fn is_of_shell(line: &str) -> bool {
    ["pdsh@", "clush:", "dsh@"]
        .into_iter()
        .any(|begin| line.starts_with(begin))
}
