//! Servers that are reached without a proxy, as Go reads `NO_PROXY` (golang.org/x/net/http/httpproxy). Resolves no
//! names.

use std::net::IpAddr;

use ipnet::IpNet;

/// The servers that are reached without a proxy. This machine is always one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy(Vec<String>);

impl NoProxy {
    /// Reads a list with commas: `*`, networks, addresses and domains; an address or a domain may have a port, and then
    /// names only that port. `example.com` includes its subdomains; `.example.com` and `*.example.com` are the
    /// subdomains only. As in Go, any other entry is ignored.
    pub fn parse(text: &str) -> NoProxy {
        let entries = text.split(',').map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty());
        NoProxy(entries.map(str::to_ascii_lowercase).collect())
    }

    /// Whether this server is reached without a proxy. `host` is a name or an IP address, with or without brackets.
    pub fn excepts(&self, host: &str, port: u16) -> bool {
        let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
        let address: Option<IpAddr> = host.parse().ok();
        if host == "localhost"
            || address.is_some_and(|address| address.to_canonical().is_loopback())
        {
            return true;
        }
        let mut entries = self.0.iter();
        entries.any(|entry| names(entry, &host, address, port))
    }
}

fn names(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Ok(network) = entry.parse::<IpNet>() {
        return address.is_some_and(|address| network.contains(&address.to_canonical()));
    }
    let (name, only) = match entry.rsplit_once(':') {
        // Several colons without brackets are an IPv6 address.
        Some((name, only)) if !name.contains(':') || name.ends_with(']') => (name, Some(only)),
        _ => (entry, None),
    };
    let only = only.filter(|only| !only.is_empty());
    if only.is_some_and(|only| only != port.to_string()) {
        return false;
    }
    let name = name.trim_matches(['[', ']']);
    if let Ok(one) = name.parse::<IpAddr>() {
        return address.is_some_and(|address| address.to_canonical() == one.to_canonical());
    }
    let subdomains = name.strip_prefix('*').filter(|rest| rest.starts_with('.'));
    let suffix = subdomains.unwrap_or(name);
    match suffix.strip_prefix('.') {
        _ if suffix.is_empty() || address.is_some() => false,
        Some(_) => host.ends_with(suffix),
        None => {
            let before = host.strip_suffix(suffix);
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of golang.org/x/net/http/httpproxy in this project's words.
    #[test]
    fn no_proxy_is_read_as_go_reads_it() {
        for (exceptions, host, port, expected) in [
            ("", "api.test", 443, false),
            ("*", "api.test", 443, true),
            ("other, *", "api.test", 443, true),
            ("api.test", "api.test", 6443, true),
            ("API.test", "api.TEST", 6443, true),
            ("api.test:6443", "api.test", 6443, true),
            ("api.test:443", "api.test", 443, true),
            ("api.test:443", "api.test", 6443, false),
            ("test", "api.test", 443, true),
            (".test", "api.test", 443, true),
            ("*.test", "api.test", 443, true),
            ("*.test:6443", "api.test", 6443, true),
            // A star means something alone or before a dot.
            ("*api.test", "api.test", 443, false),
            ("*test", "api.test", 443, false),
            // A part of an address is no domain.
            ("0.0.1", "10.0.0.1", 443, false),
            (".1", "10.0.0.1", 443, false),
            ("api.test:", "api.test", 443, true),
            ("10.0.0.1:", "10.0.0.1", 443, true),
            (".api.test", "api.test", 443, false),
            ("*.api.test", "api.test", 443, false),
            ("i.test", "api.test", 443, false),
            ("a,, ,api.test,", "api.test", 443, true),
            (" , ,", "api.test", 443, false),
            ("10.0.0.0/8", "10.1.2.3", 6443, true),
            ("10.0.0.0/8", "11.1.2.3", 6443, false),
            ("10.1.2.3", "10.1.2.3", 6443, true),
            ("10.1.2.3:443", "10.1.2.3", 6443, false),
            ("10.1.2.3:6443", "10.1.2.3", 6443, true),
            ("fd00::/8", "[fd00::1]", 6443, true),
            ("fd00::1", "[fd00::1]", 6443, true),
            ("[fd00::1]:6443", "[fd00::1]", 6443, true),
            ("[fd00::1]:443", "[fd00::1]", 6443, false),
            ("10.96.0.1", "api.test", 443, false),
            (":443", "api.test", 443, false),
            ("", "localhost", 443, true),
            ("", "127.0.0.9", 443, true),
            ("", "[::1]", 443, true),
            ("", "[::ffff:127.0.0.1]", 443, true),
            ("", "sub.localhost", 443, false),
        ] {
            let found = NoProxy::parse(exceptions).excepts(host, port);
            assert_eq!(found, expected, "{exceptions:?} {host} {port}");
        }
    }
}
