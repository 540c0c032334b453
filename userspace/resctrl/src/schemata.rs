// SPDX-License-Identifier: GPL-2.0-only
//! The text of a `schemata` file: one line for each resource, with a value for each
//! domain. Lines of resources that this crate does not know stay byte for byte.

use std::fmt;

/// A resource that this crate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// Ways of the last-level cache, as a mask.
    L3,
    /// The same for code, with mount option `cdp`.
    L3Code,
    /// The same for data, with mount option `cdp`.
    L3Data,
    /// Ways of the second-level cache, as a mask.
    L2,
    /// The same for code, with mount option `cdpl2`.
    L2Code,
    /// The same for data, with mount option `cdpl2`.
    L2Data,
    /// Memory bandwidth, in the unit of [`crate::info::Unit`].
    Mb,
    /// Bandwidth of slow memory (AMD, CXL), in 1/8 GB/s.
    Smba,
}

impl Resource {
    /// All resources.
    pub const ALL: [Self; 8] = [
        Self::L3,
        Self::L3Code,
        Self::L3Data,
        Self::L2,
        Self::L2Code,
        Self::L2Data,
        Self::Mb,
        Self::Smba,
    ];

    /// The name in `schemata` and `info`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::L3 => "L3",
            Self::L3Code => "L3CODE",
            Self::L3Data => "L3DATA",
            Self::L2 => "L2",
            Self::L2Code => "L2CODE",
            Self::L2Data => "L2DATA",
            Self::Mb => "MB",
            Self::Smba => "SMBA",
        }
    }

    /// Whether values are masks, in hexadecimal digits.
    pub const fn is_cache(self) -> bool {
        !matches!(self, Self::Mb | Self::Smba)
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    fn value(self, text: &str) -> Option<u32> {
        // from_str_radix() alone would take "+1".
        let radix = if self.is_cache() { 16 } else { 10 };
        let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(text, radix).ok().filter(|_| digits)
    }
}

/// A domain's id: that of its cache. Ids may have gaps.
pub type Domain = u32;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    /// As it was read, or as it will be written. Without a newline.
    text: String,
    /// The resource and its values, if this crate knows both.
    known: Option<(Resource, Vec<(Domain, u32)>)>,
}

/// The content of a `schemata` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schemata {
    lines: Vec<Line>,
    ends_in_newline: bool,
}

/// There is no such resource or domain in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchDomain {
    /// The resource.
    pub resource: Resource,
    /// The domain.
    pub domain: Domain,
}

impl fmt::Display for NoSuchDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, domain } = self;
        write!(
            f,
            "schemata has no domain {domain} of {}; read it again, since CPUs may have gone offline",
            resource.name()
        )
    }
}

impl std::error::Error for NoSuchDomain {}

impl Schemata {
    /// Parses a file's content. Lines that are no known resource with values are kept.
    pub fn parse(text: &str) -> Self {
        let body = text.strip_suffix('\n');
        let lines = match body.unwrap_or(text) {
            "" if body.is_none() => Vec::new(),
            body => body.split('\n').map(Line::parse).collect(),
        };
        Self {
            lines,
            ends_in_newline: body.is_some(),
        }
    }

    /// The values of a resource by domain, in the file's order. Empty: no such line.
    pub fn values(&self, resource: Resource) -> &[(Domain, u32)] {
        self.lines
            .iter()
            .find_map(|line| match &line.known {
                Some((found, values)) if *found == resource => Some(values.as_slice()),
                _ => None,
            })
            .unwrap_or_default()
    }

    /// The value of a resource in a domain.
    pub fn get(&self, resource: Resource, domain: Domain) -> Option<u32> {
        let mut values = self.values(resource).iter();
        values
            .find(|(id, _)| *id == domain)
            .map(|(_, value)| *value)
    }

