//! Generates fabrics from a line of text: published topologies as parameterised generators.
//!
//! A specification is a name, its parameters, options and faults:
//!
//! ```text
//! superpod
//! superpod:su=16,speed=XDR
//! pgft:3;32,32,44;1,32,16;1,1,2
//! fat-tree:k=24,levels=3,faults=links:1%,switches:2,seed=7
//! ```
//!
//! [`specs`] lists the generators. Every fabric is a function of its text alone, is connected
//! unless the text has faults, and is fresh: no port has a LID. Like GPU hosts, hosts have one
//! adapter with one port for each cable, named as Linux names them (`host-001 mlx5_0`). Switches
//! have as many ports as their wiring needs.
//!
//! Options of every generator:
//!
//! - `speed=`: the speed of every cable, `SDR` to `XDR`; the width is 4x. Each generator has a
//!   default, mostly `HDR`, because older simulators support nothing faster;
//! - `management=2`: one more management host at each of two spines; `hosts-on-spines=5x2`: five
//!   more hosts at each of two spines. A spine is a switch without hosts next to a leaf;
//! - `uneven=40`: each leaf lacks a number of hosts up to 40 %, chosen at random;
//! - `slow=50`: half of the cables between switches have the next lower speed; `narrow=2`: 2 % of
//!   these cables have one lane;
//! - `faults=`: the last option, with any of `links:3` or `links:0.5%` (cables between switches
//!   that are removed), `switches:2` (switches that are removed; their hosts stay without a cable)
//!   and `seed=7`, separated by commas. [`fail`] does the same to any fabric.

mod dragonfly;
mod error;
mod fabric;
mod faults;
mod irregular;
mod random;
pub mod rng;
mod slim_fly;
mod spec;
mod superpod;
mod torus;
mod tree;
mod xpander;

use crate::netlist::{LinkSpeed, Netlist};

pub use error::{GenerateError, GenerateReason};

use fabric::Fabric;
use irregular::Irregular;
use spec::Spec;

/// The description of a generator, for a command line's help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpecHelp {
    /// The name with which a specification starts.
    pub name: &'static str,
    /// The form of a specification; parts in brackets may be left out.
    pub synopsis: &'static str,
    /// The generated fabric, in one line.
    pub help: &'static str,
    /// A specification to try.
    pub example: &'static str,
}

/// The function of a generator, with the speed of all links.
type Build = for<'a> fn(&Spec<'a>, LinkSpeed) -> Result<Fabric, GenerateError>;

/// A generator.
struct Generator {
    help: SpecHelp,
    speed: LinkSpeed,
    build: Build,
}

/// All generators, in the order in which help lists them.
const GENERATORS: [Generator; 12] = [
    Generator {
        help: SpecHelp {
            name: "superpod",
            synopsis: "superpod[:su=N]",
            help: "DGX SuperPOD of 1 to 64 scalable units (4): 32 hosts each with 8 rails, NDR",
            example: "superpod:su=4",
        },
        speed: LinkSpeed::Ndr,
        build: superpod::build,
    },
    Generator {
        help: SpecHelp {
            name: "pgft",
            synopsis: "pgft:h;m1,..,mh;w1,..,wh;p1,..,ph",
            help: "parallel-ports generalised fat tree: m children, w parents, p cables to each",
            example: "pgft:2;18,36;1,18;1,1",
        },
        speed: LinkSpeed::Hdr,
        build: tree::build_pgft,
    },
    Generator {
        help: SpecHelp {
            name: "fat-tree",
            synopsis: "fat-tree:k=K,levels=L",
            help: "folded Clos of K-port switches in L levels: 2(K/2)^L hosts, full bisection",
            example: "fat-tree:k=12,levels=3",
        },
        speed: LinkSpeed::Hdr,
        build: tree::build_fat_tree,
    },
    Generator {
        help: SpecHelp {
            name: "torus",
            synopsis: "torus:AxBxC[,hosts=N]",
            help: "torus of 1 to 6 dimensions with N hosts (1) at each switch",
            example: "torus:4x4x4",
        },
        speed: LinkSpeed::Hdr,
        build: torus::build_torus,
    },
    Generator {
        help: SpecHelp {
            name: "mesh",
            synopsis: "mesh:AxBxC[,hosts=N]",
            help: "mesh of 1 to 6 dimensions with N hosts (1) at each switch; of twos a hypercube",
            example: "mesh:4x4x4",
        },
        speed: LinkSpeed::Hdr,
        build: torus::build_mesh,
    },
    Generator {
        help: SpecHelp {
            name: "hyperx",
            synopsis: "hyperx:AxBxC[,hosts=N]",
            help: "HyperX: all switches of a row are neighbours, in 1 to 6 dimensions, N hosts (1) at each",
            example: "hyperx:4x4,hosts=4",
        },
        speed: LinkSpeed::Hdr,
        build: torus::build_hyperx,
    },
    Generator {
        help: SpecHelp {
            name: "slim-fly",
            synopsis: "slim-fly:Q[,hosts=N]",
            help: "Slim Fly of 2 Q^2 switches (Q prime, 1 modulo 4), two hops apart, N hosts (1) at each",
            example: "slim-fly:5,hosts=3",
        },
        speed: LinkSpeed::Hdr,
        build: slim_fly::build,
    },
    Generator {
        help: SpecHelp {
            name: "ring",
            synopsis: "ring:N[,hosts=H]",
            help: "ring of N switches with H hosts (1) at each: the smallest credit loop",
            example: "ring:6",
        },
        speed: LinkSpeed::Hdr,
        build: torus::build_ring,
    },
    Generator {
        help: SpecHelp {
            name: "dragonfly",
            synopsis: "dragonfly:groups=G,switches=A,hosts=H[,links=K]",
            help: "G groups of A switches, all neighbours, with H hosts each, K (1) cables between any two groups",
            example: "dragonfly:groups=9,switches=4,hosts=2",
        },
        speed: LinkSpeed::Hdr,
        build: dragonfly::build,
    },
    Generator {
        help: SpecHelp {
            name: "dragonfly+",
            synopsis: "dragonfly+:groups=G,leaves=L,spines=S,hosts=H[,local=P][,links=K]",
            help: "G groups of L leaves (H hosts each) x S spines, P (1) cables each, K (1) between any two groups",
            example: "dragonfly+:groups=8,leaves=4,spines=4,hosts=4,links=4",
        },
        speed: LinkSpeed::Hdr,
        build: dragonfly::build_plus,
    },
    Generator {
        help: SpecHelp {
            name: "random",
            synopsis: "random:switches=N,degree=D[,hosts=H][,seed=S]",
            help: "connected random graph, D cables at each switch at most, H hosts (1) at each",
            example: "random:switches=64,degree=6,hosts=4,seed=1",
        },
        speed: LinkSpeed::Hdr,
        build: random::build,
    },
    Generator {
        help: SpecHelp {
            name: "xpander",
            synopsis: "xpander:degree=D,size=N[,hosts=H][,seed=S]",
            help: "Xpander of D + 1 groups of N switches, a random cable to each other group, H hosts (1) at each",
            example: "xpander:degree=6,size=4,hosts=3",
        },
        speed: LinkSpeed::Hdr,
        build: xpander::build,
    },
];

