//! The hosts of a job, from a file for a launcher.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rsm_api::node_list::NodeList;

use crate::failure::Failure;

/// The maximum size of a file of hosts, in bytes: a line for each process of the largest jobs.
const MAX_FILE: u64 = 16 << 20;

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

/// The hosts in the content of a file: the first word of each line, which may be a node list,
/// without the colon and the number of processes that MPICH adds.
fn of_content(content: &str) -> Result<Vec<String>, String> {
    let mut all = NodeList::default();
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

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_files_of_all_launchers_give_the_same_hosts() {
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
    fn malformed_list_is_refused_with_its_line_number() {
        let error = of_content("a\nb[1\n").unwrap_err();
        assert!(error.starts_with("line 2: "), "{error}");
    }
}
