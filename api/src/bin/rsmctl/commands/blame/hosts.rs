//! The hosts of a job, from words or from a file for a launcher.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rsm_api::limits::MAX_JOB_HOSTS;

use crate::failure::Failure;

/// The maximum size of a file of hosts, in bytes: a line for each process of the largest jobs.
const MAX_FILE: u64 = 16 << 20;

/// The maximum number of brackets in a name; Slurm takes two.
const MAX_BRACKETS: usize = 8;

/// The hosts in a file, each once, in their order. `-` is standard input.
///
/// # Errors
/// The file cannot be read, is too large, names no host or too many, or a node list in it is wrong.
pub(super) fn of_file(path: &Path) -> Result<Vec<String>, Failure> {
    let failed = |reason: String| Failure::File(format!("{}: {reason}", path.display()));
    let mut content = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin()
            .lock()
            .take(MAX_FILE + 1)
            .read_to_string(&mut content),
        false => {
            File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut content))
        }
    };
    read.map_err(|error| failed(error.to_string()))?;
    if content.len() as u64 > MAX_FILE {
        return Err(failed(format!("it has more than {MAX_FILE} bytes")));
    }
    of_content(&content).map_err(failed)
}

/// The hosts in the content of a file: the first word of each line, without the number of processes
/// that MPICH writes behind a colon.
fn of_content(content: &str) -> Result<Vec<String>, String> {
    let mut all = Hosts::default();
    for (number, line) in content.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let Some(word) = line.split_whitespace().next() else {
            continue;
        };
        let word = match word.rsplit_once(':') {
            Some((host, count)) if !host.is_empty() && is_number(count) => host,
            _ => word,
        };
        let add = all.add(word);
        add.map_err(|error| format!("line {}: {error}", number + 1))?;
    }
    all.end()
}

/// The hosts that words on a command line name, each once, in their order.
///
/// # Errors
/// A node list is wrong, or names too many hosts.
pub(super) fn of_words(words: &[String]) -> Result<Vec<String>, String> {
    let mut all = Hosts::default();
    for word in words {
        all.add(word)?;
    }
    all.end()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Hosts collected so far.
#[derive(Default)]
struct Hosts {
    list: Vec<String>,
    known: std::collections::HashSet<String>,
}

impl Hosts {
    /// Adds the hosts of a node list: names separated by commas, each with any number of ranges in
    /// brackets.
    fn add(&mut self, text: &str) -> Result<(), String> {
        for item in items(text)? {
            if item.matches('[').count() > MAX_BRACKETS {
                return Err(format!("a name with more than {MAX_BRACKETS} brackets"));
            }
            self.expand(String::new(), item)?;
        }
        Ok(())
    }

    /// Adds the names that begin with `begin` and go on with the expansions of `rest`.
    fn expand(&mut self, begin: String, rest: &str) -> Result<(), String> {
        let Some((before, behind)) = rest.split_once('[') else {
            return self.push(begin + rest);
        };
        let wrong = || format!("`[{behind}` is no range: expected one like [001-064,070]");
        let (ranges, end) = behind.split_once(']').ok_or_else(wrong)?;
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| -> Result<u64, String> {
                let number = text.parse().ok().filter(|_| is_number(text));
                number.ok_or_else(wrong)
            };
            let (low, high) = (number(first)?, number(last)?);
            if low > high {
                return Err(wrong());
            }
            let width = first.len();
            for number in low..=high {
                self.expand(format!("{begin}{before}{number:0width$}"), end)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, host: String) -> Result<(), String> {
        if host.is_empty() || self.known.contains(&host) {
            return Ok(());
        }
        if self.list.len() == MAX_JOB_HOSTS {
            return Err(format!(
                "more than {MAX_JOB_HOSTS} hosts: a question can have no more"
            ));
        }
        self.known.insert(host.clone());
        self.list.push(host);
        Ok(())
    }

    fn end(self) -> Result<Vec<String>, String> {
        match self.list.is_empty() {
            true => Err("no host is named: expected a host a line, or a node list".to_owned()),
            false => Ok(self.list),
        }
    }
}

/// The items between commas outside of brackets.
fn items(text: &str) -> Result<Vec<&str>, String> {
    let (mut items, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' if is_inside => return Err(format!("`{text}`: a bracket within brackets")),
            '[' => is_inside = true,
            ']' => is_inside = false,
            ',' if !is_inside => {
                items.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&text[start..]);
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_every_launcher_name_the_same_hosts() {
        let expected = ["gpu-001", "gpu-002"];
        for content in [
            "gpu-001 slots=8\ngpu-002 slots=8 max-slots=8 # the other\n",
            "gpu-001:8\ngpu-002:8\n",
            "gpu-001\ngpu-001\ngpu-002\ngpu-002\n",
            "# a node list\ngpu-[001-002]\n",
            "gpu-001,gpu-002",
        ] {
            assert_eq!(of_content(content).unwrap(), expected, "{content:?}");
        }
    }

    #[test]
    fn node_lists_expand_with_leading_zeros_and_several_brackets() {
        let words = ["a[08-10,12],b", "r[1-2]n[1-2]"].map(str::to_owned);
        let hosts = of_words(&words).unwrap();
        let expected = [
            "a08", "a09", "a10", "a12", "b", "r1n1", "r1n2", "r2n1", "r2n2",
        ];
        assert_eq!(hosts, expected);
        // A description with a device is one name.
        let words = ["host-001 mlx5_0".to_owned()];
        assert_eq!(of_words(&words).unwrap(), words);
    }

    #[test]
    fn wrong_and_endless_lists_are_refused() {
        for text in [
            "a[1-2",
            "a[]",
            "a[x]",
            "a[2-1]",
            "a[1[2]]",
            "a[1-99999999]",
            "",
            "[1][1][1][1][1][1][1][1][1]",
        ] {
            assert!(of_words(&[text.to_owned()]).is_err(), "{text}");
        }
        let error = of_content("a\nb[1\n").unwrap_err();
        assert!(error.starts_with("line 2: "), "{error}");
    }
}
