//! The cells of Tables that contain names: the printers of a kube-apiserver write them as text, so they are renamed by
//! the name of their column. A merged Table has the columns of the first member; others are mapped by name.

use kubectl_mc_api::ClusterName;
use kubectl_mc_api::fleet::names;
use serde_json::{Value, json};

/// The columns of a Table.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// The names of the columns.
    names: Vec<String>,
    /// The definitions, as the client gets them.
    definitions: Vec<Value>,
}

/// The column with the member, in Tables of a namespace that several members have.
const CLUSTER: &str = "Cluster";

impl Columns {
    /// The columns of a Table without its rows, if it defines any.
    pub fn of(table: &Value) -> Option<Self> {
        let definitions = table.get("columnDefinitions")?.as_array().filter(|all| !all.is_empty())?.clone();
        let name = |column: &Value| column.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self { names: definitions.iter().map(name).collect(), definitions })
    }

    /// The definitions for the client, with the member if `with_cluster`.
    pub fn definitions(&self, with_cluster: bool) -> Value {
        let mut definitions = self.definitions.clone();
        if with_cluster {
            let description = "Member of the fleet that has the object";
            let cluster = json!({"name": CLUSTER, "type": "string", "format": "", "description": description, "priority": 0});
            definitions.insert(0, cluster);
        }
        Value::Array(definitions)
    }

    /// The cells of a member's row, in the order of these columns. `own_name` is the name of a cluster-scoped object.
    pub fn cells(
        &self,
        of_member: &Self,
        cells: Vec<Value>,
        own_name: Option<&str>,
        member: &ClusterName,
        with_cluster: bool,
    ) -> Vec<Value> {
        let mut named: Vec<(&str, Value)> = of_member.names.iter().map(String::as_str).zip(cells).collect();
        for (column, cell) in &mut named {
            if let Some(text) = renamed(column, cell.as_str(), own_name, member) {
                *cell = Value::String(text);
            }
        }
        let mut ordered: Vec<Value> = Vec::with_capacity(self.names.len() + 1);
        if with_cluster {
            ordered.push(member.as_str().into());
        }
        if self.names == of_member.names {
            ordered.extend(named.into_iter().map(|(_, cell)| cell));
            return ordered;
        }
        ordered.extend(self.names.iter().map(|name| {
            let cell = named.iter_mut().find(|(column, _)| column == name);
            cell.map(|(_, cell)| cell.take()).unwrap_or_default()
        }));
        ordered
    }
}

/// The text of a cell in the view, if it changes.
fn renamed(column: &str, text: Option<&str>, own_name: Option<&str>, member: &ClusterName) -> Option<String> {
    let text = text.filter(|text| !text.is_empty() && !text.starts_with('<'))?;
    match column {
        "Name" => own_name.map(str::to_owned),
        "Node" | "Volume" => Some(names::join(text, member)),
        "Claim" => {
            let (namespace, claim) = text.split_once('/')?;
            Some(format!("{}/{claim}", names::join(namespace, member)))
        }
        "Object" if text.starts_with("node/") => Some(names::join(text, member)),
        "Role" if text.starts_with("ClusterRole/") => Some(names::join(text, member)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &[&str]) -> Columns {
        let definitions: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
        Columns::of(&json!({"columnDefinitions": definitions})).unwrap()
    }

    #[test]
    fn cells_with_names_are_renamed() {
        let all = columns(&["Name", "Node", "Volume", "Claim", "Object", "Role", "Age"]);
        let m1 = "m1".parse().unwrap();
        let cells = ["n", "n1", "v", "ns/c", "node/n1", "ClusterRole/r", "5d"].map(Value::from).to_vec();
        let renamed = all.cells(&all, cells, Some("n_m1"), &m1, true);
        let expected = ["m1", "n_m1", "n1_m1", "v_m1", "ns_m1/c", "node/n1_m1", "ClusterRole/r_m1", "5d"];
        assert_eq!(renamed, expected.map(Value::from));
        let plain = ["p", "<none>", "", "-", "pod/p", "Role/r", "5d"].map(Value::from).to_vec();
        assert_eq!(all.cells(&all, plain.clone(), None, &m1, false), plain);
        assert_eq!(all.definitions(true)[0]["name"], "Cluster");
    }

    #[test]
    fn columns_of_another_version_are_mapped_by_name() {
        let (first, other) = (columns(&["Name", "Ready", "Age"]), columns(&["Name", "Age", "Extra"]));
        let cells = ["p", "5d", "x"].map(Value::from).to_vec();
        let mapped = first.cells(&other, cells, None, &"m2".parse().unwrap(), false);
        assert_eq!(mapped, [Value::from("p"), Value::Null, Value::from("5d")]);
        let short = first.cells(&first, vec!["p".into()], None, &"m2".parse().unwrap(), false);
        assert_eq!(short, [Value::from("p")]);
    }
}
