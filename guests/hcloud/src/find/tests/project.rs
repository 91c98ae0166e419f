//! A Hetzner Cloud project for tests: servers in the vendor's documented form, listed, named and looked up.

use ccm_guest::testing::{Answer, Seen, TestHost, json};
use serde_json::{Value, json as value};

pub(super) const MANIFEST: &str = include_str!("../../../manifest.json");

type Change = Box<dyn FnOnce(&mut Project)>;

/// Servers `1..=n`, named `server-<id>`.
pub(super) struct Project {
    servers: Vec<(u64, String)>,
    change: Option<(usize, Change)>,
}

impl Project {
    pub(super) fn of(servers: u64) -> Project {
        Project {
            servers: (1..=servers)
                .map(|id| (id, format!("server-{id}")))
                .collect(),
            change: None,
        }
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
        self.change = Some((page, Box::new(change)));
        self
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.servers.retain(|(known, _)| *known != id);
    }

    pub(super) fn add(&mut self, id: u64) {
        self.servers.push((id, format!("server-{id}")));
    }

    pub(super) fn serve(mut self) -> TestHost {
        TestHost::new(MANIFEST, move |seen| self.answer(seen))
    }

    fn answer(&mut self, seen: &Seen) -> Answer {
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
        let all: Vec<&(u64, String)> = self
            .servers
            .iter()
            .filter(|(_, known)| name.is_none_or(|name| name == known))
            .collect();
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
