use clap::Args;
use rsm_proto::v1;
use rsm_proto::v1::Severity;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::output::{Output, Tint};
use crate::pager::PAGE;
use crate::session::{Session, all_pages};
use crate::text::{count, label, label_parser, plain_names, printable, wrapped};
use crate::time;

/// The findings that hold now, the most severe first
#[derive(Debug, Args)]
#[command(
    after_help = "Of one severity the newest come first. Findings of one kind and severity are one line with their count\nand their parts. Where all is too long for a screen of 24 lines, lines are cut (…): --all shows each\nfinding whole, with what it means for traffic and what to do; --format json has them as a list.\n\nExamples:\n  rsmctl findings\n  rsmctl findings --severity error --all\n  rsmctl findings --kind cable-missing --all"
)]
pub(crate) struct FindingsArguments {
    /// Only findings of this severity or a higher one
    #[arg(long, value_parser = label_parser::<v1::Severity>())]
    severity: Option<i32>,
    /// Only findings of this kind, for instance duplicate-guid
    #[arg(long)]
    kind: Option<String>,
    /// Only findings about this node, or about all adapters of this host
    #[arg(add = of_nodes(), long)]
    node: Option<String>,
    /// Each finding by itself, whole
    #[arg(long)]
    all: bool,
}

/// The number of columns before the text, which the severity takes.
const INDENT: usize = 8;

/// The number of lines on a screen without the line of totals and the prompt.
const LINES: usize = PAGE - 2;

pub(crate) async fn run(
    arguments: FindingsArguments,
    session: &mut Session,
) -> Result<(), Failure> {
    let mut findings = all_pages(
        v1::ListFindingsRequest {
            min_severity: arguments.severity.unwrap_or_default(),
            kind: arguments.kind.clone().unwrap_or_default(),
            node: arguments.node.clone().unwrap_or_default(),
            ..Default::default()
        },
        async |request| session.fabric().list_findings(request).await,
    )
    .await?;
    findings.sort_by_key(|one| std::cmp::Reverse((one.severity, one.raised_unix_ms, one.id)));
    if session.output.is_json() {
        return session.output.json_list(findings);
    }
    let total = totals(&findings);
    let mut groups = match arguments.all {
        true => findings.into_iter().map(|one| vec![one]).collect(),
        false => folded(findings),
    };
    if let Some(limit) = session.output.limit() {
        session.output.limited_by_server();
        groups.truncate(limit);
    }
    print(&groups, &total, arguments.all, &mut session.output)
}

/// The line `27 findings: 3 errors, 20 warnings, 4 infos`.
fn totals(findings: &[v1::Finding]) -> String {
    let of = |severity| {
        let findings = findings.iter();
        findings.filter(|one| one.severity() == severity).count() as u64
    };
    format!(
        "{}: {}, {}, {}",
        count(findings.len() as u64, "finding", "findings"),
        count(of(Severity::Error), "error", "errors"),
        count(of(Severity::Warning), "warning", "warnings"),
        count(of(Severity::Info), "info", "infos")
    )
}

