//! Rate codes of paths and groups.

/// The rate codes of paths and groups (IBA 15.2.5.16), each with its rate in tenths of Gb/s, from
/// the slowest to the fastest. The codes are not in the order of the rates.
pub const RATES: [(u8, u16); 23] = [
    (2, 25),
    (5, 50),
    (3, 100),
    (11, 140),
    (6, 200),
    (15, 250),
    (19, 280),
    (4, 300),
    (7, 400),
    (20, 500),
    (12, 560),
    (8, 600),
    (9, 800),
    (16, 1000),
    (13, 1120),
    (10, 1200),
    (14, 1680),
    (17, 2000),
    (18, 3000),
    (21, 4000),
    (22, 6000),
    (23, 8000),
    (24, 12000),
];

/// The code of the rate `tenth_gbps`, in tenths of Gb/s; `None` if no code has exactly this rate.
pub fn rate_code(tenth_gbps: u16) -> Option<u8> {
    let entry = RATES.iter().find(|&&(_, rate)| rate == tenth_gbps);
    entry.map(|&(code, _)| code)
}