/// All generators, in the order in which help should list them.
pub fn specs() -> impl Iterator<Item = SpecHelp> {
    GENERATORS.iter().map(|generator| generator.help)
}

/// Generates the fabric that a specification describes.
///
/// ```
/// use rsm_routing::generate::generate;
/// use rsm_routing::netlist::NodeKind;
///
/// let fabric = generate("fat-tree:k=4,levels=3")?;
/// assert_eq!(fabric.count(NodeKind::Switch), 20);
/// assert_eq!(fabric.count(NodeKind::Ca), 16);
///
/// let error = generate("fat-tree:k=4,levels=0").unwrap_err();
/// assert_eq!(error.column, 21);
/// # Ok::<(), rsm_routing::generate::GenerateError>(())
/// ```
///
/// # Errors
/// The specification cannot be understood, or the fabric needs more LIDs than a subnet has.
pub fn generate(text: &str) -> Result<Netlist, GenerateError> {
    let spec = Spec::parse(text)?;
    let generator = GENERATORS
        .iter()
        .find(|generator| generator.help.name == spec.name())
        .ok_or_else(|| {
            let names: Vec<_> = specs().map(|spec| spec.name).collect();
            spec.error(
                0,
                GenerateReason::UnknownGenerator {
                    name: spec.name().to_owned(),
                },
                names.join(", "),
            )
        })?;
    let speed = spec.speed()?.unwrap_or(generator.speed);
    let irregular = Irregular::of(&spec)?;
    let faults = spec.faults()?;
    let regular = (generator.build)(&spec, speed)?.finish(&spec)?;
    let fabric = irregular.add_to(regular, speed, &spec)?;
    match faults {
        Some(faults) => faults.remove_from(fabric, &spec),
        None => Ok(fabric),
    }
}

/// Removes from a fabric the parts that fail according to `text`, such as
/// `links=1%,switches=2,seed=7`: a text as after `faults=` in a specification.
///
/// ```
/// use rsm_routing::generate::{fail, generate};
///
/// let whole = generate("ring:6")?;
/// let broken = fail(whole.clone(), "links=2,seed=1")?;
/// assert_eq!(broken.cables().len(), whole.cables().len() - 2);
/// assert_eq!(broken, generate("ring:6,faults=links:2,seed=1")?);
/// # Ok::<(), rsm_routing::generate::GenerateError>(())
/// ```
///
/// # Errors
/// The text cannot be understood, or more parts are to fail than there are.
pub fn fail(fabric: Netlist, text: &str) -> Result<Netlist, GenerateError> {
    let spec = Spec::of_faults(text);
    match spec.faults()? {
        Some(faults) => faults.remove_from(fabric, &spec),
        None => Ok(fabric),
    }
}

#[cfg(test)]
mod tests;
