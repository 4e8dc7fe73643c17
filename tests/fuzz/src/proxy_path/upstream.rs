//! Reads a path as a kube-apiserver does (apiserver: `endpoints/request/requestinfo.go`).

/// The attributes of a request that authorization uses.
#[derive(Debug, Default)]
pub(super) struct Upstream<'a> {
    pub(super) resource_request: bool,
    pub(super) verb: &'a str,
    group: &'a str,
    version: &'a str,
    pub(super) namespace: &'a str,
    pub(super) resource: &'a str,
    pub(super) name: &'a str,
    pub(super) subresource: &'a str,
}

impl<'a> Upstream<'a> {
    /// None if the kube-apiserver would answer with an error. The verbs that the query decides (list, watch)
    /// are returned as get.
    pub(super) fn read(method: &'a str, path: &'a str) -> Option<Self> {
        let trimmed = path.trim_matches('/');
        let parts: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
        let mut info = Self::default();
        let mut parts = match parts.as_slice() {
            [] | [_] | [_, _] => return Some(info),
            ["api", rest @ ..] => rest,
            ["apis", group, rest @ ..] if rest.len() >= 2 => {
                info.group = group;
                rest
            }
            _ => return Some(info),
        };
        info.resource_request = true;
        info.version = parts[0];
        parts = &parts[1..];
        info.verb = match parts.first() {
            Some(verb @ (&"proxy" | &"watch")) => {
                if parts.len() < 2 {
                    return None;
                }
                parts = &parts[1..];
                verb
            }
            _ => match method {
                "GET" | "HEAD" => "get",
                "POST" => "create",
                "PUT" => "update",
                "PATCH" => "patch",
                "DELETE" => "delete",
                _ => "",
            },
        };
        if let ["namespaces", namespace, rest @ ..] = parts {
            info.namespace = namespace;
            if rest.first().is_some_and(|first| !["status", "finalize"].contains(first)) {
                parts = rest;
            }
        }
        if let [_, _, subresource, ..] = parts
            && info.verb != "proxy"
        {
            info.subresource = subresource;
        }
        info.name = parts.get(1).copied().unwrap_or_default();
        info.resource = parts.first().copied().unwrap_or_default();
        Some(info)
    }

    pub(super) fn is_resource(&self, group: &str, version: &str, resource: &str) -> bool {
        self.resource_request && (self.group, self.version, self.resource) == (group, version, resource)
    }
}
