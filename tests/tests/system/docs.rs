//! `README.md` and the pages in `docs/`: their commands run, their links have a target.
//!
//! A fenced block of a page carries one of these info strings:
//!
//! | info string | the test |
//! |---|---|
//! | `sh` | runs it |
//! | `sh needs=PROGRAM[,PROGRAM…]` | runs it where these peers are installed, see `rsm_tests::peer` |
//! | `sh norun=REASON` | does not run it; [`REASONS`] lists the reasons |
//! | `text`, `toml`, `json`, `yaml`, `python` | does not run it: output, or a file |
//!
//! All blocks of a page run in one `bash -Eeuo pipefail`, in their order, in a fresh directory that
//! has a link to the repository's `docs`, with `rsm` and `rsmctl` first in `PATH`. A block that
//! starts a daemon has this command as its last command (`rsm --state-dir DIR … &`): after each
//! block the test waits until every daemon of the page reports `State up`, as a reader does before
//! the next command. At the end of a page, or at its time limit, the test kills every process that
//! the page has started.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::{Stopwatch, wait_for_every};
use rsm_tests::peer::require_peers;
use rustix::process::{Pid, Signal, kill_process_group};

/// The reasons why a block is not run: (word in the info string, meaning).
const REASONS: &[(&str, &str)] = &[
    ("hardware", "needs an InfiniBand port or a GPU"),
    ("cargo", "compiles rsm"),
    ("install", "installs rsm, or needs it installed"),
    ("listen", "opens a TCP port whose number is fixed"),
    ("forever", "runs until it is interrupted"),
    ("long", "takes longer than the test may"),
    ("files", "reads files of the reader's own site"),
];

/// The info strings of blocks that are not commands.
const NO_COMMANDS: &[&str] = &["text", "toml", "json", "yaml", "python"];

/// README.md has fewer lines than this; everything else is in `docs/`.
const README_LINES: usize = 150;

/// The maximum time for the commands of one page.
const PAGE_LIMIT: Duration = Duration::from_secs(120);

/// The polling interval of a page's shell.
const POLL: Duration = Duration::from_millis(20);

/// The number of last lines of a page's output that a failure shows.
const SHOWN_LINES: usize = 40;

/// The first line of every script, in place of the page's title. `settle` waits until the daemons
/// in the background are up; missing parts and a degraded state also count, because a page may show
/// a fault. `kill` waits up to five seconds until what was told to end is gone, as a reader is slower
/// than its end: a daemon refuses the folder of one that still runs. The ERR trap names the command
/// that failed. There is no newline, so that line numbers match the page.
const PRELUDE: &str = concat!(
    r#"trap 'echo "FAILED at line $LINENO: $BASH_COMMAND (exit code $?)" >&2' ERR; "#,
    r#"kill() { builtin kill "$@"; case $1 in -*) return 0;; esac; "#,
    r#"for _ in {1..50}; do builtin kill -0 "$@" 2> "$TMPDIR/killed" || return 0; sleep 0.1; done; }; "#,
    r#"settle() { local status=; for _ in {1..300}; do local waiting=; "#,
    r#"local directories="$(jobs -r | sed -n 's/.*--state-dir \([^ ]*\).*/\1/p')"; "#,
    r#"for directory in $directories; do "#,
    r#"status=$(rsmctl --server "unix:$directory/rsm.sock" status 2>&1 || true); "#,
    r#"grep -Eq '^State  *(up$|up,|degraded)' <<< "$status" || waiting=yes; done; "#,
    r#"if jobs -r | grep -q 'rsm sim serve' && [ ! -S "$TMPDIR/rsm-sim.sock" ]; "#,
    r#"then waiting=yes; fi; "#,
    r#"if [ -z "$waiting" ]; then return 0; fi; sleep 0.1; done; "#,
    r#"echo "a daemon of this page did not come up: $status" >&2; return 1; }"#,
);

/// A page of the documentation.
struct Page {
    /// The path relative to the repository, for messages.
    name: String,
    path: PathBuf,
    text: String,
}

