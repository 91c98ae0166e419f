//! A host in any notation of an address. A second check, made with the standard library, judges the addresses that may
//! be dialled without a grant.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ccm_host::egress::address_policy;
use ccm_tests::fuzz::{Target, Verdict};
use url::{Host, Url};

use crate::hold;

pub(crate) const TARGET: Target = Target {
    name: "address",
    words: &[
        "169.254.169.254",
        "a9fe:a9fe",
        "127.0.0.1",
        "7f00:1",
        "10.0.0.1",
        "100.64.",
        "168.63.129.16",
        "::ffff:",
        "::",
        "64:ff9b::",
        "64:ff9b:1::",
        "2002:",
        "2001:0:",
        "fe80::",
        "fc00::",
        "fd00:ec2::254",
        "fec0::",
        "ff02::",
        ":5efe:",
        "0x",
        "0177",
        "%31",
        ".",
        "[",
        "]",
        "255",
        "224.",
    ],
    longest: 256,
    check,
};

fn check(input: &[u8]) -> Result<Verdict, String> {
    let text = String::from_utf8_lossy(input);
    let text = text.trim_end_matches('\n');
    let url = Url::parse(&format!("https://{text}/"));
    let written = match url.as_ref().ok().and_then(Url::host) {
        Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
        Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
        Some(Host::Domain(_)) | None => None,
    };
    // The bytes of an address are an input as well, so that mutants reach all addresses.
    let bytes = match input.len() {
        4 => <[u8; 4]>::try_from(input).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(input).ok().map(IpAddr::from),
        _ => None,
    };
    if let Some(ip) = bytes {
        judge(ip)?;
    }
    match written.or_else(|| text.parse().ok()) {
        Some(ip) => judge(ip),
        None => Ok(Verdict::Refused("no address".to_owned())),
    }
}

fn judge(ip: IpAddr) -> Result<Verdict, String> {
    let all = ["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
    let (unasked, granted) = (
        address_policy::check(ip, &[]),
        address_policy::check(ip, &all),
    );
    let inner = inner(ip);
    let is_any = |is: &dyn Fn(&IpAddr) -> bool| inner.iter().any(is);
    hold(granted.is_err() || !is_any(&is_forbidden), || {
        format!("{ip} may be granted")
    })?;
    hold(
        unasked.is_err() || !is_any(&is_forbidden) && !is_any(&is_local),
        || format!("{ip} needs no grant"),
    )?;
    hold(unasked.is_err() || granted.is_ok(), || {
        format!("a grant takes {ip} away")
    })?;
    hold(unasked.is_err() || !address_policy::is_loopback(ip), || {
        format!("{ip} is this machine")
    })?;
    Ok(match unasked {
        Ok(()) => Verdict::Taken,
        Err(refused) => Verdict::Refused(refused.why.to_owned()),
    })
}

/// Whether no grant may allow this address.
fn is_forbidden(ip: &IpAddr) -> bool {
    let metadata = [
        "168.63.129.16",
        "100.100.100.200",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fd00:42::42",
    ];
    let is_listed = metadata.iter().any(|known| Ok(*ip) == known.parse());
    is_listed
        || ip.is_multicast()
        || match ip {
            IpAddr::V4(v4) => {
                v4.is_link_local()
                    || v4.is_broadcast()
                    || v4.is_documentation()
                    || matches!(v4.octets(), [0 | 240.., ..])
            }
            IpAddr::V6(v6) => {
                let reserved =
                    !matches!(v6.segments()[0], 0x64 | 0x2000..=0x3fff | 0xfc00..=0xfdff);
                reserved && !v6.is_loopback()
            }
        }
}

/// Whether this address needs a grant.
fn is_local(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            v4.is_loopback() || v4.is_private() || matches!(v4.octets(), [100, 64..=127, ..])
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local(),
    }
}

/// The address, and the IPv4 addresses that networks derive from it.
fn inner(ip: IpAddr) -> Vec<IpAddr> {
    let IpAddr::V6(v6) = ip else { return vec![ip] };
    if let Some(mapped) = v6.to_ipv4_mapped() {
        return vec![mapped.into()];
    }
    let mut found = vec![ip];
    let segments = v6.segments();
    let pair =
        |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into();
    let last = pair(segments[6], segments[7]);
    match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, 0, 0, 0, ..] => found.push(last),
        [0x2002, high, low, ..] => found.push(pair(high, low)),
        [0x2001, 0, high, low, ..] => {
            found.push(pair(high, low));
            found.push(pair(!segments[6], !segments[7]));
        }
        [0, 0, 0, 0, 0, 0, ..] if ![Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST].contains(&v6) => {
            found.push(last)
        }
        _ => {}
    }
    if matches!(segments, [_, _, _, _, 0 | 0x200, 0x5efe, ..]) {
        found.push(last);
    }
    found
}
