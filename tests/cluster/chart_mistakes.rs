//! Mistakes in the values of `deploy/chart` are refused, and named.

use ccm_tests::helm::Helm;
use serde_json::json;

use crate::chart::chart;

#[test]
fn mistakes_in_values_are_refused_and_named() {
    let table = [
        (
            json!({"replicaCounts": 2}),
            "additional properties 'replicaCounts' not allowed",
        ),
        (
            json!({"image": {"tga": "1"}}),
            "at '/image': additional properties 'tga' not allowed",
        ),
        (
            json!({"kind": "StatefulSet"}),
            "at '/kind': value must be one of 'Deployment', 'DaemonSet'",
        ),
        (
            json!({"replicaCount": "2"}),
            "at '/replicaCount': got string, want integer",
        ),
        (
            json!({"replicaCount": -1}),
            "at '/replicaCount': minimum: got -1, want 0",
        ),
        (json!({"args": {"v": [4]}}), "at '/args/v': got array"),
        (json!({"args": {"--v": 4}}), "--v"),
        (
            json!({"args": ["--v=4"]}),
            "at '/args': got array, want object",
        ),
        (
            json!({"env": [{"name": "A", "value": "b"}]}),
            "at '/env': got array, want object",
        ),
        (
            json!({"env": {"A": "b"}}),
            "at '/env/A': got string, want null or object",
        ),
        (
            json!({"env": {"A": {"value": 1}}}),
            "at '/env/A/value': got number, want string",
        ),
        (
            json!({"env": {"A": {"valueFrm": {}}}}),
            "additional properties 'valueFrm' not allowed",
        ),
        (
            json!({"env": {"A": {"value": "b", "valueFrom": {"x": {}}}}}),
            "at '/env/A': 'oneOf' failed",
        ),
        (
            json!({"env": {"HCLOUD_NETWORK": {"value": "n"}}}),
            "HCLOUD_NETWORK",
        ),
        (
            json!({"networking": {"enabled": "yes"}}),
            "at '/networking/enabled': got string, want boolean",
        ),
        (
            json!({"networking": {"clusterCIDR": "10.244.0.0"}}),
            "at '/networking/clusterCIDR'",
        ),
        (json!({"image": {"digest": "latest"}}), "at '/image/digest'"),
        (
            json!({"additionalTolerations": [{"ky": "x"}]}),
            "additional properties 'ky' not allowed",
        ),
        (
            json!({"nodeSelector": {"a": true}}),
            "at '/nodeSelector/a': got boolean, want string",
        ),
        (json!({"dnsPolicy": "default"}), "at '/dnsPolicy'"),
        (
            json!({"monitoring": {"podMonitor": {"spec": {"selector": {}}}}}),
            "at '/monitoring/podMonitor/spec'",
        ),
        (
            json!({"config": {}}),
            "at '/config': missing property 'providers'",
        ),
        (
            json!({"config": {"providers": [{}]}}),
            "missing property 'name'",
        ),
        (
            json!({"podDisruptionBudget": {"maxUnavailable": 0}}),
            "at '/podDisruptionBudget/maxUnavailable'",
        ),
        (
            json!({"podDisruptionBudget": {"maxUnavailable": "0%"}}),
            "at '/podDisruptionBudget/maxUnavailable'",
        ),
        (json!({"args": null}), "missing property 'args'"),
        // A NetworkPolicy with an empty selector is about every pod of the namespace.
        (
            json!({"selectorLabels": null}),
            "missing property 'selectorLabels'",
        ),
        (
            json!({"providerObjects": {"secrets": "hcloud"}}),
            "at '/providerObjects/secrets': got string, want array",
        ),
        // Values that exclude each other.
        (
            json!({"providerObjects": {"secrets": ["hcloud"]}}),
            "set args.enable-provider-objects",
        ),
        (
            json!({"replicaCount": 2, "args": {"leader-elect": false}}),
            "they would all act",
        ),
        (
            json!({"kind": "DaemonSet", "args": {"leader-elect": "false"}}),
            "they would all act",
        ),
        (
            json!({"args": {"leader-elect": false}, "strategy": {"type": "RollingUpdate"}}),
            "both would act",
        ),
        // Without a type the API server takes RollingUpdate.
        (
            json!({"args": {"leader-elect": false}, "strategy": {"rollingUpdate": {"maxSurge": 0}}}),
            "both would act",
        ),
        (
            json!({"args": {"bind-address": "127.0.0.1"}}),
            "no probe of the kubelet arrives",
        ),
        (
            json!({"networkPolicy": {"create": true}, "networking": {"enabled": true}}),
            "networkPolicy.create has no effect",
        ),
        (
            json!({"networking": {"enabled": true}, "args": {"cluster-cidr": "10.0.0.0/8"}}),
            "remove args.cluster-cidr",
        ),
        (
            json!({"config": {"providers": [{"name": "a"}]}, "args": {"config": "/x"}}),
            "remove one of them",
        ),
        (
            json!({"args": {"secure-port": 0}, "monitoring": {"podMonitor": {"enabled": true, "secure": true}}}),
            "args.secure-port is 0",
        ),
        (
            json!({"args": {"secure-port": 0}, "monitoring": {"serviceMonitor": {"enabled": true}}}),
            "args.secure-port is 0",
        ),
        (
            json!({"hostNetwork": true, "args": {"bind-address": "::1"}, "monitoring": {"serviceMonitor": {"enabled": true}}}),
            "args.bind-address is loopback",
        ),
        (
            json!({"monitoring": {"serviceMonitor": {"enabled": true}, "podMonitor": {"enabled": true}}}),
            "scrape the same pods",
        ),
        (
            json!({"monitoring": {"serviceMonitor": {"spec": {"endpoints": []}}}}),
            "at '/monitoring/serviceMonitor/spec'",
        ),
        (
            json!({"networking": {"enabled": true, "network": null}}),
            "networking.enabled needs",
        ),
        (
            json!({"podLabels": {"app.kubernetes.io/name": "other"}}),
            "differs from selectorLabels",
        ),
        (
            json!({"config": {"providers": [{"name": "hcloud", "source": "configmap://a"}]}}),
            "expected configmap://namespace/name/key",
        ),
        (json!({"configFiles": {"a": "b"}}), "config is empty"),
        (
            json!({"config": {"providers": [{"name": "a"}]}, "configFiles": {"ccm.yaml": ""}}),
            "config makes it",
        ),
        (
            json!({"config": {"providers": [{"name": "hcloud"}, {"name": "aws"}]}}),
            "which has aws: set args.cloud-provider to null",
        ),
    ];
    let helm = Helm::new().unwrap();
    for (values, expected) in table {
        let file = helm.values("mistake.json", &values).unwrap();
        let rendered = helm.template(&chart(), &["--values", file.to_str().unwrap()]);
        let reported = rendered.expect_err(&values.to_string()).to_string();
        assert!(reported.contains(expected), "{values}: {reported}");
    }
}