    /// Changes the value of a resource in a domain.
    ///
    /// # Errors
    /// The file has no such resource or domain.
    pub fn set(
        &mut self,
        resource: Resource,
        domain: Domain,
        value: u32,
    ) -> Result<(), NoSuchDomain> {
        for line in &mut self.lines {
            let Some((found, values)) = &mut line.known else {
                continue;
            };
            let place = values.iter_mut().find(|(id, _)| *id == domain);
            if let (true, Some(place)) = (*found == resource, place) {
                place.1 = value;
                line.text = text(resource, values);
                return Ok(());
            }
        }
        Err(NoSuchDomain { resource, domain })
    }

    /// What to write to a group whose file is `self` so that it becomes `wanted`: only
    /// what differs, since each changed domain costs an interrupt. `None`: nothing.
    pub fn changes(&self, wanted: &Self) -> Option<String> {
        let mut command = String::new();
        for resource in Resource::ALL {
            let differing: Vec<_> = wanted
                .values(resource)
                .iter()
                .filter(|(domain, value)| {
                    self.get(resource, *domain).is_some_and(|now| now != *value)
                })
                .copied()
                .collect();
            if !differing.is_empty() {
                command += &text(resource, &differing);
                command.push('\n');
            }
        }
        Some(command).filter(|command| !command.is_empty())
    }
}

impl fmt::Display for Schemata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.lines.iter().map(|line| line.text.as_str()).collect();
        f.write_str(&lines.join("\n"))?;
        f.write_str(if self.ends_in_newline { "\n" } else { "" })
    }
}

impl Line {
    fn parse(line: &str) -> Self {
        Self {
            text: line.to_owned(),
            known: Self::known(line),
        }
    }

    fn known(line: &str) -> Option<(Resource, Vec<(Domain, u32)>)> {
        let (name, rest) = line.split_once(':')?;
        let resource = Resource::parse(name.trim())?;
        let mut values: Vec<(Domain, u32)> = Vec::new();
        // The kernel writes no semicolon at the end; people do.
        for part in rest.trim().trim_end_matches(';').split(';') {
            let (domain, value) = part.split_once('=')?;
            let domain = Some(domain.trim())
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?
                .parse()
                .ok()?;
            if values.iter().any(|(id, _)| *id == domain) {
                return None;
            }
            values.push((domain, resource.value(value.trim())?));
        }
        Some((resource, values))
    }
}

