//! Reads the matrix of NVLink bandwidths.

use std::collections::BTreeMap;

use super::Element;
use crate::import::error::{ImportError, ImportReason};
use crate::inventory::{HostInventory, LinkFamily, NvLink, PciAddress};

/// The maximum number of objects in the matrix: the GPUs and NVSwitches of one host, and a reserve.
const MAX_OBJECTS: usize = 256;

/// hwloc's value for one NVLink in MB/s: generation 1, generations 2 to 4, generation 5.
const LINK_MBYTES: [u64; 3] = [20_000, 25_000, 50_000];

/// An object of the matrix.
#[derive(Clone, Copy)]
enum Object {
    /// A GPU, by position in the inventory.
    Gpu(usize),
    /// Any other device, such as an NVSwitch.
    Other,
}

/// Sets the NVLinks of `host` from hwloc's matrix `NVLinkBandwidth`; does nothing without one.
/// `gpus` holds, for each GPU of the host, its PCI element and its PCI address.
///
/// # Errors
/// The matrix is not square, has a value that is not a bandwidth, or has too many objects.
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
    let (objects, values) = content(elements, matrix, &positions)?;
    let at = |row: usize, column: usize| values[row * objects.len() + column];
    let smallest = values.iter().copied().filter(|&value| value > 0).min();
    let unit = smallest.and_then(|least| {
        LINK_MBYTES
            .into_iter()
            .rev()
            .find(|unit| least.is_multiple_of(*unit))
    });
    let Some(unit) = unit else { return Ok(()) };
    if unit == 20_000 {
        host.link_family = LinkFamily::NvLink {
            generation: Some(1),
        };
    }
    // Cap the number at 255: more links than any GPU has are a sum.
    let links = |mbytes: u64| u8::try_from(mbytes / unit).unwrap_or(u8::MAX);
    host.nvlinks_known = true;
    let mut to_switches = vec![0u64; host.gpus.len()];
    let mut direct = BTreeMap::new();
    for (row, &one) in objects.iter().enumerate() {
        let Object::Gpu(gpu) = one else { continue };
        for (column, &other) in objects.iter().enumerate() {
            match other {
                Object::Gpu(peer) if peer > gpu => {
                    let both = at(row, column).min(at(column, row));
                    direct.insert((gpu, peer), links(both));
                }
                Object::Gpu(_) => {}
                Object::Other => {
                    to_switches[gpu] = to_switches[gpu].saturating_add(at(row, column))
                }
            }
        }
    }
    let switched = to_switches.iter().any(|&mbytes| mbytes > 0);
    for (gpu, &mbytes) in host.gpus.iter_mut().zip(&to_switches) {
        gpu.switch_links = switched.then_some(links(mbytes));
    }
    for a in 0..host.gpus.len() {
        for b in a + 1..host.gpus.len() {
            let cabled = direct.get(&(a, b)).copied().unwrap_or(0);
            let links = cabled.max(links(to_switches[a].min(to_switches[b])));
            if links > 0 {
                let (a, b) = (a as u16, b as u16);
                host.nvlinks.push(NvLink { a, b, links });
            }
        }
    }
    Ok(())
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