/// Groups findings by severity and kind, in the order of the first finding of each group. Groups
/// are not empty.
fn folded(findings: Vec<v1::Finding>) -> Vec<Vec<v1::Finding>> {
    let mut groups: Vec<Vec<v1::Finding>> = Vec::new();
    for finding in findings {
        let is_alike = |group: &&mut Vec<v1::Finding>| {
            group[0].severity == finding.severity && group[0].kind == finding.kind
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    groups
}

/// Prints the line of totals, and a block for each group of findings. Unless `all` is set, the
/// blocks are cut if they do not fit a screen.
fn print(
    groups: &[Vec<v1::Finding>],
    total: &str,
    all: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let width = output.width();
    let mut blocks: Vec<Block> = groups.iter().map(|group| Block::of(group, width)).collect();
    if !all && blocks.iter().map(Block::lines).sum::<usize>() > LINES {
        // Each block has two lines if all of them fit, otherwise only its head.
        let text = usize::from(2 * blocks.len() <= LINES);
        for block in &mut blocks {
            cut(&mut block.head, 1, width);
            cut(&mut block.text, text, width);
        }
    }
    output.line(total)?;
    for block in blocks {
        for line in &block.head {
            let line = output.tinted(block.tint, line);
            output.line(&line)?;
        }
        block.text.iter().try_for_each(|line| output.line(line))?;
    }
    Ok(())
}

/// The lines about one group of findings.
struct Block {
    tint: Tint,
    /// Severity, time, kind, count and parts.
    head: Vec<String>,
    /// The message, or the common end of several messages.
    text: Vec<String>,
}

impl Block {
    fn of(group: &[v1::Finding], width: usize) -> Block {
        let first = &group[0];
        let (severity, tint) = match first.severity() {
            Severity::Error => ("ERROR".to_owned(), Tint::Error),
            Severity::Warning => (label::<Severity>(first.severity), Tint::Warning),
            _ => (label::<Severity>(first.severity), Tint::None),
        };
        let raised = time::minute(first.raised_unix_ms);
        let mut head = format!("{severity:<8}{raised}  {}", first.kind);
        if group.len() > 1 {
            head += &format!(" ×{}", group.len());
        }
        let plain = |text: &str| plain_names(&printable(text));
        let names = group.iter().map(|one| plain(&one.name));
        let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        if !names.is_empty() {
            head += &format!(": {}", names.join(", "));
        }
        let messages: Vec<String> = group.iter().map(|one| plain(&one.message)).collect();
        let text = format!("{:INDENT$}{}", "", common_end(&messages));
        Block {
            tint,
            head: wrapped(&head, width, INDENT),
            text: wrapped(&text, width, INDENT),
        }
    }

    fn lines(&self) -> usize {
        self.head.len() + self.text.len()
    }
}

/// The common clauses at the end of all messages, which say what the findings mean and what to do
/// about them; the first message if there are none, or if there is only one message.
fn common_end(messages: &[String]) -> &str {
    let first = messages[0].as_str();
    if messages.len() == 1 {
        return first;
    }
    let ends = first.match_indices([':', ';']);
    let mut ends = ends.filter_map(|(at, _)| first[at + 1..].strip_prefix(' '));
    let common = ends.find(|end| messages.iter().all(|one| one.ends_with(end)));
    common.unwrap_or(first)
}

/// Removes all but `most` lines, and marks the last line if a line was removed.
fn cut(lines: &mut Vec<String>, most: usize, width: usize) {
    if lines.len() <= most {
        return;
    }
    lines.truncate(most);
    if let Some(last) = lines.last_mut() {
        let kept: String = last.chars().take(width.saturating_sub(2)).collect();
        *last = format!("{} …", kept.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(id: u64, severity: Severity, kind: &str, message: &str) -> v1::Finding {
        v1::Finding {
            id,
            kind: kind.to_owned(),
            severity: severity.into(),
            name: format!("MF0;leaf-{id}:MQM8790/U1:7 - spine-1:{id}"),
            message: message.to_owned(),
            raised_unix_ms: id,
            ..v1::Finding::default()
        }
    }

    #[test]
    fn findings_of_one_kind_are_one_block_with_the_common_end_of_their_messages() {
        let missing = |id| {
            let text = format!("the cable at leaf-{id} is gone: routes go around it; plug it in");
            finding(id, Severity::Warning, "cable-missing", &text)
        };
        let other = finding(
            9,
            Severity::Error,
            "set-failed",
            "no answer: nothing passes",
        );
        let groups = folded(vec![other, missing(2), missing(1)]);
        assert_eq!(groups.len(), 2);
        let block = Block::of(&groups[1], 200);
        let head = "warning 1970-01-01T00:00Z  cable-missing ×2: leaf-2:7 - spine-1:2, leaf-1:7 - spine-1:1";
        assert_eq!(block.head, [head]);
        let text = format!("{:INDENT$}routes go around it; plug it in", "");
        assert_eq!(block.text, [text]);
        let block = Block::of(&groups[0], 200);
        assert!(block.text[0].ends_with("no answer: nothing passes"));
    }

    #[test]
    fn cut_marks_the_last_line_if_lines_are_removed() {
        let mut lines = vec!["12345678".to_owned(), "more".to_owned()];
        cut(&mut lines, 1, 8);
        assert_eq!(lines, ["123456 …"]);
        cut(&mut lines, 1, 8);
        assert_eq!(lines, ["123456 …"]);
        cut(&mut lines, 0, 8);
        assert!(lines.is_empty());
    }
}