/// The info string of a block.
enum Tag<'a> {
    Run,
    Needs(Vec<&'a str>),
    NotRun,
    NoCommands,
    Unknown,
}

/// A fenced block.
struct Block<'a> {
    /// The index of the opening fence among the page's lines, from 0.
    opened: usize,
    /// The index of the closing fence.
    closed: usize,
    /// The text after the opening fence.
    info: &'a str,
}

impl Block<'_> {
    fn tag(&self) -> Tag<'_> {
        match self.info.split_once(' ') {
            None if self.info == "sh" => Tag::Run,
            None if NO_COMMANDS.contains(&self.info) => Tag::NoCommands,
            Some(("sh", option)) => match option.split_once('=') {
                Some(("needs", programs)) => Tag::Needs(programs.split(',').collect()),
                Some(("norun", reason)) if REASONS.iter().any(|(name, _)| *name == reason) => {
                    Tag::NotRun
                }
                _ => Tag::Unknown,
            },
            _ => Tag::Unknown,
        }
    }
}

impl Page {
    /// All pages: README.md first, then `docs/*.md` by name.
    fn all() -> Vec<Page> {
        let root = binaries::workspace();
        let entries = fs::read_dir(root.join("docs")).expect("there is a folder docs");
        let mut docs: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .collect();
        docs.sort();
        let paths = std::iter::once(root.join("README.md")).chain(docs);
        paths.map(|path| Page::read(&root, path)).collect()
    }

    fn read(root: &Path, path: PathBuf) -> Page {
        let name = path.strip_prefix(root).unwrap_or(&path);
        let name = name.display().to_string();
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        Page { name, path, text }
    }

    fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut open = None;
        for (index, line) in self.text.lines().enumerate() {
            let Some(info) = line.strip_prefix("```") else {
                continue;
            };
            match open.take() {
                None => open = Some((index, info.trim())),
                Some((opened, info)) => blocks.push(Block {
                    opened,
                    closed: index,
                    info,
                }),
            }
        }
        assert!(open.is_none(), "{}: a block has no end", self.name);
        blocks
    }

    /// The lines outside fenced blocks, numbered from 1.
    fn prose(&self) -> Vec<(usize, &str)> {
        let blocks = self.blocks();
        let fenced = |index| {
            let mut blocks = blocks.iter();
            blocks.any(|block| (block.opened..=block.closed).contains(&index))
        };
        let lines = self.text.lines().enumerate();
        lines
            .filter(|(index, _)| !fenced(*index))
            .map(|(index, line)| (index + 1, line))
            .collect()
    }

    /// The commands of the blocks that are run, each at its line number in the page.
    fn script(&self) -> Script {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut script = vec![""; lines.len()];
        let (mut run, mut skipped, mut not_run) = (0, 0, 0);
        for block in self.blocks() {
            match block.tag() {
                Tag::Needs(programs) if !require_peers(&programs) => skipped += 1,
                Tag::Run | Tag::Needs(_) => {
                    run += 1;
                    let commands = block.opened + 1..block.closed;
                    script[commands.clone()].copy_from_slice(&lines[commands]);
                    script[block.closed] = "settle";
                }
                Tag::NotRun => not_run += 1,
                Tag::NoCommands | Tag::Unknown => {}
            }
        }
        if let Some(title) = script.first_mut() {
            *title = PRELUDE;
        }
        Script {
            text: script.join("\n"),
            run,
            skipped,
            not_run,
        }
    }

    /// The anchors of the headings, as GitHub and GitLab make them.
    fn anchors(&self) -> Vec<String> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let prose = self.prose().into_iter();
        let headings = prose.filter_map(|(_, line)| {
            let title = line.trim_start_matches('#');
            (title.len() < line.len()).then(|| title.strip_prefix(' '))?
        });
        headings
            .map(|title| {
                let slug = slug(title);
                let times = seen.entry(slug.clone()).or_default();
                *times += 1;
                match *times {
                    1 => slug,
                    times => format!("{slug}-{}", times - 1),
                }
            })
            .collect()
    }

    /// The targets of the links, each with its line number.
    fn links(&self) -> Vec<(usize, &str)> {
        let prose = self.prose().into_iter();
        prose
            .flat_map(|(number, line)| {
                // Every second part is code in backquotes.
                let words = line.split('`').step_by(2);
                words
                    .flat_map(|text| text.split("](").skip(1))
                    .filter_map(move |rest| Some((number, rest.split_once(')')?.0)))
            })
            .collect()
    }

    /// The reason why a link has no target; `None` if it has a target.
    fn dead_end(&self, target: &str) -> Option<String> {
        if target.contains("://") {
            return None;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = match file {
            "" => self.path.clone(),
            file => self.path.parent()?.join(file),
        };
        if !path.exists() {
            return Some("there is no such file".to_owned());
        }
        if anchor.is_empty() {
            return None;
        }
        let anchors = Page::read(&binaries::workspace(), path).anchors();
        let found = anchors.iter().any(|known| known == anchor);
        (!found).then(|| format!("no such heading; there are {anchors:?}"))
    }
}

