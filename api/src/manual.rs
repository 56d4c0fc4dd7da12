//! Writes manual pages of a command line, for packages.
//!
//! A page has the sections that clap's data about a command give, and sections from the text below
//! the command's help. In that text, a short line that ends with a colon is a heading. Below a
//! heading, an indented line with two blanks between words is a term with its meaning. Other
//! indented lines, such as examples, are shown unchanged.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

/// The name and version of rsm, which the foot of each page shows.
const SOURCE: &str = concat!("rsm ", env!("CARGO_PKG_VERSION"));

/// The section and the references of the manual pages of a command line.
#[derive(Debug, Clone, Copy)]
pub struct Manual<'a> {
    /// The section: `1` for commands, `8` for daemons.
    pub section: &'a str,
    /// The related pages in the section SEE ALSO, such as `rsm.toml(5)`.
    pub see_also: &'a [&'a str],
}

impl Manual<'_> {
    /// Writes a page for `command`, and a page for each of its visible subcommands, to the folder
    /// of the manual section below `root`, such as `/usr/share/man`.
    ///
    /// # Errors
    ///
    /// The folder or a file cannot be written.
    pub fn write(&self, command: Command, root: &Path) -> io::Result<()> {
        let dir = section_folder(root, self.section)?;
        let mut command = command.disable_help_subcommand(true);
        command.build();
        self.write_built(&command, &dir)
    }

    /// Writes the pages of `command` and its subcommands to `dir`. The command must be built, so
    /// that subcommands have their full names.
    fn write_built(&self, command: &Command, dir: &Path) -> io::Result<()> {
        for subcommand in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            self.write_built(subcommand, dir)?;
        }
        let man = Man::new(command.clone());
        let man = man.section(self.section).source(SOURCE);
        fs::write(dir.join(man.get_filename()), self.page(&man, command)?)
    }

    /// The text of the page of `command`, in roff.
    fn page(&self, man: &Man, command: &Command) -> io::Result<Vec<u8>> {
        let mut page = Vec::new();
        man.render_title(&mut page)?;
        let mut text_setting = Roff::new();
        keep_words(&mut text_setting);
        text_setting.to_writer(&mut page)?;
        man.render_name_section(&mut page)?;
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        if command
            .get_arguments()
            .any(|argument| !argument.is_hide_set())
        {
            man.render_options_section(&mut page)?;
        }
        if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
            man.render_subcommands_section(&mut page)?;
        }
        let help = command.get_after_long_help();
        let help = help.or_else(|| command.get_after_help());
        let mut roff = Roff::new();
        for section in HelpSection::parse(&help.map(ToString::to_string).unwrap_or_default()) {
            section.write(&mut roff);
        }
        if !self.see_also.is_empty() {
            roff.control("SH", ["SEE ALSO"]);
            roff.text([roman(self.see_also.join(", "))]);
        }
        roff.to_writer(&mut page)?;
        Ok(page)
    }
}

/// Creates the folder of a section of the manual below `root`, and returns its path.
///
/// # Errors
///
/// The folder cannot be created.
pub fn section_folder(root: &Path, section: &str) -> io::Result<PathBuf> {
    let dir = root.join(format!("man{section}"));
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Turns off hyphenation and justification, so that names of options and keys stay whole, with
/// single blanks between words.
pub fn keep_words(roff: &mut Roff) {
    roff.control("nh", []).control("ad", ["l"]);
}

/// Converts text to roff; code between backquotes becomes bold.
pub fn inlines(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    parts
        .filter(|(_, part)| !part.is_empty())
        .map(|(index, part)| match index % 2 {
            0 => roman(part),
            _ => bold(part),
        })
        .collect()
}

/// Writes indented lines that the page shows unchanged, without filling.
pub fn literal<'a>(roff: &mut Roff, lines: impl IntoIterator<Item = &'a str>) {
    roff.control("RS", ["4"]).control("nf", []);
    for line in lines {
        roff.text([roman(line)]);
    }
    roff.control("fi", []).control("RE", []);
}

/// A section of a page, from the text below a command's help.
#[derive(Debug, PartialEq, Eq)]
struct HelpSection {
    title: String,
    /// The lines below the heading, with an empty line between two paragraphs.
    lines: Vec<String>,
}

impl HelpSection {
    /// Splits `text` into sections. Text without a heading goes to the section `NOTES`.
    fn parse(text: &str) -> Vec<HelpSection> {
        let mut sections: Vec<HelpSection> = Vec::new();
        let mut current = None;
        for line in text.lines() {
            if let Some((title, first)) = heading(line) {
                let index = HelpSection::open(&mut sections, &title);
                current = Some(index);
                if !first.is_empty() {
                    sections[index].lines.push(format!("  {first}"));
                }
            } else if line.trim().is_empty() {
                current = None;
            } else {
                let index =
                    *current.get_or_insert_with(|| HelpSection::open(&mut sections, "NOTES"));
                sections[index].lines.push(line.to_owned());
            }
        }
        sections
    }

