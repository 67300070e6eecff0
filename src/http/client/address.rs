//! The addresses that webhooks may be sent to. Whoever may subscribe must not be able to make this service call hosts
//! that only the service can reach: its own machine, its network, a cloud's metadata.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

/// Networks that are allowed although they are not public.
#[derive(Clone, Debug, Default)]
pub struct Allowed(pub Vec<IpNet>);

/// Parses a network in CIDR notation; a bare address is a network of one.
///
/// # Errors
///
/// When the text is neither; the message says what it should be.
pub fn network(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.into());
    }
    text.parse()
        .map_err(|_| format!("{text:?} is neither a network, such as 10.1.0.0/16, nor an address"))
}

impl Allowed {
    /// Whether webhooks may be sent to the address.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        let plain = address.to_canonical();
        let is_named = |network: &IpNet| network.contains(&address) || network.contains(&plain);
        self.0.iter().any(is_named) || is_public(plain)
    }
}

/// Whether the address is a public one of the Internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Whether the address is outside the registry of special addresses (RFC 6890 and its updates).
fn is_public_v4(address: Ipv4Addr) -> bool {
    const fn network(of: [u8; 4], prefix_len: u8) -> Ipv4Net {
        let [a, b, c, d] = of;
        Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix_len)
    }
    const SPECIAL: [Ipv4Net; 16] = [
        network([0, 0, 0, 0], 8),       // this network
        network([10, 0, 0, 0], 8),      // private
        network([100, 64, 0, 0], 10),   // shared by carriers
        network([127, 0, 0, 0], 8),     // the loopback
        network([169, 254, 0, 0], 16),  // link-local
        network([172, 16, 0, 0], 12),   // private
        network([192, 0, 0, 0], 24),    // protocols
        network([192, 0, 2, 0], 24),    // documentation
        network([192, 31, 196, 0], 24), // AS112
        network([192, 52, 193, 0], 24), // AMT
        network([192, 88, 99, 0], 24),  // relays of 6to4
        network([192, 168, 0, 0], 16),  // private
        network([198, 18, 0, 0], 15),   // benchmarks
        network([198, 51, 100, 0], 24), // documentation
        network([203, 0, 113, 0], 24),  // documentation
        network([224, 0, 0, 0], 3),     // multicast, reserved and broadcast
    ];
    !SPECIAL.iter().any(|network| network.contains(&address))
}

/// Whether the address is public: only global unicast (2000::/3) is, outside of its special ranges. An address that
/// contains an IPv4 address is public if that one is.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let of = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match of {
        // ::ffff:0:0/96 was handled before; ::/96 is compatible with IPv4.
        [0, 0, 0, 0, 0, 0, ..] => false,
        // 64:ff9b::/96, NAT64; 64:ff9b:1::/48 is local.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(v4(high, low)),
        // 2002::/16, 6to4.
        [0x2002, high, low, ..] => is_public_v4(v4(high, low)),
        // 2001::/23 (Teredo, benchmarks, ORCHID and other protocols), 2001:db8::/32 and
        // 3fff::/20, documentation.
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..0x1000, ..] => false,
        // 2620:4f:8000::/48, AS112.
        [0x2620, 0x4f, 0x8000, ..] => false,
        [first, ..] => first >> 13 == 1,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_only_this_machine_or_its_network_reach_are_refused() {
        let none = Allowed::default();
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:2::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "2002:c0a8:101::",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!none.allows(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2001:4860:4860::8888",
            "2002:808:808::1",
            "2606:4700::1111",
        ] {
            assert!(none.allows(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_network_is_allowed_by_name_whole_and_no_more() {
        let allowed = ["10.1.0.0/16", "127.0.0.1", "fd00::/8"];
        let allowed = Allowed(allowed.map(|text| network(text).unwrap()).into());
        for (address, is_allowed) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("10.2.0.1", false),
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("fd12::1", true),
            ("fc00::1", false),
        ] {
            assert_eq!(
                allowed.allows(address.parse().unwrap()),
                is_allowed,
                "{address}"
            );
        }
        let everything = ["0.0.0.0/0", "::/0"];
        let everything = Allowed(everything.map(|text| network(text).unwrap()).into());
        assert!(everything.allows("127.0.0.1".parse().unwrap()));
        assert!(everything.allows("::1".parse().unwrap()));
        for bad in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "10.0.0.0/-1",
            "::/129",
            "a/8",
            "1.2.3.4/",
        ] {
            assert!(network(bad).is_err(), "{bad}");
        }
    }
}
