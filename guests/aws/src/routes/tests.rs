#![allow(clippy::unwrap_used, reason = "tests")]

use ccm_guest::testing::listed;

use super::*;
use crate::fixtures::{
    INSTANCE, INSTANCES, actions, changes, forms, host, known, node, settings, usual, xml,
};

const NO_TABLE: &str =
    "<DescribeRouteTablesResponse><routeTableSet/></DescribeRouteTablesResponse>";

fn routes() -> Vec<Route> {
    list(&settings(&[]), &[listed(known())]).unwrap()
}

#[test]
fn routes_of_the_cluster_are_told_and_no_others() {
    let host = host(|_, _| None);
    let routes = routes();
    let reported: Vec<_> = routes
        .iter()
        .map(|one| (one.destination_cidr.as_str(), one.target.clone()))
        .collect();
    let expected = [
        ("10.244.1.0/24", Target::Node("known".to_owned())),
        (
            "10.244.2.0/24",
            Target::Other("instance i-appliance1".to_owned()),
        ),
        ("10.244.3.0/24", Target::Blackhole),
        ("fd00:10:244:4::/64", Target::Node("known".to_owned())),
    ];
    assert_eq!(reported, expected);
    assert_eq!(actions(&host), ["DescribeRouteTables"]);
    assert_eq!(
        forms(&host)[0]["Filter.1.Value.1"],
        "kubernetes.io/cluster/prod"
    );
}

#[test]
fn the_table_is_the_one_of_the_configuration_or_the_only_one() {
    let by_id = host(|_, _| None);
    list(&settings(&[("RouteTableID", "rtb-1")]), &[]).unwrap();
    assert_eq!(forms(&by_id)[0]["Filter.1.Value.1"], "rtb-1");
    drop(by_id);
    let none = host(|_, _| Some(xml(200, NO_TABLE)));
    assert!(matches!(
        list(&settings(&[]), &[]),
        Err(Error::Unavailable(_))
    ));
    assert_eq!(forms(&none)[1]["Filter.1.Name"], "tag:KubernetesCluster");
    drop(none);
    let two = "<DescribeRouteTablesResponse><routeTableSet><item><routeTableId>a</routeTableId></item><item><routeTableId>b</routeTableId></item></routeTableSet></DescribeRouteTablesResponse>";
    let _two = host(move |_, _| Some(xml(200, two)));
    assert!(
        matches!(list(&settings(&[]), &[]), Err(Error::Invalid(why)) if why.contains("RouteTableID"))
    );
}

#[test]
fn a_route_is_made_once_and_never_in_place_of_another() {
    let make = |cidr: &str, node: Node| create(&settings(&[]), &CreateRequest::new(node, cidr));
    let new = host(|_, _| None);
    make("10.244.9.0/24", known()).unwrap();
    assert_eq!(
        actions(&new),
        [
            "DescribeInstances",
            "DescribeRouteTables",
            "ModifyInstanceAttribute",
            "CreateRoute"
        ]
    );
    let sent = forms(&new);
    assert_eq!(
        (
            sent[2]["SourceDestCheck.Value"].as_str(),
            sent[3]["InstanceId"].as_str()
        ),
        ("false", INSTANCE)
    );
    drop(new);

    let off = host(|action, _| {
        let off = INSTANCES.replace("<sourceDestCheck>true", "<sourceDestCheck>false");
        (action == "DescribeInstances").then(|| xml(200, off))
    });
    make("10.244.1.0/24", known()).unwrap();
    make("fd00:10:244:5::/64", known()).unwrap();
    assert!(matches!(
        make("10.244.2.0/24", known()),
        Err(Error::Conflict(_))
    ));
    assert!(matches!(
        make("10.244.3.0/24", known()),
        Err(Error::Conflict(_))
    ));
    assert!(matches!(
        make("10.244.9.0/24", node("new", None)),
        Err(Error::Invalid(_))
    ));
    assert_eq!(changes(&off), ["CreateRoute"]);
    assert!(
        forms(&off)
            .iter()
            .any(|form| form.contains_key("DestinationIpv6CidrBlock"))
    );
}