    /// The index of the section with the title `title`, which is created if needed. An existing
    /// section gets an empty line, so that a new paragraph begins.
    fn open(sections: &mut Vec<HelpSection>, title: &str) -> usize {
        if let Some(index) = sections.iter().position(|section| section.title == title) {
            sections[index].lines.push(String::new());
            return index;
        }
        sections.push(HelpSection {
            title: title.to_owned(),
            lines: Vec::new(),
        });
        sections.len() - 1
    }

    /// Writes the section to a page.
    fn write(&self, roff: &mut Roff) {
        roff.control("SH", [self.title.as_str()]);
        let mut lines = self.lines.iter().map(String::as_str).peekable();
        while let Some(line) = lines.next() {
            if line.is_empty() {
                roff.control("PP", []);
            } else if !line.starts_with(' ') {
                roff.text(inlines(line));
            } else if let Some((term, meaning)) = term(line) {
                roff.control("TP", []);
                roff.text([bold(term)]);
                roff.text(inlines(meaning));
            } else {
                let mut block = vec![line.trim()];
                while let Some(next) = lines.next_if(|next| is_literal(next)) {
                    block.push(next.trim());
                }
                literal(roff, block);
            }
        }
    }
}

/// The maximum length of a heading in words.
const HEADING_WORDS: usize = 3;

/// Splits a heading, such as `Example: rsmctl sweep`, into its title in capitals and the text after
/// it. `None` if the line is not a heading: only headings of examples may have text after them.
fn heading(line: &str) -> Option<(String, &str)> {
    let (title, rest) = line.split_once(':')?;
    let is_short = title.split(' ').count() <= HEADING_WORDS;
    let is_example = matches!(title, "Example" | "Examples");
    if line.starts_with(' ') || !is_short || !(rest.is_empty() || is_example) {
        return None;
    }
    let title = if is_example { "Examples" } else { title };
    Some((title.to_uppercase(), rest.trim()))
}

/// Splits an indented line at two blanks into a term and its meaning; `None` if it has no two
/// blanks.
fn term(line: &str) -> Option<(&str, &str)> {
    let (term, meaning) = line.trim().split_once("  ")?;
    Some((term, meaning.trim_start()))
}

/// Whether a line is indented and has no term, so that the page shows it unchanged.
fn is_literal(line: &str) -> bool {
    line.starts_with(' ') && term(line).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of a command with the text `help` below its help.
    fn page(help: &'static str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let manual = Manual {
            section: "8",
            see_also: &["other(5)"],
        };
        let command = Command::new("tool").about("A tool").after_long_help(help);
        manual.write(command, dir.path()).unwrap();
        fs::read_to_string(dir.path().join("man8/tool.8")).unwrap()
    }

    #[test]
    fn examples_keep_their_lines() {
        let page = page("Examples:\n  tool one\n  tool two --all");
        let expected = ".SH EXAMPLES\n.RS 4\n.nf\ntool one\ntool two \\-\\-all\n.fi\n.RE\n";
        assert!(page.contains(expected), "{page}");
    }

    #[test]
    fn example_on_the_heading_line_is_shown_with_the_other_examples() {
        let page = page("Examples: tool one\n          tool two");
        assert!(page.contains(".nf\ntool one\ntool two\n.fi\n"), "{page}");
    }

    #[test]
    fn lines_with_terms_and_meanings_become_a_list() {
        let page = page("Exit status:\n  0  done\n  1  failed, see `tool log`");
        let expected = ".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\ndone\n.TP\n\\fB1\\fR\n";
        assert!(page.contains(expected), "{page}");
        assert!(page.contains("failed, see \\fBtool log\\fR\n"), "{page}");
    }

    #[test]
    fn text_without_a_heading_goes_to_the_section_notes() {
        let page = page("It needs: nothing.\n\nExample: tool\n\nMore of it.");
        assert!(
            page.contains(".SH NOTES\nIt needs: nothing.\n.PP\nMore of it.\n"),
            "{page}"
        );
        assert!(page.contains(".SH EXAMPLES\n"), "{page}");
    }

    #[test]
    fn page_ends_with_the_related_pages() {
        let page = page("");
        assert!(
            page.starts_with(".ie") && page.contains(".TH tool 8"),
            "{page}"
        );
        assert!(page.ends_with(".SH \"SEE ALSO\"\nother(5)\n"), "{page}");
    }
}
