use super::Checksum;
use super::codec::Sentinel;

/// The file `store.meta`: the sentinel of the last commit. A database with a lower generation has
/// lost commits.
///
/// A database that opens empty or with old contents does not reveal the loss; this file does. The
/// file is one line of words: a magic word, words `key=value`, and a checksum of the bytes before
/// the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sidecar {
    /// The database's sentinel at the time of writing.
    pub(super) sentinel: Sentinel,
    /// Whether the database was closed properly.
    pub(super) clean: bool,
}

/// First word of the line.
const MAGIC: &str = "rsm-store";
/// Text before the hexadecimal digits of the checksum.
const SUM: &str = " sum=";

impl Sidecar {
    /// The contents of the file.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let Sentinel {
            schema,
            generation,
            count,
            digest,
            plan_generation,
        } = self.sentinel;
        let clean = u8::from(self.clean);
        let body = format!(
            "{MAGIC} schema={schema} generation={generation} count={count} digest={digest:016x} \
             plan_generation={plan_generation} clean={clean}"
        );
        let sum = hex::encode(Checksum::of(body.as_bytes()).to_be_bytes());
        format!("{body}{SUM}{sum}\n").into_bytes()
    }

    /// Parses the line; `None` if rsm did not write it, or it was damaged.
    ///
    /// The line of a later schema is read only up to its schema number, because its other fields
    /// are unknown.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Sidecar> {
        let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let (body, sum) = text.rsplit_once(SUM)?;
        if hex::decode(sum).ok()? != Checksum::of(body.as_bytes()).to_be_bytes() {
            return None;
        }
        let mut words = body.split(' ');
        if words.next() != Some(MAGIC) {
            return None;
        }
        let schema = words.next()?.strip_prefix("schema=")?.parse().ok()?;
        let mut sentinel = Sentinel {
            schema,
            ..Sentinel::default()
        };
        if schema != super::codec::SCHEMA {
            let clean = false;
            return Some(Sidecar { sentinel, clean });
        }
        let mut field = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        sentinel.generation = field("generation")?.parse().ok()?;
        sentinel.count = field("count")?.parse().ok()?;
        sentinel.digest = u64::from_str_radix(field("digest")?, 16).ok()?;
        sentinel.plan_generation = field("plan_generation")?.parse().ok()?;
        let clean = match field("clean")? {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        Some(Sidecar { sentinel, clean })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Sidecar {
        Sidecar {
            sentinel: Sentinel {
                schema: super::super::codec::SCHEMA,
                generation: 12,
                count: 400,
                digest: 0xdead_beef,
                plan_generation: 9,
            },
            clean: true,
        }
    }

    #[test]
    fn sidecar_is_read_as_written_and_a_damaged_one_is_refused() {
        let bytes = sample().to_bytes();
        assert_eq!(Sidecar::from_bytes(&bytes), Some(sample()));
        for cut in 0..bytes.len() {
            assert_eq!(Sidecar::from_bytes(&bytes[..cut]), None, "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x04;
            assert_eq!(Sidecar::from_bytes(&changed), None, "changed at {at}");
        }
    }

    #[test]
    fn later_schema_is_read_even_if_its_fields_differ() {
        let body = "rsm-store schema=7 shards=3";
        let sum = hex::encode(Checksum::of(body.as_bytes()).to_be_bytes());
        let sidecar = Sidecar::from_bytes(format!("{body} sum={sum}\n").as_bytes()).unwrap();
        assert_eq!(sidecar.sentinel.schema, 7);
    }
}
