//! Reads the matrix of NVLink bandwidths.
//!
//! hwloc adds up the bandwidths of all links between two objects, in one direction: 20 GB/s for each
//! link of generation 1, 25 GB/s up to generation 4, and 50 GB/s from generation 5 on. 50 GB/s are
//! two links of an A100 and one of a B200, so that the GPU's PCI device number decides between them.
//! hwloc 2.9.0 writes 50 GB/s for the links of generation 3, too: a GPU then has more bandwidth than
//! [`MAX_LINKS`] links of 25 GB/s.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{Element, NVIDIA};
use crate::import::error::{ImportError, ImportReason};
use crate::inventory::{HostInventory, LinkFamily, MAX_LINKS, NvLink, PciAddress};

/// The maximum number of objects in the matrix: the GPUs and NVSwitches of one host, and a reserve.
const MAX_OBJECTS: usize = 256;

/// hwloc's value for one NVLink in MB/s: of generation 1, of generations 2 to 4, of generation 5.
const LINK_MBYTES: [u64; 3] = [20_000, 25_000, 50_000];

/// The PCI device numbers of NVIDIA's GPUs with NVLinks of generation 5: B200 and GB200, B300 and
/// GB300.
const GENERATION_5: [RangeInclusive<u16>; 2] = [0x2900..=0x29ff, 0x3180..=0x31ff];

/// An object of the matrix.
#[derive(Clone, Copy)]
enum Object {
    /// A GPU, by position in the inventory.
    Gpu(usize),
    /// Any other device, such as an NVSwitch.
    Other,
}

/// The bandwidths of the links of one GPU, in MB/s.
#[derive(Clone, Default)]
struct Bandwidths {
    /// The bandwidth to each other GPU, by position in the inventory.
    direct: BTreeMap<usize, u64>,
    /// The total bandwidth to NVSwitches.
    switched: u64,
}

impl Bandwidths {
    /// All bandwidths but zeros.
    fn all(&self) -> impl Iterator<Item = u64> {
        let direct = self.direct.values().copied();
        direct.chain([self.switched]).filter(|&mbytes| mbytes > 0)
    }

    fn sum(&self) -> u64 {
        self.all().fold(0, u64::saturating_add)
    }
}

/// Sets the NVLinks of `host` from hwloc's matrix `NVLinkBandwidth`; does nothing without one.
/// `gpus` holds, for each GPU of the host, its PCI element and its PCI address.
///
/// # Errors
/// The matrix is not square, has a value that is not the bandwidth of some links, or has too many
/// objects.
pub(super) fn add(
    host: &mut HostInventory,
    elements: &[Element],
    gpus: &[(usize, PciAddress)],
) -> Result<(), ImportError> {
    let matrix = elements
        .iter()
        .position(|element| element.get("name") == Some("NVLinkBandwidth"));
    let Some(matrix) = matrix else { return Ok(()) };
    let position = |address: PciAddress| {
        let mut all = host.gpus.iter();
        all.position(|gpu| gpu.pci == Some(address))
    };
    let positions: BTreeMap<usize, usize> = gpus
        .iter()
        .filter_map(|&(element, address)| Some((element, position(address)?)))
        .collect();
    let of_gpus = bandwidths(elements, matrix, &positions, host.gpus.len())?;
    let generation_5 = gpus.iter().any(|&(at, _)| {
        let number = device_number(&elements[at]);
        number.is_some_and(|number| GENERATION_5.iter().any(|range| range.contains(&number)))
    });
    let Some(unit) = link_mbytes(&of_gpus, generation_5) else {
        return Ok(());
    };
    if unit == LINK_MBYTES[0] {
        host.link_family = LinkFamily::NvLink {
            generation: Some(1),
        };
    }
    let links = |mbytes: u64| {
        let is_possible = mbytes.is_multiple_of(unit) && mbytes / unit <= u64::from(MAX_LINKS);
        let count = is_possible.then_some((mbytes / unit) as u8);
        let what = "the bandwidth of 1 to 18 NVLinks of 20000, 25000 or 50000 MB/s";
        count.ok_or_else(|| elements[matrix].value_error(&mbytes.to_string(), what))
    };
    host.nvlinks_known = true;
    let has_switches = of_gpus.iter().any(|gpu| gpu.switched > 0);
    for (gpu, of_gpu) in host.gpus.iter_mut().zip(&of_gpus) {
        let to_switches = links(of_gpu.switched)?;
        gpu.switch_links = has_switches.then_some(to_switches);
    }
    for (a, one) in of_gpus.iter().enumerate() {
        for (b, other) in of_gpus.iter().enumerate().skip(a + 1) {
            let cabled = one.direct.get(&b).copied().unwrap_or(0);
            let links = links(cabled)?.max(links(one.switched.min(other.switched))?);
            if links > 0 {
                let (a, b) = (a as u16, b as u16);
                host.nvlinks.push(NvLink { a, b, links });
            }
        }
    }
    Ok(())
}