/// The table of `guests/aws/README.md`, and what the older tag adds.
#[test]
fn each_event_costs_what_the_readme_says() {
    let readme = include_str!("../../README.md");
    let listed = {
        let _host = host(|_, _| None);
        routes().remove(0)
    };
    let make = || {
        let request = CreateRequest::new(known(), "10.244.9.0/24");
        drop(create(&settings(&[]), &request).unwrap());
    };
    let remove = || drop(delete(&settings(&[]), &DeleteRequest::new(listed.clone())).unwrap());
    // Requests for an event, where the instance passes on traffic already, and where the table has the older tag.
    let costs = |event: &dyn Fn(), passes_on: bool, has_older_tag: bool| {
        let host = host(move |action, form| match action {
            "DescribeInstances" if passes_on => {
                let on = "<sourceDestCheck>false";
                Some(xml(200, INSTANCES.replace("<sourceDestCheck>true", on)))
            }
            "DescribeRouteTables" if has_older_tag && form["Filter.1.Name"] == "tag-key" => {
                Some(xml(200, NO_TABLE))
            }
            _ => None,
        });
        event();
        actions(&host).len()
    };
    let list = || drop(routes());
    let events: [(&str, &dyn Fn()); 3] = [
        ("routes of a VPC are listed", &list),
        ("a route in a VPC is made", &make),
        ("a route in a VPC is removed", &remove),
    ];
    for (event, happens) in events {
        let usual = costs(happens, false, false);
        let row = match costs(happens, true, false) {
            fewer if fewer == usual => format!("| {event} | {usual} |"),
            fewer => {
                format!("| {event} | {usual}; {fewer} if the instance passes on traffic already |")
            }
        };
        assert!(readme.contains(&row), "guests/aws/README.md lacks\n{row}");
        assert_eq!(costs(happens, false, true), usual + 1, "{event}");
    }
}

#[test]
fn a_route_is_removed_that_still_is_what_was_listed() {
    let host = host(|_, _| None);
    let remove =
        |route: &Route| delete(&settings(&[]), &DeleteRequest::new(route.clone())).unwrap();
    let all = routes();
    remove(&all[0]);
    remove(&all[2]);
    for (is, was) in [(INSTANCE, "i-before"), ("rtb-13ad487a", "rtb-other")] {
        assert!(all[0].id.contains(is), "{}", all[0].id);
        remove(&Route {
            id: all[0].id.replace(is, was),
            ..all[0].clone()
        });
    }
    assert_eq!(changes(&host), ["DeleteRoute", "DeleteRoute"]);
}

#[test]
fn a_route_that_somebody_else_removes_meanwhile_is_removed() {
    for (code, is_removed) in [
        ("InvalidRoute.NotFound", true),
        ("InvalidRouteTableID.NotFound", false),
    ] {
        let refusal = format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>m</Message></Error></Errors></Response>"
        );
        let _host = host(move |action, _| (action == "DeleteRoute").then(|| xml(400, &refusal)));
        let request = DeleteRequest::new(routes().remove(0));
        let removed = delete(&settings(&[]), &request);
        assert_eq!(removed.is_ok(), is_removed, "{code}");
    }
}

#[test]
fn a_route_that_was_turned_elsewhere_is_another_one() {
    let before = {
        let _host = host(|_, _| None);
        routes()
    };
    let _host = host(|action, form| {
        let Ok((status, headers, body)) = usual(action, form) else {
            return None;
        };
        let body = String::from_utf8(body).unwrap();
        let body = body.replace(INSTANCE, "i-appliance2");
        (action == "DescribeRouteTables").then(|| Ok((status, headers, body.into_bytes())))
    });
    let after = routes();
    let is_same = before
        .iter()
        .zip(&after)
        .map(|(before, after)| {
            assert_eq!(before.destination_cidr, after.destination_cidr);
            before.id == after.id
        })
        .collect::<Vec<_>>();
    assert_eq!(is_same, [false, true, true, false]);
}
