//! moto, a simulator of AWS that others make, unmodified and in a process of its own, which boto3, AWS' own client,
//! drives. Asserts nothing about its clients.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::python::Client;

/// moto, served by a script beside this file; its process ends with this value.
pub(crate) struct Moto {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub(crate) url: String,
}

impl Moto {
    pub(crate) fn serve() -> Moto {
        let client = Client::install("aws");
        let mut child = Command::new("python3")
            .arg("-B")
            .arg(crate::checkout().join("tests/foreign/aws/serve.py"))
            .env("PYTHONPATH", client.packages())
            .env("NO_PROXY", "localhost,127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        Moto {
            orders: child.stdin.take(),
            child,
            answers,
            url: serde_json::from_str(&line).expect("moto did not start"),
        }
    }

    fn order(&mut self, order: &Value) -> Value {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("{order}: the client's error is above"))
    }

    /// A call of boto3's.
    pub(crate) fn call(&mut self, service: &str, method: &str, parameters: Value) -> Value {
        self.order(&json!(["call", service, method, parameters]))
    }

    /// A call about EC2, and a part of its answer as text.
    pub(crate) fn ec2(&mut self, method: &str, parameters: Value, part: &str) -> String {
        let answer = self.call("ec2", method, parameters);
        let found = answer.pointer(part).and_then(Value::as_str);
        found
            .unwrap_or_else(|| panic!("{part} in {answer:#}"))
            .to_owned()
    }

    /// A list in the answer of a call about network load balancers.
    pub(crate) fn elb(&mut self, method: &str, parameters: Value, list: &str) -> Vec<Value> {
        let mut answer = self.call("elbv2", method, parameters);
        serde_json::from_value(answer[list].take()).unwrap()
    }

    /// Gives a VPC a way to the internet, which makes all of its subnets public. Returns its main route table.
    pub(crate) fn lead_out(&mut self, vpc: &str) -> String {
        let gateway = "/InternetGateway/InternetGatewayId";
        let gateway = self.ec2("create_internet_gateway", json!({}), gateway);
        let attached = json!({"InternetGatewayId": gateway, "VpcId": vpc});
        self.call("ec2", "attach_internet_gateway", attached);
        let of_vpc = json!({"Filters": [{"Name": "vpc-id", "Values": [vpc]}]});
        let table = self.ec2(
            "describe_route_tables",
            of_vpc,
            "/RouteTables/0/RouteTableId",
        );
        let everywhere = json!({"RouteTableId": table, "DestinationCidrBlock": "0.0.0.0/0", "GatewayId": gateway});
        self.call("ec2", "create_route", everywhere);
        table
    }

    /// The actions since this was called last, without boto3's own.
    pub(crate) fn requests(&mut self) -> Vec<String> {
        serde_json::from_value(self.order(&json!(["requests"]))).unwrap()
    }

    /// Answers the next request with this action by this error, without moto.
    pub(crate) fn refuse(&mut self, action: &str, status: &str, code: &str) {
        let body = format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>m</Message></Error></Errors></Response>"
        );
        self.order(&json!(["refuse", action, status, body]));
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.child.wait();
    }
}
