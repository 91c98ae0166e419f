//! The grants of AWS's variables: the sources in the order of its SDKs, and the region.

use ccm_host::egress::address_policy;
use serde_json::json;

use super::*;

fn aws_manifest() -> Manifest {
    let rules = json!([{ "methods": ["POST"], "path": "/", "access": "read" }]);
    let target = |name: &str, host: &str| json!({ "name": name, "endpoint": format!("https://{host}.{{region}}.amazonaws.com"), "auth": "aws-sigv4", "rules": rules });
    let manifest = json!({
        "contract": "0.1.0", "name": "aws", "version": "1",
        "targets": [target("ec2", "ec2"), target("elb", "elasticloadbalancing")],
    });
    Manifest::parse(manifest.to_string().as_bytes()).unwrap()
}

const KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
    ("AWS_SECRET_ACCESS_KEY", "secret-access-key"),
];
const REGION: (&str, &str) = ("AWS_REGION", "eu-central-1");

fn with<R>(variables: &[(&str, &str)], read: impl FnOnce(&ConfigContext<'_>) -> R) -> R {
    read(&ConfigContext {
        absent: None,
        variable: &|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        },
        file: &|_| Ok("from-a-file".to_owned()),
        secret: &|_| Err("no cluster".to_owned()),
    })
}

fn read_aws(variables: &[(&str, &str)], asked: Option<&Result<String, String>>) -> BuiltinGrants {
    with(variables, |context| {
        grants("aws", &aws_manifest(), &BTreeMap::new(), asked, context)
    })
}

/// The source's name, and the value that identifies it.
fn source(read: &BuiltinGrants) -> String {
    let Credential::AwsSigV4(aws) = &read.grants.targets[0].credential else {
        panic!("not signed")
    };
    match &aws.source {
        AwsSource::Keys(keys) => format!("keys {}", keys.access_key_id),
        AwsSource::WebIdentity(identity) => {
            format!("role {} at {}", identity.role_arn, identity.issuer.endpoint)
        }
        AwsSource::Container {
            issuer,
            authorization,
        } => {
            format!("container {} {}", issuer.endpoint, authorization.is_some())
        }
        AwsSource::InstanceMetadata { issuer } => format!("instance {}", issuer.endpoint),
    }
}

#[test]
fn the_usual_variables_are_enough() {
    let read = read_aws(&[KEYS[0], KEYS[1], REGION], None);
    assert_eq!(read.mistakes, [] as [&str; 0]);
    assert_eq!(read.warnings, [] as [&str; 0]);
    assert_eq!(
        targets(&read),
        [
            (
                "ec2",
                "https://ec2.eu-central-1.amazonaws.com/",
                "aws-sigv4"
            ),
            (
                "elb",
                "https://elasticloadbalancing.eu-central-1.amazonaws.com/",
                "aws-sigv4"
            ),
        ]
    );
    let services = read
        .grants
        .targets
        .iter()
        .map(|target| match &target.credential {
            Credential::AwsSigV4(aws) => (aws.service.as_str(), aws.region.as_str()),
            _ => panic!("not signed"),
        });
    let services: Vec<_> = services.collect();
    assert_eq!(
        services,
        [
            ("ec2", "eu-central-1"),
            ("elasticloadbalancing", "eu-central-1")
        ]
    );
    assert!(aws_manifest().narrow(read.grants).is_ok());
}

/// As in a VPC with interface endpoints.
#[test]
fn endpoints_may_have_private_addresses_and_none_of_a_metadata_service() {
    let role = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        REGION,
    ];
    let read = read_aws(&role, None);
    assert_eq!(read.grants.targets.len(), 2);
    for target in &read.grants.targets {
        let Credential::AwsSigV4(aws) = &target.credential else {
            panic!("not signed")
        };
        let AwsSource::WebIdentity(identity) = &aws.source else {
            panic!("no role")
        };
        for (address, is_allowed) in [
            ("10.0.3.7", true),
            ("172.20.0.1", true),
            ("192.168.0.1", true),
            ("100.64.0.1", true),
            ("fd12::7", true),
            ("127.0.0.1", false),
            ("169.254.169.254", false),
            ("169.254.170.2", false),
            ("169.254.170.23", false),
            ("fd00:ec2::254", false),
            ("fd00:ec2::23", false),
        ] {
            let address = address.parse().unwrap();
            for granted in [&target.addresses, &identity.issuer.addresses] {
                let checked = address_policy::check(address, granted);
                assert_eq!(checked.is_ok(), is_allowed, "{address}");
            }
        }
    }
}

