//! Which fields the constructors set.

use super::*;

#[test]
fn a_way_in_is_an_address_or_a_name() {
    let ip = Ingress::ip("203.0.113.7").with_mode(IpMode::Proxy);
    assert_eq!((ip.ip.as_deref(), ip.hostname), (Some("203.0.113.7"), None));
    let name = Ingress::hostname("lb.example");
    assert_eq!(
        (name.ip, name.hostname.as_deref(), name.ip_mode),
        (None, Some("lb.example"), None)
    );
    let status = LoadBalancerStatus::new([Ingress::ip("::1"), Ingress::hostname("a.example")]);
    assert_eq!(status.ingress.len(), 2);
}

#[test]
fn an_address_has_the_type_that_its_constructor_says() {
    let table = [
        (Address::hostname("a"), AddressType::Hostname),
        (Address::internal("10.0.0.1"), AddressType::InternalIp),
        (Address::external("203.0.113.1"), AddressType::ExternalIp),
    ];
    for (address, expected) in table {
        assert_eq!(address.address_type, expected, "{address:?}");
    }
}

#[test]
fn a_port_works_unless_an_error_says_otherwise() {
    let well = PortStatus::new(443, Protocol::Tcp);
    assert_eq!((well.port, well.protocol), (443, Protocol::Tcp));
    assert_eq!(well.error, None);
    let broken = PortStatus::new(53, Protocol::Udp).with_error("NoListener");
    assert_eq!((broken.port, broken.protocol), (53, Protocol::Udp));
    assert_eq!(broken.error.as_deref(), Some("NoListener"));
    let ingress = Ingress::ip("203.0.113.7").with_ports(vec![well, broken]);
    assert_eq!(ingress.ports.len(), 2);
}
