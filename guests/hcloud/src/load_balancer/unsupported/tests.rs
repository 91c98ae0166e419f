use super::*;
use crate::load_balancer::fixtures::service;

#[test]
fn what_has_no_effect_is_said_and_nothing_else() {
    let mut web = service(&[]);
    web.source_ranges = vec![ANY_SOURCE.to_owned()];
    web.ip_families = vec![IpFamily::Ipv4, IpFamily::Ipv6];
    assert_eq!(events(&web).count(), 0);
    web.source_ranges = vec!["10.0.0.0/8".to_owned(), "192.0.2.0/24".to_owned()];
    web.requested_ip = Some("192.0.2.9".to_owned());
    web.session_affinity_seconds = Some(10_800);
    web.ip_families = vec![IpFamily::Ipv6];
    let reported: Vec<Event> = events(&web).collect();
    let expected = [
        "open to everybody, not only to 10.0.0.0/8, 192.0.2.0/24",
        "loadBalancerIP 192.0.2.9 of service web",
        "sessionAffinity of service web",
        "service web, which has IPv6 alone, gets no traffic",
    ];
    assert_eq!(reported.len(), expected.len());
    for (event, part) in reported.iter().zip(expected) {
        assert!(event.message.contains(part), "{event:?}");
        assert_eq!(event.reason, REASON);
    }
}
