//! Rules about security groups that others made.

use super::super::own_groups::IN_USE;
use super::*;

/// A load balancer whose security group was made by somebody else, and groups of the VPC that let that group in: the
/// nodes', which has the cluster's tag, and one without.
fn with_their_group(more: &'static str, more_groups: &'static str) -> TestHost {
    let classic = CLASSIC.replace("sg-own", "sg-theirs").replace(
        "    </LoadBalancerDescriptions>",
        &format!("{more}</LoadBalancerDescriptions>"),
    );
    let lets_in = "<item><ipProtocol>-1</ipProtocol><groups><item><groupId>sg-theirs</groupId></item></groups></item></ipPermissions>";
    let groups = GROUPS
        .replacen("</ipPermissions>", lets_in, 1)
        .replace("<ipPermissions/>", &format!("<ipPermissions>{lets_in}"))
        .replace(
            "</securityGroupInfo>",
            &format!("{more_groups}</securityGroupInfo>"),
        );
    host(
        move |action, form| match (action, form["Version"].as_str()) {
            ("DescribeLoadBalancers", "2012-06-01") => Some(xml(200, &classic)),
            ("DescribeSecurityGroups", _) => Some(xml(200, &groups)),
            _ => existing(action, form),
        },
    )
}

/// Each rule about a group that was revoked: the group that had it, and the one that it let in.
fn revoked(host: &TestHost) -> Vec<(String, String)> {
    let sent = forms(host).into_iter();
    let revokes = sent.filter(|form| form["Action"] == "RevokeSecurityGroupIngress");
    let rule = |form: Form| {
        let source = form.get("IpPermissions.1.Groups.1.GroupId")?.clone();
        Some((form["GroupId"].clone(), source))
    };
    revokes.filter_map(rule).collect()
}

/// Rules of groups without the cluster's tag were made by others for others.
#[test]
fn a_group_of_others_is_shut_out_of_the_clusters_groups_alone() {
    let nodes = vec![("sg-e4076980".to_owned(), "sg-theirs".to_owned())];
    let named = web(&[("security-groups", "sg-theirs")]);
    let deleted = with_their_group("", "");
    deletion::delete(&settings(&[]), &DeleteRequest::new(named)).unwrap();
    assert_eq!(revoked(&deleted)[..1], nodes);
    assert!(
        !revoked(&deleted)
            .iter()
            .any(|(group, _)| group == "sg-other")
    );
    drop(deleted);
    let replaced = with_their_group("", "");
    ensure(web(&[("security-groups", "sg-b")])).unwrap();
    assert_eq!(revoked(&replaced), nodes);
    drop(replaced);
    const OTHER: &str = "<member><LoadBalancerName>aother</LoadBalancerName><DNSName>a</DNSName><SecurityGroups><member>sg-theirs</member></SecurityGroups></member>";
    let shared = with_their_group(OTHER, "");
    ensure(web(&[("security-groups", "sg-b")])).unwrap();
    assert_eq!(revoked(&shared), []);
}

/// Whoever names a group of the cluster takes none of the cluster's own rules about it.
#[test]
fn a_named_group_is_only_let_into_the_nodes_group() {
    // Both have the cluster's tag and let the named group in; one of them is that group.
    const TAGGED: &str = "<item><groupId>sg-control</groupId><groupName>control</groupName><ipPermissions><item><ipProtocol>-1</ipProtocol><groups><item><groupId>sg-theirs</groupId></item></groups></item></ipPermissions><tagSet><item><key>kubernetes.io/cluster/prod</key><value>owned</value></item></tagSet></item><item><groupId>sg-theirs</groupId><groupName>workers</groupName><ipPermissions><item><ipProtocol>-1</ipProtocol><groups><item><groupId>sg-theirs</groupId></item></groups></item></ipPermissions><tagSet><item><key>kubernetes.io/cluster/prod</key><value>owned</value></item></tagSet></item>";
    for (config, annotations) in [
        (&[][..], &[("security-groups", "sg-theirs")][..]),
        (&[("ElbSecurityGroup", "sg-theirs")], &[]),
    ] {
        let there = with_their_group("", TAGGED);
        let nobody = UpdateRequest::new(web(annotations), Vec::new());
        ensure::update_targets(&settings(config), &nobody).unwrap();
        let request = EnsureRequest::new(web(annotations), vec![known()]);
        ensure::ensure(&settings(config), &request).unwrap();
        let leaves = ["DeregisterInstancesFromLoadBalancer"];
        assert_eq!(changes(&there), leaves, "{config:?}");
    }
}

