//! Starts the container of a pod of the API server, as a kubelet would: command, variables, volumes, user and file
//! system are as its specification has them; a field that is not supported here ends the test.
//!
//! The container has a root of its own, which holds the program, this machine's libraries and settings, and the mounts;
//! it is the first process of its process namespace, as everywhere. There is no image: the program is the binary under
//! test, under the path that the pod names, or under the image's own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ccm_tests::process::Process;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvVar, EnvVarSource, Pod, PodSpec, Secret, ServiceAccount,
    ServiceAccountTokenProjection, Volume, VolumeProjection,
};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A started container; see [`Kubelet::start`].
pub(crate) struct Running {
    /// The process that made its namespaces, and ends with it.
    pub(crate) process: Process,
    pub(crate) folder: TempDir,
}

/// The output of the container of this folder.
pub(crate) fn log_of(folder: &TempDir) -> String {
    // It may be being written, and end within a character.
    let log = fs::read(folder.path().join("container.log")).unwrap();
    String::from_utf8_lossy(&log).into_owned()
}

impl Running {
    /// Ends the container as a kubelet does, and returns its exit code and its output.
    pub(crate) async fn stop(mut self) -> (Option<i32>, String) {
        self.process.check().unwrap();
        let parent = self.process.id();
        let children = format!("/proc/{parent}/task/{parent}/children");
        let child = fs::read_to_string(children).unwrap();
        let child = Pid::from_raw(child.trim().parse().unwrap()).unwrap();
        kill_process(child, Signal::TERM).unwrap();
        let status = self.process.ended(Duration::from_secs(30)).await.unwrap();
        (status.code(), log_of(&self.folder))
    }
}

/// The kubelet of the only node.
pub(crate) struct Kubelet {
    pub(crate) client: Client,
    /// Port of the API server, for the variables of the Service `kubernetes`.
    pub(crate) port: u16,
    /// The entry point of the image, for containers without `command`.
    pub(crate) entry_point: &'static str,
}

impl Kubelet {
    /// Starts the one container of a pod.
    pub(crate) async fn start(&self, pod: &Pod) -> Running {
        let folder = TempDir::new().unwrap();
        let spec = pod.spec.as_ref().unwrap();
        let [container] = spec.containers.as_slice() else {
            panic!("{} has other than one container", pod.name_any());
        };
        let user = User::of(spec, container);
        let variables = self.variables(pod, container).await;
        let mut volumes = BTreeMap::new();
        for volume in spec.volumes.iter().flatten() {
            let at = folder.path().join("volumes").join(&volume.name);
            fs::create_dir_all(&at).unwrap();
            for (path, bytes) in self.files(pod, volume).await {
                let file = at.join(path);
                fs::write(&file, bytes).unwrap();
                // Only the container's user may read a token.
                chown(&file, user.uid, user.gid).unwrap();
            }
            volumes.insert(volume.name.clone(), at);
        }
        let words = words(container, self.entry_point, &variables);
        let script = script(folder.path(), container, &words, &volumes, &user);
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c"])
            .arg(script)
            .env_clear()
            // Variables that container runtimes set when the image does not.
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .envs(&variables);
        let process = Process::spawn(command, &folder.path().join("container.log")).unwrap();
        Running { process, folder }
    }

    /// The container's variables; those that refer to others come last.
    async fn variables(&self, pod: &Pod, container: &Container) -> BTreeMap<String, String> {
        assert_eq!(container.env_from, None, "not known here");
        let mut variables = BTreeMap::from([
            ("KUBERNETES_SERVICE_HOST".to_owned(), "127.0.0.1".to_owned()),
            ("KUBERNETES_SERVICE_PORT".to_owned(), self.port.to_string()),
        ]);
        for EnvVar {
            name,
            value,
            value_from,
        } in container.env.iter().flatten()
        {
            let value = match value_from {
                None => Some(expanded(value.as_deref().unwrap_or_default(), &variables)),
                Some(source) => self.value(pod, name, source).await,
            };
            if let Some(value) = value {
                variables.insert(name.clone(), value);
            }
        }
        variables
    }