#[test]
fn sources_are_taken_in_the_order_of_the_sdks() {
    let all = [
        KEYS[0],
        KEYS[1],
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        (
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "http://169.254.170.23/v1/credentials",
        ),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/authorization"),
        (
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "/v2/credentials/x",
        ),
        REGION,
    ];
    for (without, expected) in [
        (0, "keys AKIDEXAMPLE"),
        (
            2,
            "role arn:aws:iam::1:role/r at https://sts.eu-central-1.amazonaws.com/",
        ),
        (4, "container http://169.254.170.23/v1/credentials true"),
        (6, "container http://169.254.170.2/v2/credentials/x false"),
        (7, "instance http://169.254.169.254/"),
    ] {
        let read = read_aws(&all[without..], None);
        assert_eq!(source(&read), expected);
        assert_eq!(read.mistakes, [] as [&str; 0]);
    }
}

#[test]
fn the_region_comes_from_a_variable_or_from_the_instance() {
    let asked = Ok("ap-south-1".to_owned());
    for (variables, region) in [
        (
            vec![REGION, ("AWS_DEFAULT_REGION", "us-east-1")],
            "eu-central-1",
        ),
        (vec![("AWS_DEFAULT_REGION", "us-east-1")], "us-east-1"),
        (vec![], "ap-south-1"),
    ] {
        let read = read_aws(&variables, Some(&asked));
        let expected = format!("https://ec2.{region}.amazonaws.com/");
        assert_eq!(read.grants.targets[0].endpoint.as_str(), expected);
        assert_eq!(read.mistakes, [] as [&str; 0]);
    }
    // The module's own key comes first, in a file as well as in a variable.
    let written = BTreeMap::from([("Region".to_owned(), "eu-north-1".to_owned())]);
    let read = with(&[KEYS[0], KEYS[1], REGION], |context| {
        grants("aws", &aws_manifest(), &written, None, context)
    });
    let endpoint = read.grants.targets[0].endpoint.as_str();
    assert_eq!(endpoint, "https://ec2.eu-north-1.amazonaws.com/");
    // A zone counts before both, as in the Go provider.
    let zone = [("Region", "eu-north-1"), ("Zone", "us-west-2-lax-1a")];
    let zone = zone.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let read = with(&[KEYS[0], KEYS[1], REGION], |context| {
        grants("aws", &aws_manifest(), &BTreeMap::from(zone), None, context)
    });
    let endpoint = read.grants.targets[0].endpoint.as_str();
    assert_eq!(endpoint, "https://ec2.us-west-2.amazonaws.com/");
    for (region, domain) in [
        ("us-gov-west-1", "amazonaws.com"),
        ("cn-north-1", "amazonaws.com.cn"),
        ("eusc-de-east-1", "amazonaws.eu"),
    ] {
        let read = read_aws(&[("AWS_REGION", region)], None);
        let endpoint = read.grants.targets[0].endpoint.as_str();
        assert_eq!(endpoint, format!("https://ec2.{region}.{domain}/"));
    }
}