/// The anchor of a heading: lower case, blanks as hyphens, no punctuation.
fn slug(title: &str) -> String {
    let lower = title.trim().to_lowercase();
    lower
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The commands of a page.
struct Script {
    text: String,
    /// The number of blocks that are run.
    run: usize,
    /// The number of blocks that are skipped because their peers are not installed.
    skipped: usize,
    /// The number of blocks with `norun`.
    not_run: usize,
}

impl Script {
    /// Runs the script; the error names the page, the line, the command and its output.
    fn execute(&self, page: &Page) -> Result<(), String> {
        let directory = tempfile::Builder::new()
            .prefix("rsm-docs-")
            .tempdir()
            .map_err(|error| error.to_string())?;
        let shell = Shell::start(directory.path(), &self.text).map_err(|error| {
            format!("{}: the page's shell cannot be started: {error}", page.name)
        })?;
        let log = shell.log.clone();
        let outcome = match shell.wait(PAGE_LIMIT) {
            Some(status) if status.success() => return Ok(()),
            Some(status) => status.to_string(),
            None => format!("not done after {PAGE_LIMIT:?}"),
        };
        let printed = fs::read(&log).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        let lines: Vec<&str> = printed.lines().collect();
        let failed = lines.iter().find(|line| line.starts_with("FAILED at line"));
        let end = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        let failed = failed.unwrap_or(&"no command failed by itself");
        Err(format!("{}: {outcome}; {failed}\n{end}\n", page.name))
    }
}

/// A shell in a process group of its own. Dropping it kills the group.
struct Shell {
    child: Child,
    /// The file with the output of the shell and all its children.
    log: PathBuf,
}

impl Shell {
    /// Starts a shell. `directory` gets the folder in which the commands run, a folder for their
    /// other files, the script and the log.
    fn start(directory: &Path, script: &str) -> std::io::Result<Shell> {
        let (work, own) = (directory.join("work"), directory.join("own"));
        fs::create_dir(&work)?;
        fs::create_dir(&own)?;
        std::os::unix::fs::symlink(binaries::workspace().join("docs"), work.join("docs"))?;
        let (file, log) = (directory.join("page.sh"), directory.join("log"));
        fs::write(&file, script)?;
        let printed = File::create(&log)?;
        let mut command = Command::new("bash");
        for variable in std::env::vars_os().map(|(name, _)| name) {
            if variable.to_string_lossy().starts_with("RSM_") {
                command.env_remove(variable);
            }
        }
        for variable in ["HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"] {
            command.env(variable, &own);
        }
        let child = command
            .args(["-Eeuo", "pipefail"])
            .arg(&file)
            .env("PATH", search_path())
            .current_dir(&work)
            .process_group(0)
            .stdin(std::process::Stdio::null())
            .stdout(printed.try_clone()?)
            .stderr(printed)
            .spawn()?;
        Ok(Shell { child, log })
    }

    /// The exit status; `None` at the time limit.
    fn wait(mut self, limit: Duration) -> Option<ExitStatus> {
        wait_for_every(POLL, limit, || self.child.try_wait().ok().flatten())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            // A group that has ended needs no signal.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// The search path: rsm's programs come first; the diagnostics of peers are in `/usr/sbin`.
fn search_path() -> std::ffi::OsString {
    let own = [binaries::rsm(), binaries::rsmctl()];
    let mut directories: Vec<PathBuf> = own
        .iter()
        .filter_map(|program| Some(program.parent()?.to_owned()))
        .collect();
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    directories.extend(std::env::split_paths(&inherited));
    directories.push("/usr/sbin".into());
    std::env::join_paths(directories).expect("no directory's name has a colon")
}

#[test]
fn every_command_of_the_documentation_succeeds() {
    // Missing programs are built before the time limit of any page starts.
    let _ = (binaries::rsm(), binaries::sim_preload());
    let pages = Page::all();
    let outcomes: Vec<(String, Result<(), String>)> = std::thread::scope(|scope| {
        let started: Vec<_> = pages.iter().map(|page| scope.spawn(|| run(page))).collect();
        let joined = started.into_iter().map(|thread| thread.join());
        joined
            .map(|outcome| outcome.expect("no page panics"))
            .collect()
    });
    let mut failures = String::new();
    let mut summary = String::new();
    for (counts, outcome) in outcomes {
        let _ = writeln!(summary, "{counts}");
        failures.extend(outcome.err());
    }
    assert!(failures.is_empty(), "{failures}\n{summary}");
    let _ = std::io::Write::write_all(&mut std::io::stdout(), summary.as_bytes());
}

/// The text before the commands for a hundred GPU hosts in docs/gpus.md.
const FOR_A_HUNDRED: &str = "From a hundred hosts to a hundred files of settings:";

/// The lines before these commands: a parallel shell that reaches a hundred hosts like docs/dgx.txt,
/// and a manager of a fabric that has them.
const HUNDRED: &str = r#"
pdsh() {
  [ "$*" = "-w host-[001-100] nvidia-smi topo -m" ]
  for host in host-{001..100}; do sed "s/^/$host: /" docs/dgx.txt; done
}
export RSM_SERVER=unix:run/rsm.sock
rsm --fabric sim:superpod:su=4 --state-dir run --listen off 2> rsm.log &
settle
"#;

/// The lines after these commands.
const HAS_A_HUNDRED: &str = r#"
[ "$(ls settings | wc -l)" = 100 ]
[ "$(grep -l '^NCCL_IB_HCA==mlx5_0:1:0:0,' settings/* | wc -l)" = 100 ]
"#;

#[test]
fn commands_for_a_hundred_gpu_hosts_make_a_hundred_files_of_settings() {
    let root = binaries::workspace();
    let page = Page::read(&root, root.join("docs/gpus.md"));
    let (before, _) = page.text.split_once(FOR_A_HUNDRED).expect("the commands");
    let at = before.lines().count();
    let blocks = page.blocks();
    let block = blocks
        .iter()
        .find(|block| block.opened > at)
        .expect("a block");
    let lines: Vec<&str> = page.text.lines().collect();
    let commands = lines[block.opened + 1..block.closed].join("\n");
    let script = Script {
        text: [PRELUDE, HUNDRED, &commands, HAS_A_HUNDRED].concat(),
        run: 1,
        skipped: 0,
        not_run: 0,
    };
    let outcome = script.execute(&page);
    assert_eq!(outcome, Ok(()));
}

/// Runs a page; returns a summary and the result.
fn run(page: &Page) -> (String, Result<(), String>) {
    let stopwatch = Stopwatch::start();
    let script = page.script();
    let outcome = script.execute(page);
    let counts = format!(
        "{}: {} blocks run, {} without their peer, {} not run; {:.1} s",
        page.name,
        script.run,
        script.skipped,
        script.not_run,
        stopwatch.elapsed().as_secs_f64()
    );
    (counts, outcome)
}

/// The tests of a guarantee in `docs/guarantees.md` are tests of this program (`file::name`) or of
/// rsm's library (`rsm::module::name`).
#[test]
fn every_guarantee_names_tests_that_exist() {
    let root = binaries::workspace();
    let page = Page::read(&root, root.join("docs/guarantees.md"));
    let promises = page.text.lines().filter(|line| line.starts_with("| "));
    let promises = promises.filter(|line| !line.ends_with("| test |"));
    let mut seen = 0;
    for promise in promises {
        let named: Vec<(&str, &str)> = promise
            .split('`')
            .skip(1)
            .step_by(2)
            .filter_map(|code| code.rsplit_once("::"))
            .collect();
        assert!(!named.is_empty(), "without a test: {promise}");
        for (file, name) in named {
            let path = match file.strip_prefix("rsm::") {
                Some(module) => format!("sm/src/{}.rs", module.replace("::", "/")),
                None => format!("tests/tests/system/{file}.rs"),
            };
            let path = root.join(path);
            let text = fs::read_to_string(&path).unwrap_or_default();
            // The last attribute of a test is on the line above it.
            assert!(
                text.contains(&format!("]\nfn {name}()")),
                "{}: no test {file}::{name}",
                page.name
            );
            seen += 1;
        }
    }
    assert!(seen > 20, "the tables have {seen} tests");
}

#[test]
fn every_block_of_the_documentation_has_a_known_info_string() {
    for page in Page::all() {
        for block in page.blocks() {
            let at = format!("{}:{}", page.name, block.opened + 1);
            assert!(
                !matches!(block.tag(), Tag::Unknown),
                "{at}: `{}` is no info string of the test's table",
                block.info
            );
        }
    }
}

#[test]
fn every_link_of_the_documentation_leads_to_a_file_and_a_heading() {
    let pages = Page::all();
    for page in &pages {
        for (line, target) in page.links() {
            let dead_end = page.dead_end(target);
            assert!(
                dead_end.is_none(),
                "{}:{line}: {target}: {}",
                page.name,
                dead_end.unwrap_or_default()
            );
        }
    }
    let (readme, docs) = pages.split_first().expect("there is a README.md");
    for page in docs {
        let linked = readme
            .links()
            .iter()
            .any(|(_, target)| *target == page.name);
        assert!(linked, "README.md does not link to {}", page.name);
    }
}

/// The heading of the section of ARCHITECTURE.md that names functions. After each list of functions
/// it names the file that has them.
const WALKS_HEADING: &str = "## Two walks through the code";

#[test]
fn every_function_of_a_walk_is_in_the_file_that_the_walk_names() {
    let root = binaries::workspace();
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text
        .split_once(WALKS_HEADING)
        .expect("there is the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut functions: Vec<&str> = Vec::new();
    let mut found = 0;
    // Every second part lies between backticks.
    for code in section.split('`').skip(1).step_by(2) {
        if code.ends_with(".rs") {
            let file = fs::read_to_string(root.join(code));
            let file = file.unwrap_or_else(|error| panic!("{code}: {error}"));
            found += functions.len();
            for function in functions.drain(..) {
                let is_there = [format!("fn {function}("), format!("fn {function}<")]
                    .iter()
                    .any(|declaration| file.contains(declaration));
                assert!(is_there, "{code} has no function {function}");
            }
        } else if let Some(function) = code.rsplit("::").next()
            && function.starts_with(|first: char| first.is_ascii_lowercase())
        {
            functions.push(function);
        }
    }
    assert!(functions.is_empty(), "no file is named for {functions:?}");
    assert!(found > 40, "only {found} functions are named");
}

#[test]
fn readme_has_fewer_lines_than_its_limit() {
    let readme = Page::all().swap_remove(0);
    let lines = readme.text.lines().count();
    assert!(lines < README_LINES, "README.md has {lines} lines");
}

#[test]
fn a_failing_command_is_reported_with_page_line_and_output() {
    let text = "# Title\n\n```sh\necho printed\ntest 1 -eq 2\necho after\n```\n";
    let page = Page {
        name: "page.md".to_owned(),
        path: PathBuf::new(),
        text: text.to_owned(),
    };
    let failure = page.script().execute(&page).expect_err("a command fails");
    for part in ["page.md: ", "FAILED at line 5: test 1 -eq 2", "printed"] {
        assert!(failure.contains(part), "{failure}");
    }
    assert!(!failure.contains("after"), "{failure}");
}
