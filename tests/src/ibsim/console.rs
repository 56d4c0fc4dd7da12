//! ibsim's console: commands on its standard input, each answered before the next prompt.

use std::io::Write;
use std::process::ChildStdin;
use std::time::Duration;

use crate::clock::wait_for;
use crate::error::Error;
use crate::process::Running;

/// ibsim's prompt for a command.
const PROMPT: &str = "sim> ";

/// The maximum time for one command, which may run a file of thousands of commands.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// The maximum length of a command: ibsim reads it into a buffer of 128 bytes.
const MAX_COMMAND_LEN: usize = 126;

/// A simulator process with its console.
#[derive(Debug)]
pub(super) struct Console {
    stdin: Option<ChildStdin>,
    process: Running,
}

impl Console {
    /// Takes over the console of a process that is ready.
    pub(super) fn new(mut process: Running) -> Self {
        Self {
            stdin: process.take_stdin(),
            process,
        }
    }

    /// All output so far.
    pub(super) fn output(&self) -> String {
        self.process.stdout_so_far()
    }

    /// Enters one command and returns its answer, without the prompt.
    pub(super) fn command(&mut self, command: &str) -> Result<String, Error> {
        let failed = || Error::Console {
            command: command.to_owned(),
        };
        if command.len() > MAX_COMMAND_LEN || command.contains('\n') {
            return Err(failed());
        }
        let before = self.process.stdout_so_far().len();
        let stdin = self.stdin.as_mut().ok_or_else(failed)?;
        stdin
            .write_all(format!("{command}\n").as_bytes())
            .map_err(|_| failed())?;
        wait_for(COMMAND_LIMIT, || {
            let output = self.process.stdout_so_far();
            let answer = output.get(before..)?;
            answer.strip_suffix(PROMPT).map(str::to_owned)
        })
        .ok_or_else(failed)
    }
}

/// The client number and process ID in a line of the output of `Attached`; `None` for other lines.
pub(super) fn attached_client(line: &str) -> Option<(u32, u32)> {
    let (client, rest) = line.strip_prefix("Client ")?.split_once(": pid ")?;
    let (pid, _) = rest.split_once(' ')?;
    Some((client.parse().ok()?, pid.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::attached_client;

    #[test]
    fn attached_client_reads_the_client_number_and_the_process_id() {
        let line = r#"Client 3: pid 4711 connected at "Hca1" port 0x100001, lid 1, qp 0 SM"#;
        assert_eq!(attached_client(line), Some((3, 4711)));
        assert_eq!(attached_client("sim> "), None);
    }
}
