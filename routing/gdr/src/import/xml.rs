//! Reads a document as a flat list of elements, each with its line.
//!
//! The reader never defines entities and never processes declarations: a file may state a document
//! type (hwloc does), but not contain declarations. Only the five predefined entities and character
//! references are expanded.

use quick_xml::errors::Error;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::error::{ImportError, ImportReason};

/// The maximum number of elements of a document. hwloc's exports of large machines have about
/// 10,000.
const MAX_ELEMENTS: usize = 100_000;

/// The maximum depth of nesting. PCIe trees stay below 20.
const MAX_DEPTH: usize = 64;

/// The maximum number of attributes of one element. hwloc's objects have about 20.
const MAX_ATTRIBUTES: usize = 64;

/// An element of a document.
pub(super) struct Element {
    pub(super) name: String,
    /// The line of the start tag, from 1.
    pub(super) line: u32,
    /// The index of the parent element; `None` for the root.
    pub(super) parent: Option<usize>,
    /// The names and values of the attributes.
    attributes: Vec<(String, String)>,
    /// The text of the element, without that of its children.
    pub(super) text: String,
}

impl Element {
    /// The value of an attribute; `None` if the element lacks it.
    pub(super) fn get(&self, attribute: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(name, _)| name == attribute);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of an attribute; an error if the element lacks it.
    pub(super) fn need(&self, attribute: &'static str) -> Result<&str, ImportError> {
        self.get(attribute).ok_or_else(|| {
            let element = self.name.clone();
            ImportError::new(self.line, ImportReason::Missing { element, attribute })
        })
    }

    /// The error for an invalid value of an attribute; `what` is the expected kind of value.
    pub(super) fn value_error(&self, value: &str, what: &'static str) -> ImportError {
        let value = super::error::shown(value);
        ImportError::new(self.line, ImportReason::Value { value, what })
    }
}

/// Reads the elements in the order of their starts; the first element is the root.
pub(super) fn read(text: &str, root: &'static str) -> Result<Vec<Element>, ImportError> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut lines = Lines {
        text: text.as_bytes(),
        at: 0,
        line: 1,
    };
    let mut document = OpenDocument {
        root,
        elements: Vec::new(),
        open: Vec::new(),
    };
    loop {
        // An event starts at the end of the previous one.
        let line = lines.at(reader.buffer_position());
        let error = |reason| ImportError::new(line, reason);
        let event = reader
            .read_event()
            .map_err(|problem| error(ImportReason::Xml(problem.to_string())))?;
        match event {
            Event::Start(ref start) => {
                let index = document.add(start, line)?;
                document.open.push(index);
            }
            Event::Empty(ref start) => {
                document.add(start, line)?;
            }
            Event::End(_) => {
                document.open.pop();
            }
            Event::Text(ref content) => {
                if let Some(&inner) = document.open.last() {
                    let text = &mut document.elements[inner].text;
                    text.push_str(&content.xml10_content());
                }
            }
            Event::DocType(ref declaration) if declaration.contains('[') => {
                return Err(error(ImportReason::DocumentType));
            }
            Event::GeneralRef(ref reference) => {
                let message = format!("reference `&{};` in text", super::error::shown(reference));
                return Err(error(ImportReason::Xml(message)));
            }
            Event::Eof => break,
            Event::CData(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_) => {}
        }
    }
    document.finish(super::line_of(text.as_bytes()))
}

/// A document that is being read.
struct OpenDocument {
    /// The required name of the root element.
    root: &'static str,
    /// The elements so far, in the order of their start tags.
    elements: Vec<Element>,
    /// The elements whose end tag is outstanding, root first.
    open: Vec<usize>,
}

impl OpenDocument {
    /// Adds the element of a start tag or an empty-element tag; returns its index.
    ///
    /// # Errors
    /// There are too many elements or levels, a second root, or a root of another name.
    fn add(&mut self, start: &BytesStart<'_>, line: u32) -> Result<usize, ImportError> {
        let error = |reason| ImportError::new(line, reason);
        let index = self.elements.len();
        if index == MAX_ELEMENTS || self.open.len() == MAX_DEPTH {
            let (what, limit) = match self.open.len() {
                MAX_DEPTH => ("levels of elements", MAX_DEPTH),
                _ => ("elements", MAX_ELEMENTS),
            };
            return Err(error(ImportReason::TooMany { what, limit }));
        }
        if index > 0 && self.open.is_empty() {
            return Err(error(ImportReason::Xml("a second root element".to_owned())));
        }
        let element = element(start, line, self.open.last().copied())?;
        if index == 0 && element.name != self.root {
            let (found, expected) = (super::error::shown(&element.name), self.root);
            return Err(error(ImportReason::Root { found, expected }));
        }
        self.elements.push(element);
        Ok(index)
    }

    /// The elements at the end of the text; `line` is the last line.
    ///
    /// # Errors
    /// An element is not closed, or there are no elements.
    fn finish(self, line: u32) -> Result<Vec<Element>, ImportError> {
        if let Some(&inner) = self.open.last() {
            let message = format!(
                "`{}` of line {} is not closed",
                self.elements[inner].name, self.elements[inner].line
            );
            return Err(ImportError::new(line, ImportReason::Xml(message)));
        }
        if self.elements.is_empty() {
            let (found, expected) = ("nothing".to_owned(), self.root);
            return Err(ImportError::new(
                line,
                ImportReason::Root { found, expected },
            ));
        }
        Ok(self.elements)
    }
}

/// Converts a start tag with its attributes.
fn element(
    start: &BytesStart<'_>,
    line: u32,
    parent: Option<usize>,
) -> Result<Element, ImportError> {
    let error = |problem: String| ImportError::new(line, ImportReason::Xml(problem));
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|problem| error(problem.to_string()))?;
        if attributes.len() == MAX_ATTRIBUTES {
            let (what, limit) = ("attributes", MAX_ATTRIBUTES);
            return Err(ImportError::new(
                line,
                ImportReason::TooMany { what, limit },
            ));
        }
        let value = attribute
            .normalized_value(XmlVersion::Implicit1_0)
            .map_err(|problem: Error| error(problem.to_string()))?;
        attributes.push((attribute.key.as_ref().to_owned(), value.into_owned()));
    }
    Ok(Element {
        name: start.name().as_ref().to_owned(),
        line,
        parent,
        attributes,
        text: String::new(),
    })
}

/// Counts lines up to a position, with a single pass over the text.
struct Lines<'a> {
    text: &'a [u8],
    /// The position up to which lines are counted.
    at: usize,
    /// The line at that position, from 1.
    line: u32,
}

impl Lines<'_> {
    /// The line at `position`, which must not be before the previous one.
    fn at(&mut self, position: u64) -> u32 {
        let end = usize::try_from(position).map_or(self.text.len(), |at| at.min(self.text.len()));
        if end > self.at {
            let breaks = self.text[self.at..end]
                .iter()
                .filter(|&&byte| byte == b'\n');
            self.line += breaks.count() as u32;
            self.at = end;
        }
        self.line
    }
}