    /// The value that a source refers to; `None` if it is absent and optional.
    async fn value(&self, pod: &Pod, name: &str, source: &EnvVarSource) -> Option<String> {
        let (found, optional) = match source {
            EnvVarSource {
                secret_key_ref: Some(from),
                ..
            } => {
                let secret = self.secret(pod, &from.name).await;
                let value = secret.and_then(|mut data| data.remove(&from.key));
                (
                    value.map(|value| String::from_utf8(value.0).unwrap()),
                    from.optional,
                )
            }
            EnvVarSource {
                config_map_key_ref: Some(from),
                ..
            } => {
                let map = self.config_map(pod, &from.name).await;
                (
                    map.and_then(|mut data| data.remove(&from.key)),
                    from.optional,
                )
            }
            EnvVarSource {
                field_ref: Some(from),
                ..
            } => (Some(field(pod, &from.field_path)), None),
            other => panic!("{name}: {other:?} is not known here"),
        };
        assert!(
            found.is_some() || optional == Some(true),
            "CreateContainerConfigError: {name} refers to what is not there"
        );
        found
    }

    /// The files of a volume, by path.
    async fn files(&self, pod: &Pod, volume: &Volume) -> Vec<(String, Vec<u8>)> {
        if let Some(from) = &volume.secret {
            assert_eq!(
                (&from.items, from.optional),
                (&None, None),
                "not known here"
            );
            let name = from.secret_name.as_ref().unwrap();
            let secret = self.secret(pod, name).await.expect("the Secret is mounted");
            return secret
                .into_iter()
                .map(|(key, value)| (key, value.0))
                .collect();
        }
        let Some(projected) = &volume.projected else {
            panic!("{volume:?} is not known here");
        };
        let mut files = Vec::new();
        for source in projected.sources.iter().flatten() {
            files.extend(self.projection(pod, source).await);
        }
        files
    }

    async fn projection(&self, pod: &Pod, source: &VolumeProjection) -> Vec<(String, Vec<u8>)> {
        if let Some(token) = &source.service_account_token {
            return vec![(token.path.clone(), self.token(pod, token).await.into())];
        }
        if let Some(from) = &source.config_map {
            let mut data = self
                .config_map(pod, &from.name)
                .await
                .expect("it is mounted");
            let items = from.items.iter().flatten();
            return items
                .map(|item| (item.path.clone(), data.remove(&item.key).unwrap().into()))
                .collect();
        }
        let Some(from) = &source.downward_api else {
            panic!("{source:?} is not known here");
        };
        let items = from.items.iter().flatten();
        items
            .map(|item| {
                let path = &item.field_ref.as_ref().unwrap().field_path;
                (item.path.clone(), field(pod, path).into())
            })
            .collect()
    }

    /// A token of the pod's ServiceAccount, valid as long as the pod exists.
    async fn token(&self, pod: &Pod, wanted: &ServiceAccountTokenProjection) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &namespace(pod));
        let account = pod.spec.as_ref().unwrap().service_account_name.as_ref();
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: wanted.audience.clone().into_iter().collect(),
                expiration_seconds: wanted.expiration_seconds,
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(pod.name_any()),
                    uid: pod.uid(),
                }),
            },
            ..TokenRequest::default()
        };
        let params = PostParams::default();
        let answer = accounts
            .create_token_request(account.unwrap(), &params, &request)
            .await
            .unwrap();
        answer.status.unwrap().token
    }

    async fn secret(&self, pod: &Pod, name: &str) -> Option<BTreeMap<String, ByteString>> {
        let all: Api<Secret> = Api::namespaced(self.client.clone(), &namespace(pod));
        Some(all.get_opt(name).await.unwrap()?.data.unwrap_or_default())
    }

    async fn config_map(&self, pod: &Pod, name: &str) -> Option<BTreeMap<String, String>> {
        let all: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace(pod));
        Some(all.get_opt(name).await.unwrap()?.data.unwrap_or_default())
    }
}

/// User and groups of the container's process.
struct User {
    uid: Option<u32>,
    gid: Option<u32>,
}

impl User {
    fn of(spec: &PodSpec, container: &Container) -> User {
        let pod = spec.security_context.clone().unwrap_or_default();
        let own = container.security_context.clone().unwrap_or_default();
        let uid = own.run_as_user.or(pod.run_as_user);
        let gid = own.run_as_group.or(pod.run_as_group);
        if own.run_as_non_root.or(pod.run_as_non_root) == Some(true) {
            assert!(uid.is_some_and(|uid| uid != 0), "{uid:?} runs as root");
        }
        let number = |id: i64| u32::try_from(id).unwrap();
        // In a user namespace made without root there is no other user.
        if !has_users() {
            println!("the container runs as the only user of this namespace");
            return User {
                uid: None,
                gid: None,
            };
        }
        User {
            uid: uid.map(number),
            gid: gid.map(number),
        }
    }
}