/// Isolated partitions have domains of their own.
#[test]
fn endpoints_of_an_isolated_region_have_to_be_named() {
    let of_variables = |more: &[(&str, &str)]| {
        let role = [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
            ("AWS_ROLE_ARN", "arn:aws-iso:iam::1:role/r"),
        ];
        let variables = [more, &role].concat();
        read_aws(&variables, None).mistakes
    };
    let named = [
        ("AWS_ENDPOINT_URL_EC2", "https://ec2.example.com"),
        (
            "AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2",
            "https://elb.example.com",
        ),
        ("AWS_ENDPOINT_URL_STS", "https://sts.example.com"),
    ];
    for region in ["us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1"] {
        let region = ("AWS_REGION", region);
        assert_eq!(
            of_variables(&[&[region][..], &named[..]].concat()),
            [""; 0],
            "{region:?}"
        );
        for lacking in 0..named.len() {
            let mut some = named.to_vec();
            some.remove(lacking);
            let mistakes = of_variables(&[&[region][..], &some[..]].concat());
            assert_eq!(mistakes.len(), 1, "{mistakes:?}");
            for (name, _) in named {
                assert!(mistakes[0].contains(name), "{mistakes:?}");
            }
        }
    }
}

#[test]
fn nobody_is_asked_for_the_region_where_a_variable_names_it_or_forbids_it() {
    let config = ProviderConfig::unwritten("aws");
    let asked = |config: &ProviderConfig, variables: &[(&str, &str)]| {
        let issuer = with(variables, |context| region_issuer(config, context));
        issuer.map(|issuer| issuer.endpoint.to_string())
    };
    let usual = Some("http://169.254.169.254/".to_owned());
    assert_eq!(asked(&config, &[]), usual);
    let v6 = [("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6")];
    assert_eq!(
        asked(&config, &v6).as_deref(),
        Some("http://[fd00:ec2::254]/")
    );
    assert_eq!(asked(&config, &[REGION]), None);
    assert_eq!(
        asked(&config, &[("AWS_EC2_METADATA_DISABLED", "true")]),
        None
    );
    assert_eq!(asked(&ProviderConfig::unwritten("hcloud"), &[]), None);
    for (key, value) in [("Region", "eu-north-1"), ("Zone", "eu-north-1a")] {
        let named = ProviderConfig {
            values: BTreeMap::from([(key.to_owned(), value.to_owned())]),
            ..config.clone()
        };
        assert_eq!(asked(&named, &[]), None, "{key}");
    }
    let granted = ProviderConfig {
        grants: Some(Grants::default()),
        ..config
    };
    assert_eq!(asked(&granted, &[]), None);
}

#[test]
fn nobody_is_asked_for_the_instance_where_a_setting_names_the_cluster() {
    let asked = |config: &ProviderConfig, variables: &[(&str, &str)]| {
        let issuer = with(variables, |context| instance_issuer(config, context));
        issuer.map(|issuer| issuer.endpoint.to_string())
    };
    let config = ProviderConfig::unwritten("aws");
    let usual = Some("http://169.254.169.254/".to_owned());
    for (variables, expected) in [
        (&[][..], &usual),
        (&[REGION, KEYS[0], KEYS[1]], &usual),
        (&[("KubernetesClusterID", " ")], &usual),
        (&[("KubernetesClusterID", "prod")], &None),
        (&[("KubernetesClusterTag", "prod")], &None),
        (&[("InstanceID", "i-0abc123")], &None),
        (&[("AWS_EC2_METADATA_DISABLED", "true")], &None),
    ] {
        assert_eq!(asked(&config, variables), *expected, "{variables:?}");
    }
    let values = BTreeMap::from([("KubernetesClusterID".to_owned(), "prod".to_owned())]);
    let named = ProviderConfig {
        values,
        ..config.clone()
    };
    assert_eq!(asked(&named, &[]), None);
    let granted = ProviderConfig {
        grants: Some(Grants::default()),
        ..config
    };
    assert_eq!(asked(&granted, &[]), None);
    assert_eq!(asked(&ProviderConfig::unwritten("hcloud"), &[]), None);
}

