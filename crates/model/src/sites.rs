//! Sites: hosts in several places, and the paths between the places.

use serde::{Deserialize, Serialize};

use crate::path::Path;
use crate::plan::{BadPlan, Plan};

/// A place with hosts of its own: each a network namespace, all of them on one switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// One word: letters, digits, hyphens.
    pub name: String,
    /// Hosts with the target, each with one of its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub servers: u16,
    /// Hosts with engine threads.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub engines: u16,
}

/// A path between two sites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Names of both. `path.out` is from the first to the second.
    pub between: [String; 2],
    /// What lies between.
    #[serde(default)]
    pub path: Path,
}

fn is_zero(number: &u16) -> bool {
    *number == 0
}

// Source: an address is 10.199.SITE.HOST; the switch has .254, the first site 1.
const MOST_SITES: usize = 200;

// Source: see above; servers from .1, engines from .101.
const MOST_HOSTS: u16 = 100;

/// Refuses sites that no network could be made of.
pub(crate) fn check(plan: &Plan) -> Result<(), BadPlan> {
    let wrong = |key, wrong: String| Err(BadPlan::Wrong { key, wrong });
    let (sites, links) = (&plan.sites, &plan.links);
    if sites.is_empty() {
        if !links.is_empty() {
            return wrong("links", "nothing to link: write [[sites]] too".into());
        }
        return Ok(());
    }
    if plan.path.is_some() {
        return wrong("path", "sites have links: write [[links]] with a path each".into());
    }
    if let Some(address) = &plan.target.address {
        return wrong(
            "sites",
            format!("{address} is where it is: write command or beam for a target in namespaces"),
        );
    }
    if sites.len() > MOST_SITES {
        return wrong("sites", format!("{} are too many: {MOST_SITES} at most", sites.len()));
    }
    for (index, site) in sites.iter().enumerate() {
        let name = &site.name;
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 16 || !name.chars().all(is_word) {
            return wrong(
                "sites.name",
                format!("`{name}` is no site's name: write 1 to 16 of a-z, 0-9 and -"),
            );
        }
        if sites[..index].iter().any(|other| other.name == *name) {
            return wrong("sites.name", format!("`{name}` is there twice: write another"));
        }
        if site.servers > MOST_HOSTS || site.engines > MOST_HOSTS {
            return wrong("sites", format!("`{name}` has too many hosts: {MOST_HOSTS} at most"));
        }
    }
    if sites.iter().all(|site| site.servers == 0) {
        return wrong("sites", "no site has servers: write servers = 1 in one".into());
    }
    if sites.iter().all(|site| site.engines == 0) {
        return wrong("sites", "no site has engines: write engines = 1 in one".into());
    }
    let known = |name: &str| sites.iter().any(|site| site.name == name);
    for (index, link) in links.iter().enumerate() {
        let [first, second] = &link.between;
        if let Some(name) = link.between.iter().find(|name| !known(name)) {
            return wrong("links.between", format!("`{name}` is no site: name one of [[sites]]"));
        }
        if first == second {
            return wrong("links.between", format!("`{first}` twice: a link joins two sites"));
        }
        let same = |other: &Link| {
            other.between == link.between || other.between == [second.clone(), first.clone()]
        };
        if links[..index].iter().any(same) {
            return wrong(
                "links.between",
                format!("{first} and {second} are linked twice: keep one of them"),
            );
        }
        link.path.check("links.path")?;
    }
    for from in sites.iter().filter(|site| site.engines > 0) {
        for to in sites.iter().filter(|site| site.servers > 0 && site.name != from.name) {
            let joins =
                |link: &Link| link.between.contains(&from.name) && link.between.contains(&to.name);
            if !links.iter().any(joins) {
                return wrong(
                    "links",
                    format!(
                        "engines of `{}` can't reach servers of `{}`: write a link between them",
                        from.name, to.name
                    ),
                );
            }
        }
    }
    if u32::from(sites.iter().map(|site| site.engines).sum::<u16>()) > plan.load.connections {
        return wrong(
            "load.connections",
            "fewer workers than engine hosts: write one or more for each".into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan, String> {
        let text = format!("[target]\nbeam = 'echo'\n{text}\n");
        Plan::from_toml(&text).map_err(|error| error.to_string())
    }

    const TWO: &str = "[[sites]]\nname = 'east'\nservers = 2\nengines = 1\n\
                       [[sites]]\nname = 'west'\nservers = 2\nengines = 1\n";

    #[test]
    fn two_sites_and_a_link_read_back() {
        let text = format!(
            "{TWO}[[links]]\nbetween = ['east', 'west']\npath = {{ rtt = '10ms', limit = 1000 }}\n"
        );
        let plan = plan(&text).unwrap();
        assert_eq!(plan.servers(), 4);
        assert_eq!(plan.links[0].path.limit, Some(1000));
        assert_eq!(Plan::from_toml(&plan.to_toml()).unwrap(), plan);
    }

    #[test]
    fn sites_that_no_network_could_be_made_of_are_refused_by_key() {
        let linked = format!("{TWO}[[links]]\nbetween = ['east', 'west']\n");
        for (key, text) in [
            ("links: ", TWO.to_owned()),
            ("links: ", "[[links]]\nbetween = ['a', 'b']".to_owned()),
            ("links.between: ", format!("{linked}[[links]]\nbetween = ['west', 'east']\n")),
            ("links.between: ", format!("{linked}[[links]]\nbetween = ['west', 'moon']\n")),
            ("path: ", format!("{linked}[path]\nrtt = '1ms'\n")),
            (
                "links.path: loss: ",
                format!("{TWO}[[links]]\nbetween = ['east', 'west']\npath = {{ loss = '100%' }}\n"),
            ),
            ("sites.name: ", "[[sites]]\nname = 'A b'\nservers = 1\nengines = 1\n".to_owned()),
            ("sites: ", "[[sites]]\nname = 'a'\nservers = 1\n".to_owned()),
            ("sites: ", "[[sites]]\nname = 'a'\nengines = 1\n".to_owned()),
            ("load.connections: ", format!("{linked}[load]\nconnections = 1\n")),
        ] {
            let error = plan(&text).unwrap_err();
            assert!(error.starts_with(key), "{text}: {error}");
        }
    }
}
