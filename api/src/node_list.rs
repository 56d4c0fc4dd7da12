//! Expands lists of hosts as Slurm and launchers write them: `node[001-064,070]`.

use std::collections::HashSet;

use crate::limits::MAX_JOB_HOSTS;

/// The maximum number of brackets in a name; Slurm accepts two.
const MAX_BRACKETS: usize = 8;

/// The hosts in these words, each once, in their order. Each word is a node list: names separated
/// by commas, each with up to eight bracketed ranges.
///
/// # Errors
/// A list is malformed, or the lists contain no host, or more than [`MAX_JOB_HOSTS`].
pub fn expand<T: AsRef<str>>(words: &[T]) -> Result<Vec<String>, String> {
    let mut all = NodeList::default();
    for word in words {
        all.add(word.as_ref())?;
    }
    all.end()
}

/// The hosts of node lists, collected one list at a time.
#[derive(Debug, Default)]
pub struct NodeList {
    list: Vec<String>,
    known: HashSet<String>,
}

impl NodeList {
    /// Adds the hosts of a node list.
    ///
    /// # Errors
    /// The list is malformed, or contains too many hosts.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        for item in items(text)? {
            if item.matches('[').count() > MAX_BRACKETS {
                return Err(format!("a name with more than {MAX_BRACKETS} brackets"));
            }
            self.expand(String::new(), item)?;
        }
        Ok(())
    }

    /// Adds the names that begin with `begin` and continue with the expansions of `rest`.
    fn expand(&mut self, begin: String, rest: &str) -> Result<(), String> {
        let Some((before, behind)) = rest.split_once('[') else {
            return self.push(begin + rest);
        };
        let wrong = || format!("`[{behind}` is no range: expected one like [001-064,070]");
        let (ranges, end) = behind.split_once(']').ok_or_else(wrong)?;
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| -> Result<u64, String> {
                // `parse` would accept a sign.
                let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
                let number = text.parse().ok().filter(|_| is_number);
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

    /// Returns the hosts, each once, in their order.
    ///
    /// # Errors
    /// There are no hosts.
    pub fn end(self) -> Result<Vec<String>, String> {
        match self.list.is_empty() {
            true => Err("no host is named: expected a host a line, or a node list".to_owned()),
            false => Ok(self.list),
        }
    }
}

/// The items between commas outside of brackets; an error for brackets within brackets.
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
    fn node_lists_expand_with_leading_zeros_and_several_brackets() {
        let words = ["a[08-10,12],b", "r[1-2]n[1-2]"].map(str::to_owned);
        let hosts = expand(&words).unwrap();
        let expected = [
            "a08", "a09", "a10", "a12", "b", "r1n1", "r1n2", "r2n1", "r2n2",
        ];
        assert_eq!(hosts, expected);
        // A description with a device is one name.
        let words = ["host-001 mlx5_0".to_owned()];
        assert_eq!(expand(&words).unwrap(), words);
    }

    #[test]
    fn malformed_lists_and_lists_of_too_many_hosts_are_refused() {
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
            assert!(expand(&[text]).is_err(), "{text}");
        }
    }
}