#[test]
fn the_module_is_told_the_instance_or_a_person_why_not() {
    let mut values = BTreeMap::new();
    assert_eq!(add_instance(&mut values, None), None);
    let why = "http://169.254.169.254/: no answer in 3s";
    let warning = add_instance(&mut values, Some(&Err(why.to_owned()))).unwrap();
    assert!(
        warning.starts_with("KubernetesClusterID is not set, and "),
        "{warning}"
    );
    assert!(warning.ends_with(why), "{warning}");
    assert_eq!(values, BTreeMap::new());

    let id = Ok("i-0abc123".to_owned());
    assert_eq!(add_instance(&mut values, Some(&id)), None);
    assert_eq!(values.values().collect::<Vec<_>>(), ["i-0abc123"]);
    let manifest = manifest_of("aws");
    for key in values.keys() {
        assert!(manifest.config.iter().any(|one| one.key == *key), "{key}");
    }
}

#[test]
fn every_mistake_is_told_once() {
    let disabled = ("AWS_EC2_METADATA_DISABLED", "true");
    for (variables, asked, expected) in [
        (vec![disabled, REGION], None, vec!["no keys of AWS"]),
        (
            vec![KEYS[0]],
            Some(Err("http://169.254.169.254/: no answer".to_owned())),
            vec![
                "AWS_REGION is not set, and the instance does not tell it: http://169.254.169.254/: no answer",
                "neither AWS_SECRET_ACCESS_KEY nor AWS_SECRET_ACCESS_KEY_FILE is set",
            ],
        ),
        (
            vec![KEYS[0], KEYS[1], ("AWS_REGION", "a.b/c")],
            None,
            vec!["AWS_REGION \"a.b/c\""],
        ),
        (
            vec![("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"), REGION],
            None,
            vec!["AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not"],
        ),
        (
            vec![
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://10.0.0.1/x"),
                REGION,
            ],
            None,
            vec!["AWS_CONTAINER_CREDENTIALS_FULL_URI: "],
        ),
    ] {
        let read = read_aws(&variables, asked.as_ref());
        assert_eq!(read.mistakes.len(), expected.len(), "{:?}", read.mistakes);
        for (mistake, expected) in read.mistakes.iter().zip(expected) {
            assert!(mistake.starts_with(expected), "{mistake}");
        }
        assert!(
            aws_manifest().narrow(read.grants).is_ok(),
            "the module can be asked"
        );
    }
}

#[test]
fn endpoints_are_replaced_one_by_one_or_together() {
    let one = (
        "AWS_ENDPOINT_URL_EC2",
        "https://vpce-1.ec2.eu-central-1.vpce.amazonaws.com",
    );
    let any = ("AWS_ENDPOINT_URL", "http://127.0.0.1:5000");
    let read = read_aws(&[KEYS[0], KEYS[1], REGION, one, any], None);
    let found: Vec<_> = targets(&read)
        .iter()
        .map(|(_, url, _)| (*url).to_owned())
        .collect();
    assert_eq!(found, [format!("{}/", one.1), format!("{}/", any.1)]);
}

#[test]
fn variables_of_the_sdks_without_effect_are_told_with_those_that_have_one() {
    for (variable, value, instead) in [
        (
            "AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING",
            "https://elb.example.com",
            "AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2",
        ),
        ("AWS_CA_BUNDLE", "/ca.pem", "SSL_CERT_FILE"),
    ] {
        let read = read_aws(&[KEYS[0], KEYS[1], REGION, (variable, value)], None);
        let [warning] = read.warnings.as_slice() else {
            panic!("{:?}", read.warnings)
        };
        let begin = format!("without effect, because {instead} ");
        assert!(warning.starts_with(&begin), "{warning}");
        assert!(warning.ends_with(&format!(": {variable}")), "{warning}");
    }
}

#[test]
fn keys_may_be_in_files_whose_rotation_is_noticed() {
    let variables = [
        ("AWS_ACCESS_KEY_ID_FILE", "/id"),
        ("AWS_SECRET_ACCESS_KEY_FILE", "/secret"),
        REGION,
    ];
    assert_eq!(source(&read_aws(&variables, None)), "keys from-a-file");
    let config = ProviderConfig::unwritten("aws");
    let secrets = with(&variables, |context| ambient(&config, context));
    assert_eq!(secrets.len(), 2);
}
