//! Chunks: the columns of 4,096 ports in a step.
//!
//! ```text
//! ports (2) { length (4) column }[6] { port (2) quantity (1) count (LEB128) }...
//! ```
//!
//! Column 1 contains, for each port, the seconds since its previous reading; 0 if the port was not
//! read. Columns 2 to 6 contain, only for ports that were read, the codes ([`rounded`]) of
//! XmitData, RcvData, XmitPkts, RcvPkts and XmitWait. The code of packets is stored minus the code
//! of data in the same direction; that difference is nearly the same at all ports, so that it
//! compresses well. A column of zeros has length 0.

use pco::data_types::Number;
use pco::errors::PcoError;
use pco::standalone::{simple_compress, simple_decompress_into};
use pco::{ChunkConfig, DeltaSpec, ModeSpec};

use crate::quantity::Quantity;
use crate::rounded;
use crate::step_accumulator::{StepAccumulator, Traffic};

/// Number of ports in a chunk: large enough that the tables of a column, a hundred bytes, are small
/// by comparison, and small enough that reading the past of one port reads a small part of the
/// files.
pub(crate) const PORTS: usize = 4096;

/// For each traffic counter, the counter whose code is subtracted from its code; `None` if the code
/// is stored unchanged.
const BASES: [Option<Quantity>; Quantity::TRAFFIC] = [
    None,
    None,
    Some(Quantity::XmitData),
    Some(Quantity::RcvData),
    None,
];

/// Level of the compressor, 0 to 12. Each higher level would save only about one percent.
const LEVEL: usize = 6;

/// Encodes the ports of chunk `number`; `None` if no port was read and no counter moved.
///
/// # Errors
/// Fails if the compressor refuses a column.
pub(crate) fn encode(step: &StepAccumulator, number: usize) -> Result<Option<Vec<u8>>, PcoError> {
    let first = number * PORTS;
    let end = step.seconds.len().min(first + PORTS);
    let Some(seconds) = step.seconds.get(first..end) else {
        return Ok(None);
    };
    let numbers = (first as u32, Quantity::SymbolError)..(end as u32, Quantity::XmitData);
    let errors = step.errors.range(numbers);
    if seconds.iter().all(|&one| one == 0) && errors.clone().next().is_none() {
        return Ok(None);
    }
    let mut out = (seconds.len() as u16).to_be_bytes().to_vec();
    put_column(seconds, LEVEL, &mut out)?;
    let read_ports = || (first..end).filter(|&port| step.seconds[port] > 0);
    for (index, base) in BASES.iter().enumerate() {
        let code = |traffic: &Traffic| {
            let base = base.map_or(0, |base| rounded::code(traffic[base as usize]));
            rounded::code(traffic[index]).wrapping_sub(base)
        };
        let codes: Vec<u16> = read_ports().map(|port| code(&step.traffic[port])).collect();
        put_column(&codes, LEVEL, &mut out)?;
    }
    for (&(port, quantity), &count) in errors {
        out.extend((port as u16 % PORTS as u16).to_be_bytes());
        out.push(quantity as u8);
        put_leb128(count, &mut out);
    }
    Ok(Some(out))
}

/// Appends a compressed column and its length to `out`.
fn put_column<T: Number + PartialEq + Default>(
    values: &[T],
    level: usize,
    out: &mut Vec<u8>,
) -> Result<(), PcoError> {
    let config = ChunkConfig::default()
        .with_compression_level(level)
        .with_mode_spec(ModeSpec::Classic)
        .with_delta_spec(DeltaSpec::NoOp);
    let is_zero = values.iter().all(|value| *value == T::default());
    let column = match is_zero {
        true => Vec::new(),
        false => simple_compress(values, &config)?,
    };
    out.extend((column.len() as u32).to_be_bytes());
    out.extend(column);
    Ok(())
}

/// Appends a number in LEB128, seven bits in each byte, to `out`.
fn put_leb128(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The contents of a chunk. The index of a port is its index in the chunk.
#[derive(Debug)]
pub(crate) struct Columns {
    /// Seconds since the previous reading of each port; 0 if the port was not read.
    pub(crate) seconds: Vec<u32>,
    /// Counts of traffic of each port; empty if they were not requested.
    pub(crate) traffic: Vec<Traffic>,
    /// Counts of errors that moved: index of the port, counter and count.
    pub(crate) errors: Vec<(usize, Quantity, u64)>,
}

/// Decodes a chunk; `None` if the payload is invalid, although its checksum matches. Without
/// `with_traffic`, the columns of traffic are skipped.
pub(crate) fn decode(payload: &[u8], with_traffic: bool) -> Option<Columns> {
    let mut rest = payload;
    let ports = usize::from(u16::from_be_bytes(*take(&mut rest)?));
    if ports > PORTS {
        return None;
    }
    let seconds: Vec<u32> = column(&mut rest, ports, true)?;
    let read: Vec<usize> = (0..ports).filter(|&port| seconds[port] > 0).collect();
    let mut codes: Vec<Vec<u16>> = Vec::new();
    for _ in BASES {
        codes.push(column(&mut rest, read.len(), with_traffic)?);
    }
    let mut traffic = vec![Traffic::default(); if with_traffic { ports } else { 0 }];
    if with_traffic {
        for (at, &port) in read.iter().enumerate() {
            traffic[port] = std::array::from_fn(|index| {
                let base = BASES[index].map_or(0, |base| codes[base as usize][at]);
                rounded::value(codes[index][at].wrapping_add(base))
            });
        }
    }
    let mut errors = Vec::new();
    while let Some([high, low, quantity]) = take::<3>(&mut rest).copied() {
        let count = take_leb128(&mut rest)?;
        let port = usize::from(u16::from_be_bytes([high, low]));
        // A later version may have written a counter that this one does not know.
        errors.extend(Quantity::of(quantity).map(|quantity| (port, quantity, count)));
    }
    Some(Columns {
        seconds,
        traffic,
        errors,
    })
}

/// Splits `N` bytes off the front of `rest`; `None` if there are fewer.
fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(taken)
}

/// Splits a number in LEB128 off the front of `rest`; `None` if it is cut off.
fn take_leb128(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = *take(rest)?;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Splits a column of `length` values off the front of `rest`; returns no values unless `wanted`.
/// `None` if the column is invalid.
fn column<T: Number + Default>(rest: &mut &[u8], length: usize, wanted: bool) -> Option<Vec<T>> {
    let bytes = u32::from_be_bytes(*take(rest)?) as usize;
    let (packed, after) = rest.split_at_checked(bytes)?;
    *rest = after;
    let mut values = vec![T::default(); if wanted { length } else { 0 }];
    if wanted && bytes > 0 {
        let progress = simple_decompress_into(packed, &mut values).ok()?;
        (progress.n_processed == length).then_some(())?;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_that_the_compressor_refuses_is_an_error() {
        let mut out = Vec::new();
        let invalid_level = 99;
        assert!(put_column(&[7u32, 8], invalid_level, &mut out).is_err());
        assert_eq!(out, [0u8; 0]);
        put_column(&[7u32, 8], LEVEL, &mut out).unwrap();
        let read: Vec<u32> = column(&mut &out[..], 2, true).unwrap();
        assert_eq!(read, [7, 8]);
    }
}
