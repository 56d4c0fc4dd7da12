use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, Subcommand};
use rsm_api::access::{ApiTokens, MAX_API_TOKENS_BYTES, TOKEN_BYTES};
use rsm_api::timestamp;
use serde::Serialize;

use crate::arguments::Format;
use crate::failure::Failure;
use crate::output::Output;

/// The maximum lifetime of a token, in days.
const MAX_DAYS: i64 = 3_650;

/// Makes and revokes tokens of UFM's REST interface, in a file
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Example: rsmctl token new ib-kubernetes operate --days 90 --file /etc/rsm/ufm-tokens\n\n\
                  rsm reads the file at its start and on SIGHUP."
)]
pub(crate) enum TokenCommand {
    /// Makes a token, prints it this once, and adds its digest to the file
    New(NewArguments),
    /// Removes a token from the file
    Revoke(RevokeArguments),
}

#[derive(Debug, Args)]
pub(crate) struct NewArguments {
    /// The name of its identity in the audit log; with Basic authentication also the user
    name: String,
    /// Roles: read, report, operate, tenant:P_KEYS, admin, secrets
    #[arg(required = true, value_name = "ROLE")]
    roles: Vec<String>,
    /// Days until it ends
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=MAX_DAYS))]
    days: u32,
    /// The file, as http.ufm_tokens_file names it
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArguments {
    /// The name of the token
    name: String,
    /// The file, as http.ufm_tokens_file names it
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

/// The JSON output about a new token.
#[derive(Serialize)]
struct NewToken {
    name: String,
    token: String,
    ends: String,
}

pub(crate) fn run(command: TokenCommand, format: Format) -> Result<(), Failure> {
    match command {
        TokenCommand::New(arguments) => create_token(arguments, format),
        TokenCommand::Revoke(arguments) => revoke(&arguments, format),
    }
}

fn create_token(arguments: NewArguments, format: Format) -> Result<(), Failure> {
    let NewArguments {
        name,
        roles,
        days,
        file,
    } = arguments;
    let text = read_file(&file, true)?;
    let token = random_token().map_err(|error| failed(Path::new("/dev/urandom"), error))?;
    let now = SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default()
        .as_secs();
    let ends = now + u64::from(days) * 24 * 3600;
    let line = ApiTokens::line(&name, ends, &token, &roles).map_err(Failure::Usage)?;
    let gap = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let text = format!("{text}{gap}{line}\n");
    check_file(&file, &text)?;
    replace_file(&file, &text)?;
    let new = NewToken {
        name,
        token,
        ends: timestamp(ends * 1000),
    };
    let mut output = Output::new(format);
    if output.is_json() {
        output.json(&new)?;
    } else {
        output.line(&new.token)?;
    }
    output.flush()
}

fn revoke(arguments: &RevokeArguments, format: Format) -> Result<(), Failure> {
    let text = read_file(&arguments.file, false)?;
    let others = text
        .lines()
        .filter(|line| ApiTokens::name_on(line) != Some(&arguments.name));
    let others: String = others.flat_map(|line| [line, "\n"]).collect();
    if others.lines().count() == text.lines().count() {
        let place = arguments.file.display();
        let text = format!("no token in {place} has the name {}", arguments.name);
        return Err(Failure::Usage(text));
    }
    replace_file(&arguments.file, &others)?;
    let mut output = Output::new(format);
    let text = format!(
        "removed {} from {}; rsm accepts the token until it reads the file: systemctl reload rsm",
        arguments.name,
        arguments.file.display()
    );
    output.note(&text)?;
    output.flush()
}

/// A token of [`TOKEN_BYTES`] random bytes in hexadecimal.
fn random_token() -> std::io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn failed(path: &Path, reason: impl std::fmt::Display) -> Failure {
    Failure::File(format!("{}: {reason}", path.display()))
}

fn read_file(path: &Path, may_be_missing: bool) -> Result<String, Failure> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => {
            let limit = MAX_API_TOKENS_BYTES as u64 + 1;
            file.take(limit)
                .read_to_string(&mut text)
                .map_err(|error| failed(path, error))?;
        }
        Err(error) if may_be_missing && error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(path, error)),
    }
    check_file(path, &text)?;
    Ok(text)
}

/// Refuses to change a file that rsm would refuse.
fn check_file(path: &Path, text: &str) -> Result<(), Failure> {
    if text.len() > MAX_API_TOKENS_BYTES {
        let reason = format!("it is longer than {MAX_API_TOKENS_BYTES} bytes");
        return Err(failed(path, reason));
    }
    ApiTokens::parse(text)
        .map(|_| ())
        .map_err(|error| failed(path, error))
}

/// Replaces the file in one step. An existing file keeps its owner, group and mode; a new file is
/// private to its owner.
fn replace_file(path: &Path, text: &str) -> Result<(), Failure> {
    // Behind a symbolic link, the file itself is replaced and the link stays.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let path = real.as_path();
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let next = PathBuf::from(name);
    let before = fs::metadata(path).ok();
    // A temporary file left behind may have other permissions.
    let _ = fs::remove_file(&next);
    let mut options = OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&next)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            if let Some(before) = &before {
                std::os::unix::fs::fchown(&file, Some(before.uid()), Some(before.gid()))?;
                file.set_permissions(before.permissions())?;
            }
            file.sync_all()
        });
    written.map_err(|error| failed(&next, error))?;
    fs::rename(&next, path).map_err(|error| failed(path, error))
}
