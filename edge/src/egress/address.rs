//! SSRF check of an IP address: true only for public internet addresses.
//!
//! Every range that the IANA registries set aside (RFC 6890) is rejected, in IPv6 also everything outside of the
//! allocated space (2000::/3). An IPv4 address embedded in an IPv6 one is checked itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns true if every host on the internet can reach the address, so that a request to it on behalf of a caller
/// gives the caller no further access.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let is_reserved = match address.octets() {
        // "This network" and unspecified; private; loopback.
        [0 | 10 | 127, ..] => true,
        // Shared by carriers (CGNAT, 100.64/10).
        [100, second, ..] => second & 0xc0 == 64,
        // Link-local, where clouds serve their metadata.
        [169, 254, ..] => true,
        // Private, 172.16/12.
        [172, second, ..] => second & 0xf0 == 16,
        // Protocol assignments, documentation, the old 6to4 relays, AS112, private, AMT.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [192, 31, 196, _] | [192, 168, ..] => true,
        [192, 52, 193, _] | [192, 175, 48, _] => true,
        // Azure's host service. The address is allocated to Microsoft as a public one, but every machine
        // in Azure reaches the platform behind it: DNS, health probes and the guest agent's settings.
        [168, 63, 129, 16] => true,
        // IBM Cloud's services for its own machines: infrastructure (161.26/16) and endpoints (166.8/14).
        // They too are public by allocation and answer inside of that cloud only.
        [161, 26, ..] => true,
        [166, second, ..] => second & 0xfc == 8,
        // Benchmarks (198.18/15), documentation.
        [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => true,
        // Multicast (224/4), reserved (240/4), broadcast.
        [224..=255, ..] => true,
        _ => false,
    };
    !is_reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = embedded_ipv4(address) {
        return is_public_v4(inner);
    }
    match address.segments() {
        // ISATAP (RFC 5214, 6.1): a router of the prefix unpacks packets for the IPv4 address in the
        // interface identifier, so that address must be public as well.
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] if !is_public_v4(v4(high, low)) => false,
        // Teredo (2001::/32) hides an address behind a xor and a server we did not choose; with it
        // go the other protocol assignments (2001::/23: ORCHID, benchmarks and more).
        [0x2001, second, ..] if second < 0x200 => false,
        // Documentation, old and new.
        [0x2001, 0xdb8, ..] => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // Direct delegation AS112.
        [0x2620, 0x4f, 0x8000, ..] => false,
        // The allocated space. Outside of it are loopback, ULA, link-local, site-local, multicast, segment routing,
        // discard-only and unassigned ranges.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    let [a, b] = high.to_be_bytes();
    let [c, d] = low.to_be_bytes();
    Ipv4Addr::new(a, b, c, d)
}

/// Returns the IPv4 address that packets to this address are finally sent to.
fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high, low| Some(v4(high, low));
    match address.segments() {
        // Mapped (::ffff:0:0/96), and compatible (::/96), of which :: and ::1 are checked as 0.0.0.0 and 0.0.0.1 and so
        // rejected too.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => from(high, low),
        // Translated (::ffff:0:0:0/96).
        [0, 0, 0, 0, 0xffff, 0, high, low] => from(high, low),
        // NAT64 with its well-known prefix. The local-use prefix (64:ff9b:1::/48) is outside of 2000::/3.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => from(high, low),
        // 6to4.
        [0x2002, high, low, ..] => from(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::is_public;

    #[test]
    fn public_addresses_are_allowed() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.1",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2400::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn reserved_addresses_are_rejected() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.31.196.1",
            "192.52.193.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.175.48.1",
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
            "::2",
            "::127.0.0.1",
            "::10.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:4136:e378::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:a9fe:a9fe::",
            "2620:4f:8000::1",
            "3fff::1",
            "3fff:fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "ffff::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    /// Addresses at which clouds and container platforms serve their own machines, in every IPv6 notation.
    #[test]
    fn platform_services_are_rejected_in_every_notation() {
        let services = [
            (
                "AWS, Google, Azure, Oracle, IBM: instance metadata",
                "169.254.169.254",
            ),
            ("AWS: credentials of a container", "169.254.170.2"),
            ("AWS: credentials of a pod", "169.254.170.23"),
            ("AWS: time service", "169.254.169.123"),
            ("Tencent: instance metadata", "169.254.0.23"),
            ("Azure: host service", "168.63.129.16"),
            ("Alibaba: instance metadata", "100.100.100.200"),
            ("Oracle: instance metadata", "192.0.0.192"),
            ("IBM: infrastructure services", "161.26.0.10"),
            ("IBM: service endpoints", "166.8.0.1"),
            ("IBM: service endpoints, the last one", "166.11.255.255"),
        ];
        for (service, address) in services {
            let v4: std::net::Ipv4Addr = address.parse().unwrap();
            let [a, b, c, d] = v4.octets();
            let hex = format!("{a:02x}{b:02x}:{c:02x}{d:02x}");
            for written in [
                address.to_owned(),
                format!("::ffff:{address}"),
                format!("::{address}"),
                format!("::ffff:0:{address}"),
                format!("64:ff9b::{address}"),
                format!("64:ff9b:1::{address}"),
                format!("64:ff9b:1:{hex}::"),
                format!("2002:{hex}::1"),
                format!("2001:0:{hex}::1"),
                format!("2a00:1450::5efe:{address}"),
                format!("2a00:1450::200:5efe:{address}"),
                format!("fe80::5efe:{address}"),
            ] {
                let parsed = written.parse();
                let parsed = parsed.unwrap_or_else(|error| panic!("{written}: {error}"));
                assert!(!is_public(parsed), "{service}: {written}");
            }
        }
        for address in [
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fe80::a9fe:a9fe",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn addresses_next_to_platform_services_are_public() {
        for address in [
            "168.63.129.15",
            "168.63.129.17",
            "161.25.255.255",
            "161.27.0.0",
            "166.7.255.255",
            "166.12.0.0",
            "2a00:1450::5efe:8.8.8.8",
            "2a00:1450::5eff:10.0.0.1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        assert!(!is_public("fe80::5efe:8.8.8.8".parse().unwrap()));
    }
}
