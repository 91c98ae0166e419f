//! A Hetzner Cloud project for tests: servers in the vendor's documented form, listed, named and looked up.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::rc::Rc;

use ccm_guest::testing::{Answer, Seen, TestHost, json};
use serde_json::{Value, json as value};

pub(super) const MANIFEST: &str = include_str!("../../../manifest.json");

type Change = Box<dyn FnOnce(&mut Project)>;

/// Servers `1..=n`, named `server-<id>`.
pub(super) struct Project {
    servers: Vec<(u64, String)>,
    change: Option<(usize, Change)>,
    /// Numbers and names of dedicated servers.
    dedicated: Vec<(u64, String)>,
    power: &'static str,
    /// Dedicated servers that exist and that the list lacks.
    unlisted: Vec<(u64, String)>,
    /// Robot's answer to every request, if set.
    refusal: Option<Answer>,
}

impl Project {
    pub(super) fn of(servers: u64) -> Project {
        Project {
            servers: (1..=servers)
                .map(|id| (id, format!("server-{id}")))
                .collect(),
            change: None,
            dedicated: Vec::new(),
            power: "running",
            unlisted: Vec::new(),
            refusal: None,
        }
    }

    /// A project with these dedicated servers.
    pub(super) fn dedicated(mut self, servers: &[(u64, &str)]) -> Project {
        let servers = servers
            .iter()
            .map(|(number, name)| (*number, (*name).to_owned()));
        self.dedicated = servers.collect();
        self
    }

    /// Ends the list before its second half.
    pub(super) fn half_listed(mut self) -> Project {
        self.unlisted = self.dedicated.split_off(self.dedicated.len() / 2);
        self
    }

    /// Sets the operating status of all dedicated servers.
    pub(super) fn power(mut self, status: &'static str) -> Project {
        self.power = status;
        self
    }

    /// Sets Robot's answer to every request.
    pub(super) fn robot_answers(mut self, answer: Answer) -> Project {
        self.refusal = Some(answer);
        self
    }

    pub(super) fn without(mut self, id: u64) -> Project {
        self.remove(id);
        self
    }

    pub(super) fn named(mut self, id: u64, name: &str) -> Project {
        self.remove(id);
        self.servers.push((id, name.to_owned()));
        self
    }

    /// Changes the project just before page `page` of the list is served for the first time.
    pub(super) fn then_before_page(
        mut self,
        page: usize,
        change: impl FnOnce(&mut Project) + 'static,
    ) -> Project {
        self.before_page(page, change);
        self
    }

    /// As [`Project::then_before_page`], for the next list.
    pub(super) fn before_page(&mut self, page: usize, change: impl FnOnce(&mut Project) + 'static) {
        self.change = Some((page, Box::new(change)));
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.servers.retain(|(known, _)| *known != id);
    }

    pub(super) fn add(&mut self, id: u64) {
        self.servers.push((id, format!("server-{id}")));
    }

    pub(super) fn serve(self) -> TestHost {
        self.serve_changing().0
    }

    /// Also gives a handle, to change the project while it is served.
    pub(super) fn serve_changing(self) -> (TestHost, Rc<RefCell<Project>>) {
        let project = Rc::new(RefCell::new(self));
        let served = Rc::clone(&project);
        let host = TestHost::new(MANIFEST, move |seen| served.borrow_mut().answer(seen));
        (host, project)
    }

    pub(super) fn robot_recovers(&mut self) {
        self.refusal = None;
    }

    pub(super) fn robot_fails(&mut self, answer: Answer) {
        self.refusal = Some(answer);
    }

    pub(super) fn rename_dedicated(&mut self, number: u64, name: &str) {
        for (known, old) in &mut self.dedicated {
            if *known == number {
                *old = name.to_owned();
            }
        }
    }

    fn robot(&self, seen: &Seen) -> Answer {
        if let Some(answer) = &self.refusal {
            return answer.clone();
        }
        let not_found = include_str!("../../../fixtures/robot-error-server-not-found.json");
        if seen.path == "/server" {
            let servers: Vec<Value> = self.dedicated.iter().map(dedicated_json).collect();
            return json(200, &value!(servers).to_string());
        }
        let (page, number) = seen.path[1..].split_once('/').unwrap();
        let number: u64 = number.parse().unwrap();
        let mut all = self.dedicated.iter().chain(&self.unlisted);
        let Some(server) = all.find(|(known, _)| *known == number) else {
            return json(404, not_found);
        };
        if page == "server" {
            return json(200, &dedicated_json(server).to_string());
        }
        let mut reset: Value =
            serde_json::from_str(include_str!("../../../fixtures/robot-reset.json")).unwrap();
        reset["reset"]["server_number"] = value!(number);
        reset["reset"]["operating_status"] = value!(self.power);
        json(200, &reset.to_string())
    }

    pub(super) fn answer(&mut self, seen: &Seen) -> Answer {
        if seen.target == "robot" {
            return self.robot(seen);
        }
        if seen.path_only() == "/servers" {
            return self.list(seen);
        }
        let by_id = seen
            .path
            .strip_prefix("/servers/")
            .and_then(|id| id.parse::<u64>().ok());
        let server = by_id.and_then(|id| self.servers.iter().find(|(known, _)| *known == id));
        match (server, seen.path.as_str()) {
            (Some((id, name)), _) => {
                json(200, &value!({"server": server_json(*id, name)}).to_string())
            }
            (None, "/networks/4711") => json(200, include_str!("../../../fixtures/network.json")),
            (None, "/networks?name=elsewhere") => json(200, r#"{"networks": []}"#),
            _ => json(404, include_str!("../../../fixtures/error-not-found.json")),
        }
    }

    fn list(&mut self, seen: &Seen) -> Answer {
        let number = |key: &str, default: usize| {
            seen.query(key)
                .map_or(default, |text| text.parse().unwrap())
        };
        let (page, per_page) = (number("page", 1), number("per_page", 25).min(50));
        if let Some((_, change)) = self.change.take_if(|(when, _)| *when == page) {
            change(self);
        }
        let name = seen.query("name");
        let mut all: Vec<&(u64, String)> = self
            .servers
            .iter()
            .filter(|(_, known)| name.is_none_or(|name| name == known))
            .collect();
        if seen.query("sort") == Some("id:desc") {
            all.sort_by_key(|(id, _)| Reverse(*id));
        }
        let last = all.len().div_ceil(per_page).max(1);
        let shown: Vec<Value> = all
            .iter()
            .skip((page - 1) * per_page)
            .take(per_page)
            .map(|(id, name)| server_json(*id, name))
            .collect();
        let answer = value!({
            "servers": shown,
            "meta": {"pagination": {
                "page": page,
                "per_page": per_page,
                "previous_page": (page > 1).then(|| page - 1),
                "next_page": (page < last).then_some(page + 1),
                "last_page": last,
                "total_entries": all.len(),
            }},
        });
        json(200, &answer.to_string())
    }
}

fn server_json(id: u64, name: &str) -> Value {
    let mut fixture: Value =
        serde_json::from_str(include_str!("../../../fixtures/server.json")).unwrap();
    let mut server = fixture["server"].take();
    server["id"] = value!(id);
    server["name"] = value!(name);
    server
}

fn dedicated_json((number, name): &(u64, String)) -> Value {
    let mut fixture: Value =
        serde_json::from_str(include_str!("../../../fixtures/robot-servers.json")).unwrap();
    let mut envelope = fixture[0].take();
    envelope["server"]["server_number"] = value!(number);
    envelope["server"]["server_name"] = value!(name);
    envelope
}