/// An operator may let in fewer ports than all.
#[test]
fn a_narrower_rule_about_the_load_balancers_group_is_neither_widened_nor_removed() {
    let all = "<item>\n          <ipProtocol>-1</ipProtocol>";
    let narrow =
        "<item><ipProtocol>tcp</ipProtocol><fromPort>30080</fromPort><toPort>30443</toPort>";
    let both = "<item><ipProtocol>tcp</ipProtocol><fromPort>30080</fromPort><toPort>30443</toPort><groups><item><groupId>sg-own</groupId></item></groups></item><item><ipProtocol>-1</ipProtocol>";
    assert!(groups().contains(all));
    for rules in [narrow, both] {
        let groups = groups().replace(all, rules);
        let there = host(move |action, form| match action {
            "DescribeSecurityGroups" => Some(xml(200, &groups)),
            _ => existing(action, form),
        });
        ensure(web(&[])).unwrap();
        assert_eq!(changes(&there), [""; 0], "{rules}");
    }
}

/// The fixture's groups, where the load balancer's own one has this tag in place of the cluster's.
fn with_own_tag(tag: &str) -> String {
    let all = groups();
    let cluster = "kubernetes.io/cluster/prod</key><value>owned";
    let (others, own) = all.rsplit_once(cluster).unwrap();
    format!("{others}{tag}{own}")
}

const OLDER_TAG: &str = "KubernetesCluster</key><value>prod";

/// The older tag suffices. Kept or not, the nodes' group no longer lets it in.
#[test]
fn an_own_group_without_the_clusters_tag_is_kept_and_named() {
    for (tag, kept) in [
        (OLDER_TAG, &[][..]),
        ("KubernetesCluster</key><value>test", &["SecurityGroupKept"]),
        ("owner</key><value>me", &["SecurityGroupKept"]),
    ] {
        let groups = with_own_tag(tag);
        let there = host(until_deleted(move |action, form| match action {
            "DescribeSecurityGroups" => Some(xml(200, &groups)),
            _ => existing(action, form),
        }));
        let request = DeleteRequest::new(web(&[]));
        let reply = deletion::delete(&settings(&[]), &request).unwrap();
        let reasons: Vec<&str> = reply.events.iter().map(|one| one.reason.as_str()).collect();
        assert_eq!(reasons, kept, "{tag}");
        let nodes = ("sg-e4076980".to_owned(), "sg-own".to_owned());
        assert_eq!(revoked(&there), [nodes], "{tag}");
        let is_deleted = changes(&there).contains(&"DeleteSecurityGroup".to_owned());
        assert_eq!(is_deleted, kept.is_empty(), "{tag}");
    }
}

