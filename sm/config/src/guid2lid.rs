//! Parser of OpenSM's `guid2lid`: lines of `0xGUID 0xMINLID 0xMAXLID`, with empty lines between.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use rsm_ids::{Guid, Lid, Lmc};
use rsm_model::LidClaim;

use super::finding::{ConfigFinding, ConfigSeverity};
use super::line_file::{Comments, LineFile};
use super::number;

/// The claims of a `guid2lid` file.
#[derive(Clone, Debug, Default)]
pub struct Guid2Lid {
    /// Claims by port GUID, with `last_seen` 0. No two claims overlap.
    pub claims: BTreeMap<Guid, LidClaim>,
    /// Line of each claim, from 1, by port GUID.
    pub lines: BTreeMap<Guid, usize>,
    /// Findings about the entries that were dropped.
    pub findings: Vec<ConfigFinding>,
}

/// Parses `text`, the content of `file`. If several entries claim one LID or name one port, the
/// first entry counts. Later entries and invalid entries are dropped with a warning, not an error,
/// because one bad entry must not cost other ports their LIDs.
pub fn parse_guid2lid(file: &Path, text: &str) -> Guid2Lid {
    let mut file = LineFile::new(file, text, Comments::Absent);
    let mut claims: BTreeMap<Guid, LidClaim> = BTreeMap::new();
    // Last LID and port of each claim, by its first LID.
    let mut taken: BTreeMap<u16, (u16, Guid)> = BTreeMap::new();
    let mut lines = BTreeMap::new();
    file.each(|line| {
        let dropped = |why: Cow<'static, str>| {
            let dropped = line.mistake(ConfigSeverity::Warning, why);
            dropped.found(format!("`{}` is dropped", line.text))
        };
        let (guid, first, last) = entry(line.text).map_err(|why| dropped(why.into()))?;
        let claim = claim(first, last).map_err(|why| dropped(why.into()))?;
        if claims.contains_key(&guid) {
            let why = format!("port {guid} has an entry before this one");
            return Err(dropped(why.into()));
        }
        // Claims do not overlap, so only the last claim that begins at or before the end of this
        // claim can overlap it.
        let before = taken.range(..=last).next_back();
        if let Some((_, &(_, other))) = before.filter(|(_, (end, _))| *end >= first) {
            return Err(dropped(
                format!("port {other} has one of these LIDs").into(),
            ));
        }
        taken.insert(first, (last, guid));
        claims.insert(guid, claim);
        lines.insert(guid, line.line);
        Ok(())
    });
    Guid2Lid {
        claims,
        lines,
        findings: file.finish(),
    }
}

fn entry(line: &str) -> Result<(Guid, u16, u16), &'static str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [guid, first, last] = words[..] else {
        return Err("expected `0xGUID 0xMINLID 0xMAXLID`");
    };
    let guid = number(guid).filter(|&guid| guid != 0).map(Guid);
    let guid = guid.ok_or("expected a GUID that is not zero")?;
    let lid = |text| number(text).and_then(|n| u16::try_from(n).ok());
    match (lid(first), lid(last)) {
        (Some(first), Some(last)) => Ok((guid, first, last)),
        _ => Err("expected two LIDs, 0x1 to 0xbfff"),
    }
}

fn claim(first: u16, last: u16) -> Result<LidClaim, &'static str> {
    if first == 0 || first > last || last > Lid::UNICAST_LAST.0 {
        return Err("expected 0x1 <= MINLID <= MAXLID <= 0xbfff");
    }
    let count = last - first + 1;
    let lmc = u8::try_from(count.trailing_zeros())
        .ok()
        .filter(|_| count.is_power_of_two())
        .and_then(|bits| Lmc::new(bits).ok())
        .ok_or("expected 1, 2, 4 … 128 LIDs")?;
    let lid = Lid(first);
    if !lmc.aligns(lid) {
        return Err("expected MINLID to be a multiple of the number of LIDs");
    }
    Ok(LidClaim {
        lid,
        lmc,
        last_seen: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Guid2Lid {
        parse_guid2lid(Path::new("guid2lid"), text)
    }

    #[test]
    fn entries_become_claims() {
        let read = read("0x0000000000100005 0x0006 0x0006\n\n0x0000000000200000 0x0008 0x000b\n\n");
        assert_eq!(read.findings, []);
        let claim = |lid, lmc| LidClaim {
            lid: Lid(lid),
            lmc: Lmc::new(lmc).unwrap(),
            last_seen: 0,
        };
        let expected = [
            (Guid(0x10_0005), claim(6, 0)),
            (Guid(0x20_0000), claim(8, 2)),
        ];
        assert_eq!(read.claims, BTreeMap::from(expected));
    }

    #[test]
    fn invalid_entries_are_dropped_and_reported() {
        let cases = [
            ("0x0 0x1 0x1", "not zero"),
            ("0x1 0x0 0x0", "MINLID"),
            ("0x1 0x5 0x4", "MINLID"),
            ("0x1 0xbfff 0xc000", "MINLID"),
            ("0x1 0x5 0x6", "multiple"),
            ("0x1 0x4 0x6", "1, 2, 4"),
            ("0x1 0x100 0x1ff", "1, 2, 4"),
            ("0x1 0x5", "0xGUID"),
            ("0x1 0x5 0x5 0x5", "0xGUID"),
            ("port 0x5 0x5", "GUID"),
            ("0x1 0x10005 0x10005", "LIDs"),
        ];
        for (line, why) in cases {
            let text = format!("0x77 0x700 0x700\n\n  {line}\n\n0x78 0x800 0x800\n");
            let read = read(&text);
            assert_eq!(read.claims.len(), 2, "{line}");
            let [finding] = &read.findings[..] else {
                panic!("{line}: {:?}", read.findings);
            };
            assert_eq!((finding.line, finding.column), (3, 3), "{line}");
            assert!(finding.expected.contains(why), "{line}: {finding}");
        }
    }

    #[test]
    fn first_of_two_entries_for_one_port_or_lid_is_kept() {
        let read = read(
            "0x1 0x8 0xb\n0x2 0xa 0xa\n0x3 0x8 0x8\n0x4 0xc 0xc\n0x5 0x8 0xf\n0x1 0x20 0x20\n0x6 0x7 0x7\n",
        );
        let ports: Vec<_> = read.claims.keys().map(|guid| guid.0).collect();
        assert_eq!(ports, [1, 4, 6]);
        let lines: Vec<_> = read.findings.iter().map(|f| f.line).collect();
        assert_eq!(lines, [2, 3, 5, 6]);
    }
}
