use std::fmt;
use std::str::FromStr;

/// The address of a PCI function: domain, bus, device, function. Its text form is `0000:1a:00.0`.
///
/// The order is the one in which the kernel and NVML count devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PciAddress {
    /// The domain (segment); synthetic ones have more than 16 bits.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The device, 0 to 31.
    pub device: u8,
    /// The function, 0 to 7.
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

/// The text is no PCI address.
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

fn hexadecimal(text: &str, digits: usize) -> Option<u32> {
    let fits = (1..=digits).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

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