/// Whether the user namespace has more than one user.
fn has_users() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap();
    let count = map.split_whitespace().nth(2);
    count.is_some_and(|count| count != "1")
}

fn namespace(pod: &Pod) -> String {
    pod.namespace().unwrap()
}

fn field(pod: &Pod, path: &str) -> String {
    match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => namespace(pod),
        "spec.nodeName" => pod.spec.as_ref().unwrap().node_name.clone().unwrap(),
        other => panic!("{other} is not known here"),
    }
}

/// `command` and `args` of the container, with variables expanded.
fn words(
    container: &Container,
    entry_point: &str,
    variables: &BTreeMap<String, String>,
) -> Vec<String> {
    let command = match &container.command {
        Some(command) => command.clone(),
        None => vec![entry_point.to_owned()],
    };
    let all = command.iter().chain(container.args.iter().flatten());
    all.map(|word| expanded(word, variables)).collect()
}

/// A text in which `$(NAME)` is replaced where there is such a variable; `$$` is a dollar sign.
fn expanded(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let name = after.strip_prefix('(').and_then(|it| it.split_once(')'));
        let known = name.and_then(|(name, after)| Some((variables.get(name)?, after)));
        (expanded, rest) = match (known, after.strip_prefix('$')) {
            (Some((value, after)), _) => (expanded + value, after),
            (None, Some(after)) => (expanded + "$", after),
            (None, None) => (expanded + "$", after),
        };
    }
    expanded + rest
}

/// The script that makes the container's root and then becomes its process.
fn script(
    folder: &Path,
    container: &Container,
    words: &[String],
    volumes: &BTreeMap<String, PathBuf>,
    user: &User,
) -> String {
    let root = folder.join("root");
    fs::create_dir(&root).unwrap();
    let root = quoted(root.to_str().unwrap());
    let program = quoted(&format!(".{}", words[0]));
    let mut lines = vec![
        "set -eu".to_owned(),
        format!("mount -t tmpfs -o mode=755 tmpfs {root}"),
        format!("cd {root}"),
        "mkdir -p proc dev etc usr".to_owned(),
        "mount -t proc proc proc".to_owned(),
        "mount --rbind /etc etc".to_owned(),
        "for one in null zero random urandom; do touch dev/$one; mount --bind /dev/$one dev/$one; done"
            .to_owned(),
        "for one in usr/lib usr/lib64 lib lib64; do \
         if [ -L /$one ]; then ln -s \"$(readlink /$one)\" $one; \
         elif [ -d /$one ]; then mkdir -p $one; mount --rbind /$one $one; fi; done"
            .to_owned(),
        format!("mkdir -p \"$(dirname {program})\"; touch {program}"),
        format!("mount --bind {} {program}", quoted(env!("CARGO_BIN_EXE_ccm"))),
    ];
    for mount in container.volume_mounts.iter().flatten() {
        assert_eq!(
            (&mount.sub_path, &mount.sub_path_expr),
            (&None, &None),
            "not known here"
        );
        let volume = quoted(volumes[&mount.name].to_str().unwrap());
        let place = quoted(&format!(".{}", mount.mount_path));
        lines.push(format!("mkdir -p {place}; mount --bind {volume} {place}"));
    }
    let own = container.security_context.clone().unwrap_or_default();
    if own.read_only_root_filesystem == Some(true) {
        lines.push("mount -o remount,ro .".to_owned());
    }
    let confined = match own.allow_privilege_escalation {
        Some(false) => "setpriv --no-new-privs ",
        _ => "",
    };
    let whom = match (user.uid, user.gid) {
        (Some(uid), gid) => format!("--userspec={uid}:{} --groups= ", gid.unwrap_or(0)),
        (None, _) => String::new(),
    };
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    lines.push(format!(
        "exec {confined}chroot {whom}{root} {}",
        words.join(" ")
    ));
    lines.join("\n")
}

/// The text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[test]
fn variables_stand_in_words() {
    let variables = BTreeMap::from([("A".to_owned(), "a$(A)".to_owned())]);
    for (text, expected) in [
        ("", ""),
        ("$(A)", "a$(A)"),
        ("-$(A)-$(A)", "-a$(A)-a$(A)"),
        ("$(B) $A $(A", "$(B) $A $(A"),
        ("$$(A) $$", "$(A) $"),
    ] {
        assert_eq!(expanded(text, &variables), expected, "{text}");
    }
}