/// A line, without a newline.
pub(crate) fn text(resource: Resource, values: &[(Domain, u32)]) -> String {
    let values: Vec<_> = values
        .iter()
        .map(|(domain, value)| match resource.is_cache() {
            true => format!("{domain}={value:x}"),
            false => format!("{domain}={value}"),
        })
        .collect();
    format!("{}:{}", resource.name(), values.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two sockets of AMD with slow memory; the kernel pads names and values.
    const AMD: &str = "  SMBA:0=2048;1=2048\n    MB:0=2048;1=  16\n    L3:0=ffff;1=ffff\n";

    #[test]
    fn each_resource_is_read_in_its_base() {
        let text = "L3DATA:0=fffff;1=3c0\nL3CODE:0=10\nL2:4=ff\nMB:0= 10;8=100\nSMBA:0=64\n";
        let schemata = Schemata::parse(text);
        assert_eq!(
            schemata.values(Resource::L3Data),
            [(0, 0xfffff), (1, 0x3c0)]
        );
        assert_eq!(schemata.get(Resource::L3Code, 0), Some(0x10));
        assert_eq!(schemata.get(Resource::L2, 4), Some(0xff));
        assert_eq!(schemata.values(Resource::Mb), [(0, 10), (8, 100)]);
        assert_eq!(schemata.get(Resource::Smba, 0), Some(64));
        assert_eq!(schemata.get(Resource::L3, 0), None);
        assert_eq!(schemata.get(Resource::Mb, 1), None);
        assert_eq!(Schemata::parse(AMD).get(Resource::Mb, 1), Some(16));
    }

    #[test]
    fn what_is_not_changed_stays_byte_for_byte() {
        let text =
            "  MB_HLIM: 0 = 5\n    L3:0=00ff\nnonsense\n\n    MB:0=100;1= 50\nL2:uninitialized";
        let mut schemata = Schemata::parse(text);
        assert_eq!(schemata.to_string(), text);
        assert_eq!(schemata.values(Resource::L2), []);
        schemata.set(Resource::Mb, 1, 20).unwrap();
        assert_eq!(
            schemata.to_string(),
            text.replace("    MB:0=100;1= 50", "MB:0=100;1=20")
        );
    }

    #[test]
    fn only_differences_are_written() {
        let now = Schemata::parse(AMD);
        let mut wanted = now.clone();
        assert_eq!(now.changes(&wanted), None);
        wanted.set(Resource::Mb, 1, 32).unwrap();
        wanted.set(Resource::L3, 0, 0xf0).unwrap();
        assert_eq!(now.changes(&wanted).unwrap(), "L3:0=f0\nMB:1=32\n");
    }

    #[test]
    fn a_missing_domain_or_resource_is_an_error() {
        let mut schemata = Schemata::parse(AMD);
        let error = schemata.set(Resource::Mb, 2, 8).unwrap_err();
        assert_eq!((error.resource, error.domain), (Resource::Mb, 2));
        assert!(error.to_string().contains("no domain 2 of MB"));
        assert!(schemata.set(Resource::L2, 0, 1).is_err());
        assert_eq!(schemata.to_string(), AMD);
    }

    #[test]
    fn a_malformed_line_is_kept_and_has_no_values() {
        for line in [
            "MB",
            "MB:",
            "MB:0",
            "MB:=1",
            "MB:0=",
            "MB:0=x",
            "MB:0=1;0=2",
            "MB:0=1;;1=2",
            "MB:-1=5",
            "MB:+1=5",
            "MB:0=+5",
            "MB:0=4294967296",
            "L3:0=0xff",
            "L3:0=fg",
            ":0=1",
            "XX:0=1",
        ] {
            let schemata = Schemata::parse(line);
            assert_eq!(schemata.to_string(), line);
            assert!(
                Resource::ALL
                    .iter()
                    .all(|resource| schemata.values(*resource).is_empty()),
                "{line}"
            );
        }
    }

    fn resources() -> impl Strategy<Value = Vec<(usize, Vec<(Domain, u32)>)>> {
        let values = prop::collection::btree_map(any::<u32>(), any::<u32>(), 1..6);
        prop::collection::btree_map(0..Resource::ALL.len(), values, 0..6).prop_map(|lines| {
            let list = |values: std::collections::BTreeMap<_, _>| values.into_iter().collect();
            lines
                .into_iter()
                .map(|(resource, values)| (resource, list(values)))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn any_text_is_kept_byte_for_byte(text in "(\\PC|\n|[LMB0-9=;: ])*") {
            prop_assert_eq!(Schemata::parse(&text).to_string(), text);
        }

        #[test]
        fn written_values_are_read_back(lines in resources()) {
            let file: String = lines
                .iter()
                .map(|(resource, values)| text(Resource::ALL[*resource], values) + "\n")
                .collect();
            let schemata = Schemata::parse(&file);
            for (resource, values) in &lines {
                prop_assert_eq!(schemata.values(Resource::ALL[*resource]), values.as_slice());
            }
        }

        #[test]
        fn writing_the_changes_gives_the_wanted_file(lines in resources(), news: Vec<(u8, u8, u32)>) {
            let file: String = lines
                .iter()
                .map(|(resource, values)| text(Resource::ALL[*resource], values) + "\n")
                .collect();
            let now = Schemata::parse(&file);
            let mut wanted = now.clone();
            for (line, place, value) in news {
                let Some((resource, values)) = lines.get(usize::from(line) % lines.len().max(1)) else {
                    continue;
                };
                let domain = values[usize::from(place) % values.len()].0;
                wanted.set(Resource::ALL[*resource], domain, value).unwrap();
            }
            let mut written = now.clone();
            let command = now.changes(&wanted).unwrap_or_default();
            for resource in Resource::ALL {
                for (domain, value) in Schemata::parse(&command).values(resource) {
                    written.set(resource, *domain, *value).unwrap();
                }
            }
            for resource in Resource::ALL {
                prop_assert_eq!(written.values(resource), wanted.values(resource));
            }
        }
    }
}