/// The PCI device number of one of NVIDIA's GPUs; `None` for another vendor's.
fn device_number(element: &Element) -> Option<u16> {
    // Example: "0302 [10de:2330] [10de:16c1] a1 00".
    let kind = element.get("pci_type")?;
    let (_, number) = kind.split_once(&format!("[{NVIDIA}:"))?;
    u16::from_str_radix(number.get(..4)?, 16).ok()
}

/// The bandwidth of one link in MB/s; `None` if no GPU has a link. Of two possible bandwidths it is
/// the lower one, unless the GPUs have links of generation 5, or one has more bandwidth than all of
/// its connectors would give it.
fn link_mbytes(of_gpus: &[Bandwidths], generation_5: bool) -> Option<u64> {
    let [first, second, fifth] = LINK_MBYTES;
    let most = of_gpus.iter().map(Bandwidths::sum).max()?;
    if most == 0 {
        return None;
    }
    let are_all = |unit: u64| {
        let mut all = of_gpus.iter().flat_map(Bandwidths::all);
        all.all(|mbytes| mbytes.is_multiple_of(unit))
    };
    let exceeds_connectors = most > second * u64::from(MAX_LINKS);
    Some(match are_all(second) {
        false => first,
        true if are_all(fifth) && (generation_5 || exceeds_connectors) => fifth,
        true => second,
    })
}

/// The bandwidths of each of `gpus` GPUs. `positions` has the position in the inventory of each
/// GPU's PCI element.
fn bandwidths(
    elements: &[Element],
    matrix: usize,
    positions: &BTreeMap<usize, usize>,
    gpus: usize,
) -> Result<Vec<Bandwidths>, ImportError> {
    let (objects, values) = content(elements, matrix, positions)?;
    let at = |row: usize, column: usize| values[row * objects.len() + column];
    let mut out = vec![Bandwidths::default(); gpus];
    for (row, &one) in objects.iter().enumerate() {
        let Object::Gpu(gpu) = one else { continue };
        for (column, &other) in objects.iter().enumerate() {
            match other {
                Object::Gpu(peer) if peer != gpu => {
                    let both = at(row, column).min(at(column, row));
                    out[gpu].direct.insert(peer, both);
                }
                Object::Gpu(_) => {}
                Object::Other => {
                    let sum = &mut out[gpu].switched;
                    *sum = sum.saturating_add(at(row, column));
                }
            }
        }
    }
    Ok(out)
}

/// The objects of the matrix, and its values in MB/s, row after row. `positions` has the position
/// in the inventory of each GPU's PCI element.
fn content(
    elements: &[Element],
    matrix: usize,
    positions: &BTreeMap<usize, usize>,
) -> Result<(Vec<Object>, Vec<u64>), ImportError> {
    let by_number: BTreeMap<&str, usize> = (0..)
        .zip(elements)
        .filter_map(|(at, element)| Some((element.get("gp_index")?, at)))
        .collect();
    let (mut objects, mut values) = (Vec::new(), Vec::new());
    for (_, part) in super::children(elements, matrix) {
        for word in part.text.split_whitespace() {
            let limit = MAX_OBJECTS;
            if objects.len() == limit && part.name == "indexes"
                || values.len() == limit * limit && part.name == "u64values"
            {
                let what = "objects joined by NVLink";
                return Err(ImportError::new(
                    part.line,
                    ImportReason::TooMany { what, limit },
                ));
            }
            match part.name.as_str() {
                "indexes" => {
                    let number = word.rsplit_once(':').map_or(word, |(_, number)| number);
                    let device = by_number
                        .get(number)
                        .map(|&at| match elements[at].get("type") {
                            Some("OSDev") => elements[at].parent.unwrap_or(at),
                            _ => at,
                        });
                    let position = device.and_then(|at| positions.get(&at).copied());
                    objects.push(position.map_or(Object::Other, Object::Gpu));
                }
                "u64values" => values.push(
                    word.parse()
                        .map_err(|_| part.value_error(word, "a bandwidth in MB/s"))?,
                ),
                _ => {}
            }
        }
    }
    if values.len() != objects.len() * objects.len() {
        let element = &elements[matrix];
        let value = format!("{} values for {} objects", values.len(), objects.len());
        return Err(element.value_error(&value, "a square matrix"));
    }
    Ok((objects, values))
}