/// Without the load balancer and without `VPC`, groups are listed by their tag.
#[test]
fn an_own_group_with_the_older_tag_alone_is_deleted_once_it_is_no_longer_used() {
    let all = with_own_tag(OLDER_TAG);
    let (_, own) = all.rsplit_once("<item><groupId>sg-own<").unwrap();
    let own =
        format!("<DescribeSecurityGroupsResponse><securityGroupInfo><item><groupId>sg-own<{own}");
    let (mut is_gone, mut is_in_use) = (false, true);
    let there = host(move |action, form| {
        is_gone |= action == "DeleteLoadBalancer";
        let filter = form.get("Filter.1.Name").map(String::as_str);
        match (action, form["Version"].as_str(), filter) {
            ("DescribeLoadBalancers", "2012-06-01", _) if is_gone => None,
            ("DescribeSecurityGroups", _, Some("vpc-id")) => Some(xml(200, &all)),
            ("DescribeSecurityGroups", _, Some("group-name")) => Some(xml(200, &own)),
            ("DescribeSecurityGroups", ..) => Some(xml(200, GROUPS)),
            ("DeleteSecurityGroup", ..) => std::mem::take(&mut is_in_use).then(|| xml(400, IN_USE)),
            _ => existing(action, form),
        }
    });
    let delete = || {
        let request = DeleteRequest::new(web(&[]));
        let reply = deletion::delete(&settings(&[]), &request).unwrap();
        reply.progress
    };
    assert!(matches!(delete(), Progress::Pending(_)));
    assert_eq!(delete(), Progress::Done);
    let mut deletions = forms(&there);
    deletions.retain(|form| form["Action"] == "DeleteSecurityGroup");
    assert_eq!(deletions.len(), 2);
    assert_eq!(deletions[1]["GroupId"], "sg-own");
}

/// Whoever names the group of another Service's load balancer, and then does so no more, takes nothing from it.
#[test]
fn the_own_group_of_another_load_balancer_stays() {
    let groups = groups().replace("k8s-elb-auidofweb", "k8s-elb-aother");
    let there = host(move |action, form| match action {
        "DescribeSecurityGroups" => Some(xml(200, &groups)),
        "CreateSecurityGroup" => Some(xml(200, MADE_GROUP)),
        _ => existing(action, form),
    });
    ensure(web(&[])).unwrap();
    let sent = changes(&there);
    assert!(
        !sent.contains(&"DeleteSecurityGroup".to_owned()),
        "{sent:?}"
    );
}

/// The load balancer of another Service comes first in the list, and its own group has the cluster's tag, too.
#[test]
fn a_deletion_touches_nothing_of_another_service() {
    const OTHER: &str = "<LoadBalancerDescriptions><member><LoadBalancerName>aother</LoadBalancerName><DNSName>a</DNSName><SecurityGroups><member>sg-b</member></SecurityGroups></member>";
    const OTHERS_GROUP: &str = "<securityGroupInfo><item><groupId>sg-b</groupId><groupName>k8s-elb-aother</groupName><ipPermissions/><tagSet><item><key>kubernetes.io/cluster/prod</key><value>owned</value></item></tagSet></item>";
    const LETS_IN_OTHER: &str = "<groups><item><groupId>sg-b</groupId></item><item>";
    for (own, deleted) in [("auidofweb", &["auidofweb"][..]), ("athird", &[])] {
        let name = format!("<LoadBalancerName>{own}<");
        let classic = CLASSIC
            .replace("<LoadBalancerName>auidofweb<", &name)
            .replace("<LoadBalancerDescriptions>", OTHER);
        let groups = groups()
            .replace("<securityGroupInfo>", OTHERS_GROUP)
            .replace("<groups><item>", LETS_IN_OTHER);
        let there = host(until_deleted(move |action: &str, form: &Form| {
            match (action, form["Version"].as_str()) {
                ("DescribeLoadBalancers", "2012-06-01") => Some(xml(200, &classic)),
                ("DescribeSecurityGroups", _) => Some(xml(200, &groups)),
                _ => existing(action, form),
            }
        }));
        let found = deletion::get(&web(&[])).unwrap();
        assert_eq!(found == Found::Absent, deleted.is_empty(), "{found:?}");
        deletion::delete(&settings(&[]), &DeleteRequest::new(web(&[]))).unwrap();
        let sent = forms(&there);
        let of = |action: &str, field: &str| -> Vec<String> {
            let sent = sent.iter().filter(|form| form["Action"] == action);
            sent.map(|form| form[field].clone()).collect()
        };
        assert_eq!(of("DeleteLoadBalancer", "LoadBalancerName"), deleted);
        assert_eq!(of("DeleteSecurityGroup", "GroupId"), ["sg-own"]);
        let nodes = [("sg-e4076980".to_owned(), "sg-own".to_owned())];
        assert_eq!(revoked(&there), nodes);
    }
}
