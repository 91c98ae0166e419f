//! The provider of `examples/balancer` reaches the state that a Service wants, whichever answer is lost, and writes
//! nothing twice.

#[path = "../../examples/balancer/main.rs"]
mod example;

use std::cell::RefCell;
use std::rc::Rc;

use ccm_guest::http::FetchError;
use ccm_guest::load_balancer::{
    DeleteRequest, EnsureRequest, Ensured, Found, Progress, Service, UpdateRequest,
};
use ccm_guest::testing::{Answer, Seen, TestHost, json, node, service, status};
use ccm_guest::{Error, Ingress, LoadBalancerStatus, Node};
use example::Balancers;
use serde_json::{Value, json};

const MANIFEST: &str = include_str!("../../examples/balancer/manifest.json");

/// A cloud that shows a new load balancer's address from the third read on.
#[derive(Debug, Default)]
struct Cloud {
    made: Vec<Value>,
    looks: usize,
    /// The method whose next answer is lost after the cloud has acted.
    loses: Option<&'static str>,
}

impl Cloud {
    fn answer(&mut self, seen: &Seen) -> Answer {
        let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        let answer = match seen.method {
            "GET" => {
                self.looks += 1;
                if self.looks >= 3
                    && let Some(made) = self.made.first_mut()
                {
                    made["state"] = "active".into();
                    made["address"] = "203.0.113.7".into();
                }
                json(200, &json!(self.made).to_string())
            }
            "POST" => {
                self.made
                    .push(json!({ "id": "b 1", "state": "creating", "order": body }));
                status(202)
            }
            "PATCH" => {
                let changed = self.made.first_mut().unwrap();
                for (key, value) in body.as_object().unwrap() {
                    changed["order"][key] = value.clone();
                }
                status(204)
            }
            _ => {
                self.made.clear();
                status(204)
            }
        };
        match self.loses.take_if(|method| *method == seen.method) {
            Some(_) => Err(FetchError::TimedOut("lost".to_owned())),
            None => answer,
        }
    }
}

fn serve(cloud: Cloud) -> (TestHost, Rc<RefCell<Cloud>>) {
    let cloud = Rc::new(RefCell::new(cloud));
    let served = Rc::clone(&cloud);
    let host = TestHost::new(MANIFEST, move |seen| served.borrow_mut().answer(seen));
    (host, cloud)
}

fn web() -> Service {
    service("web", &[(80, 30080)])
}

fn workers(names: &[&str]) -> Vec<Node> {
    let worker = |name: &&str| node(name, Some(&format!("balancers://{name}")));
    names.iter().map(worker).collect()
}

/// Calls `ensure` until it is ready, with the hints of its answers or without; returns the number of calls, too.
fn until_ready(host: &TestHost, keeps_hints: bool) -> (LoadBalancerStatus, usize) {
    let mut hint = None;
    for calls in 1..10 {
        let request = EnsureRequest {
            hint: hint.take(),
            ..EnsureRequest::new(web(), workers(&["one"]))
        };
        match host.ensure(&Balancers, request).map(|reply| reply.ensured) {
            Ok(Ensured::Ready(status)) => return (status, calls),
            Ok(Ensured::Pending(pending)) => hint = pending.hint.filter(|_| keeps_hints),
            Err(failure) if matches!(failure.error, Error::Unavailable(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("it is never ready: {:?}", host.requests())
}

fn writes(host: &TestHost) -> Vec<String> {
    let mut requests = host.requests();
    requests.retain(|line| !line.starts_with("GET "));
    requests
}

#[test]
fn a_load_balancer_is_made_once_whatever_is_lost() {
    for (keeps_hints, loses) in [(true, None), (false, None), (true, Some("POST"))] {
        let (host, cloud) = serve(Cloud {
            loses,
            ..Cloud::default()
        });
        let (status, calls) = until_ready(&host, keeps_hints);
        assert_eq!(
            status,
            LoadBalancerStatus::new([Ingress::ip("203.0.113.7")])
        );
        assert!(calls > 1, "it takes a while");
        assert_eq!(writes(&host), ["POST /balancers"]);
        assert_eq!(cloud.borrow().made.len(), 1);
    }
}

#[test]
fn only_what_differs_is_written() {
    let (host, cloud) = serve(Cloud::default());
    until_ready(&host, true);
    until_ready(&host, true);
    assert_eq!(writes(&host).len(), 1, "nothing has changed");
    let update = |names: &[&str]| {
        let request = UpdateRequest::new(web(), workers(names));
        host.update_targets(&Balancers, request).unwrap().progress
    };
    assert_eq!(update(&["one"]), Progress::Done);
    assert_eq!(writes(&host).len(), 1);
    assert_eq!(update(&["one", "two"]), Progress::Done);
    assert_eq!(writes(&host)[1..], ["PATCH /balancers/b%201"]);
    assert_eq!(
        cloud.borrow().made[0]["order"]["targets"],
        json!(["one", "two"])
    );
    assert_eq!(
        cloud.borrow().made[0]["order"]["ports"],
        json!([{ "port": 80, "to": 30080 }])
    );
}

#[test]
fn a_wrong_annotation_is_the_users_mistake() {
    let (host, _) = serve(Cloud::default());
    let mut service = web();
    service.annotations = vec![("balancer.example.com/tls".to_owned(), "maybe".to_owned())];
    let answer = host.ensure(&Balancers, EnsureRequest::new(service, Vec::new()));
    assert!(
        matches!(
            answer.as_ref().map_err(|failure| &failure.error),
            Err(Error::Invalid(_))
        ),
        "{answer:?}"
    );
    assert_eq!(host.requests().len(), 0);
}

#[test]
fn a_load_balancer_of_another_service_is_not_ours() {
    let (host, cloud) = serve(Cloud::default());
    until_ready(&host, true);
    cloud.borrow_mut().made[0]["order"]["owner"] = "another".into();
    let delete = host.delete(&Balancers, DeleteRequest::new(web()));
    assert!(
        matches!(
            delete.as_ref().map_err(|failure| &failure.error),
            Err(Error::Unavailable(_))
        ),
        "{delete:?}"
    );
    assert_eq!(cloud.borrow().made.len(), 1);
}

#[test]
fn it_is_gone_when_the_cloud_lists_it_no_more() {
    let (host, _) = serve(Cloud::default());
    until_ready(&host, true);
    assert!(matches!(host.get(&Balancers, web()), Ok(Found::Present(_))));
    let delete = || host.delete(&Balancers, DeleteRequest::new(web())).unwrap();
    assert!(matches!(delete().progress, Progress::Pending(_)));
    assert_eq!(delete().progress, Progress::Done);
    assert_eq!(host.get(&Balancers, web()), Ok(Found::Absent));
    assert_eq!(writes(&host)[1..], ["DELETE /balancers/b%201"]);
    let update = UpdateRequest::new(web(), workers(&["one"]));
    let update = host.update_targets(&Balancers, update);
    assert!(
        matches!(
            update.as_ref().map_err(|failure| &failure.error),
            Err(Error::Unavailable(_))
        ),
        "{update:?}"
    );
}
