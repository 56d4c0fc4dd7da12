use std::fmt;
use std::str::FromStr;

/// The address of a PCI function: domain, bus, device, function. Its text form is `0000:1a:00.0`.
///
/// Addresses sort in the order in which the kernel and NVML count devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PciAddress {
    /// The domain (segment); synthetic domains have more than 16 bits.
    pub domain: u32,
    /// The bus number.
    pub bus: u8,
    /// The device number, 0 to 31.
    pub device: u8,
    /// The function number, 0 to 7.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{:x}",
            self.domain, self.bus, self.device, self.function
        )
    }
}

/// The error for a text that is not a PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a PCI address: expected domain:bus:device.function, like 0000:1a:00.0")]
pub struct ParsePciAddressError(pub String);

impl FromStr for PciAddress {
    type Err = ParsePciAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let mut parts = text.split(':');
            let (domain, bus, rest) = (parts.next()?, parts.next()?, parts.next()?);
            let (device, function) = rest.split_once('.')?;
            let address = PciAddress {
                domain: hexadecimal(domain, 8)?,
                bus: u8::try_from(hexadecimal(bus, 2)?).ok()?,
                device: u8::try_from(hexadecimal(device, 2)?).ok()?,
                function: u8::try_from(hexadecimal(function, 1)?).ok()?,
            };
            let fits = address.device < 32 && address.function < 8 && parts.next().is_none();
            fits.then_some(address)
        };
        parse().ok_or_else(|| ParsePciAddressError(text.chars().take(32).collect()))
    }
}

/// Parses a number of 1 to `digits` hexadecimal digits; `None` for other texts.
fn hexadecimal(text: &str, digits: usize) -> Option<u32> {
    let fits = (1..=digits).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

/// The link of a PCIe function: the number of lanes, and the speed of each.
///
/// The text form combines the kernel's two texts: `x16 32.0 GT/s`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PcieLink {
    /// The number of lanes, 1 to 32.
    pub width: u8,
    /// The speed of a lane in tenths of GT/s: 25 (first generation) to 640 (sixth).
    pub tenth_gts: u16,
}

impl fmt::Display for PcieLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, tenths) = (self.tenth_gts / 10, self.tenth_gts % 10);
        write!(f, "x{} {whole}.{tenths} GT/s", self.width)
    }
}

/// The error for a text that is not a PCIe link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a PCIe link: expected lanes and speed, like x16 32.0 GT/s")]
pub struct ParsePcieLinkError(pub String);

impl FromStr for PcieLink {
    type Err = ParsePcieLinkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (width, speed) = text.strip_prefix('x')?.split_once(' ')?;
            PcieLink::of_sysfs(width, speed)
        };
        parse().ok_or_else(|| ParsePcieLinkError(text.chars().take(32).collect()))
    }
}

impl PcieLink {
    /// The fastest link between this end and an end that supports `other`.
    pub fn with(self, other: PcieLink) -> PcieLink {
        PcieLink {
            width: self.width.min(other.width),
            tenth_gts: self.tenth_gts.min(other.tenth_gts),
        }
    }

    /// Whether the link has fewer lanes than `usual`, or a lower speed per lane.
    pub fn is_below(self, usual: PcieLink) -> bool {
        self.width < usual.width || self.tenth_gts < usual.tenth_gts
    }

    /// Parses the kernel's texts of width (`16`) and speed (`32.0 GT/s PCIe`). `None` for other
    /// texts, and for the width 0 that functions of virtual machines have.
    pub fn of_sysfs(width: &str, speed: &str) -> Option<PcieLink> {
        let (number, unit) = speed.split_once(' ')?;
        let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str, most: usize| {
            let fits = (1..=most).contains(&text.len());
            (fits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse::<u16>())
        };
        let link = PcieLink {
            width: u8::try_from(digits(width, 2)?.ok()?).ok()?,
            tenth_gts: digits(whole, 3)?.ok()? * 10 + digits(tenths, 1)?.ok()?,
        };
        let fits = unit.starts_with("GT/s") && (1..=32).contains(&link.width);
        (fits && link.tenth_gts > 0).then_some(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_survive_their_text_form_and_malformed_links_are_refused() {
        for text in ["x16 32.0 GT/s", "x1 2.5 GT/s", "x8 64.0 GT/s"] {
            assert_eq!(
                text.parse::<PcieLink>().map(|link| link.to_string()),
                Ok(text.to_owned())
            );
        }
        assert_eq!(
            PcieLink::of_sysfs("16", "8.0 GT/s PCIe"),
            "x16 8.0 GT/s".parse().ok()
        );
        for text in [
            "",
            "16 32.0 GT/s",
            "x0 2.5 GT/s",
            "x16 0.0 GT/s",
            "x255 8.0 GT/s",
            "x16 Unknown",
            "x16 -8.0 GT/s",
            "x16 8.0",
        ] {
            assert!(text.parse::<PcieLink>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_survives_its_text_form() {
        for text in ["0000:1a:00.0", "ffff:ff:01.7", "10000:00:1f.3"] {
            assert_eq!(
                text.parse::<PciAddress>().map(|a| a.to_string()),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn malformed_addresses_are_refused() {
        for text in [
            "",
            "1a:00.0",
            "0000:1a:20.0",
            "0000:1a:00.8",
            "0:1a:0.0:1",
            "0000:+a:00.0",
        ] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }
}
