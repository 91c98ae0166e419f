"""Prepares an account of moto with boto3: a user and a role that may only look. Prints the user's keys and the role.
Or has moto check each signature and each right from now on."""

import json
import sys

import boto3
import requests

task = json.load(sys.stdin)
endpoint = task["endpoint"]
if task["step"] == "check":
    requests.post(endpoint + "/moto-api/reset-auth", data=b"0", timeout=10).raise_for_status()
    print("[]")
    sys.exit()
settings = {
    "endpoint_url": endpoint,
    "region_name": "eu-central-1",
    "aws_access_key_id": "somebody",
    "aws_secret_access_key": "something",
}
iam = boto3.client("iam", **settings)
looks = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["ec2:DescribeInstances", "elasticloadbalancing:DescribeLoadBalancers"],
                "Resource": "*",
            }
        ],
    }
)
iam.create_user(UserName="ccm")
iam.put_user_policy(UserName="ccm", PolicyName="looks", PolicyDocument=looks)
keys = iam.create_access_key(UserName="ccm")["AccessKey"]
trust = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Federated": "*"},
                "Action": "sts:AssumeRoleWithWebIdentity",
            }
        ],
    }
)
role = iam.create_role(RoleName="ccm", AssumeRolePolicyDocument=trust)["Role"]
iam.put_role_policy(RoleName="ccm", PolicyName="looks", PolicyDocument=looks)
answer = {"id": keys["AccessKeyId"], "secret": keys["SecretAccessKey"], "role": role["Arn"]}
print(json.dumps([answer]))
